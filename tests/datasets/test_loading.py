"""Load data sets from small files."""

import gzip
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from tightgp import datasets
from tightgp.datasets import DatasetError


@pytest.mark.parametrize("name", [name for name in datasets.names() if datasets.describe(name).form == "table"])
def test_table_has_the_target_in_the_last_column(name, data_folder, rng):
    source = replace(datasets.describe(name), rows=7)
    values = rng.normal(size=(7, len(source.inputs) + 1)).round(4)
    text = "\n".join(",".join(f"{v:.5g}" for v in row) for row in values) + "\n"
    (data_folder / source.file).write_bytes(gzip.compress(text.encode()))
    data = datasets.load(source)
    np.testing.assert_array_equal(data.X, np.vectorize(lambda v: float(f"{v:.5g}"))(values[:, :-1]))
    np.testing.assert_array_equal(data.y, [float(f"{v:.5g}") for v in values[:, -1]])
    assert data.X.dtype == data.y.dtype == np.float64
    assert data.columns == source.inputs
    assert data.target == source.target
    assert data.source is source
    assert data.dataset.num_data == 7
    assert repr(data).startswith(f"Loaded({name!r}, N=7, D={len(source.inputs)}")


def test_two_gzip_archives_can_be_concatenated(data_folder):
    source = replace(datasets.describe("song"), rows=2)
    line = ",".join(["1.5"] * 91) + "\n"
    (data_folder / source.file).write_bytes(gzip.compress(line.encode()) + gzip.compress(line.encode()))
    assert datasets.load(source).X.shape == (2, 90)


def test_missing_rows(data_folder):
    (data_folder / "snelson.csv").write_text("x,y\n1.0,2.0\n")
    with pytest.raises(DatasetError, match="it has 1 rows and 1 inputs where 200 and 1 are expected"):
        datasets.load("snelson")


def test_oil(data_folder, rng):
    Y, labels = rng.normal(size=(6, 12)).astype(np.float32), np.array([0, 1, 2, 0, 1, 2], np.uint8)
    np.savez_compressed(data_folder / "three_phase_oil_flow.npz", Y=Y, labels=labels)
    data = datasets.load(replace(datasets.describe("oil"), rows=6))
    np.testing.assert_array_equal(data.X, Y.astype(float))
    np.testing.assert_array_equal(data.y, labels)
    assert data.X.dtype == data.y.dtype == np.float64


def test_pooch_and_pandas_are_imported_only_when_needed(data_folder):
    (data_folder / "snelson.csv").write_text("x,y\n" + "1.5,2.5\n" * 200)
    code = """
import sys
sys.modules["pooch"] = sys.modules["pandas"] = None
from tightgp import datasets
print(datasets.load("snelson").X.shape, datasets.wiggly(5).num_data)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ.copy())
    assert done.stdout.split("\n")[0] == "(200, 1) 5", done.stderr
