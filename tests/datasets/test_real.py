"""The real files in TIGHTGP_DATA agree with the catalogue."""

import hashlib
import os

import numpy as np
import pytest

from tightgp import datasets

REAL = os.environ.get("TIGHTGP_DATA")
pytestmark = pytest.mark.skipif(not REAL, reason="needs TIGHTGP_DATA; small files of each form are tested elsewhere")


@pytest.fixture
def load(cache, monkeypatch):
    monkeypatch.setenv("TIGHTGP_DATA", str(REAL))

    def load(name):
        if datasets.locate(name) is None:
            pytest.skip(f"{name} is not in TIGHTGP_DATA")
        return datasets.load(name)

    return load


@pytest.mark.parametrize("name", datasets.names())
def test_shape_and_checksum(name, load):
    data = load(name)
    source = datasets.describe(name)
    assert data.X.shape == (source.rows, len(source.inputs))
    assert np.all(np.isfinite(data.X))
    assert np.all(np.isfinite(data.y))
    if source.downloads:
        assert hashlib.sha256(datasets.locate(name).read_bytes()).hexdigest() == source.sha256


def test_nybikes_repeats_thirty_days_seven_times(load):
    data = load("nybikes")
    np.testing.assert_array_equal(data.X, np.tile(data.X[:30], (7, 1)))
    np.testing.assert_array_equal(data.y, np.tile(data.y[:30], 7))


def test_inputs_16_and_17_of_bike_sum_to_the_exponential_of_the_target(load):
    data = load("bike")
    total, power = data.X[:, 15] + data.X[:, 16], np.exp(data.y)
    slope, shift = np.polyfit(power, total, 1)
    assert np.max(np.abs(slope * power + shift - total)) < 0.1


def test_input_10_of_keggundirected_is_constant(load):
    data = load("keggundirected")
    assert [i + 1 for i, column in enumerate(data.X.T) if np.ptp(column) == 0] == [10]


@pytest.mark.parametrize(("name", "distinct"), [("protein", 43972), ("keggdirected", 15811), ("keggundirected", 18451)])
def test_number_of_distinct_rows(name, distinct, load):
    assert len(np.unique(load(name).X, axis=0)) == distinct


def test_labels_of_oil(load):
    assert set(load("oil").y) == {0, 1, 2}
