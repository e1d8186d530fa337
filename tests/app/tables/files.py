"""Files that the tests of tables write, and how a refusal is checked."""

import bz2
import gzip
import io
import lzma

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings

from tightgp.app.tables import TableError, read_table

TEXT = "a,b\n1,x\n2.5,y\n"
FRAME = pd.DataFrame({"a": [1.0, 2.5], "b": ["x", "y"]})

#: Settings of tests with random examples.
fast = settings(
    max_examples=150, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def assert_refused(path, *parts, **options):
    """Reading fails with one line that names the file and contains all ``parts``."""
    with pytest.raises(TableError) as caught:
        read_table(path, **options)
    line = str(caught.value)
    assert line.startswith(f"{path}: ")
    assert "\n" not in line
    assert line.isprintable()
    for part in parts:
        assert part in line


def zstd(data):
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


COMPRESS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstd}


def npz(**arrays):
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def npy(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()
