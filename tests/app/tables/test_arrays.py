"""NumPy files as tables."""

import io
import os
import pickle
import zipfile

import numpy as np
import pandas as pd
import pytest

from tests.app.tables.files import assert_refused, npy, npz
from tightgp.app.tables import read_table


class Trap:
    """What a hostile file would hold."""

    def __reduce__(self):
        return os.abort, ()


@pytest.mark.parametrize("dtype", ["f8", ">f8", "f4", "f2", "i2", ">i4", "u1", "?"])
def test_npy(file, dtype):
    array = np.array([[1, 0], [0, 1], [1, 1]], dtype)
    frame = read_table(file(npy(array), "table.npy"))
    assert list(frame.columns) == ["c0", "c1"]
    np.testing.assert_array_equal(frame.to_numpy(), array)
    assert frame.attrs["header"] is False
    assert frame.dtypes["c0"].isnative


def test_npy_with_fields(file):
    array = np.array([(1.5, "u", "2020-01-01"), (2.5, "v", "2020-01-02")], [("a", ">f8"), ("b", "U3"), ("c", "M8[D]")])
    frame = read_table(file(npy(array), "table.npy"))
    assert list(frame.columns) == ["a", "b", "c"]
    assert frame["a"].tolist() == [1.5, 2.5]
    assert frame["b"].tolist() == ["u", "v"]
    assert frame["c"][1] == pd.Timestamp("2020-01-02")
    assert_refused(file(npy(np.zeros(2, [("a", "f8", 3)])), "table.npy"), "field 'a'")
    assert_refused(
        file(npy(array).replace("u".encode("utf-32-le"), b"\xff" * 4), "table.npy"), "field that cannot be read"
    )


def test_npz(file):
    X, y = np.arange(6.0).reshape(3, 2), np.array([1, 2, 3])
    for content in (npz(X=X, y=y), npz(x=X, y=y[:, None]), npz(X=X, Y=y)):
        frame = read_table(file(content, "table.npz"))
        assert list(frame.columns) == ["x0", "x1", "y"]
        np.testing.assert_array_equal(frame.to_numpy(), np.column_stack([X, y]))
        assert frame.attrs["header"] is False
    assert list(read_table(file(npz(anything=X), "table.npz")).columns) == ["c0", "c1"]
    assert_refused(file(npz(X=X, y=y[:2]), "table.npz"), "array 'y' has shape (2,)", "3 numbers")
    assert_refused(file(npz(X=X, z=y), "table.npz"), "holds the arrays ['X', 'z']")
    assert_refused(file(npz(), "table.npz"), "holds the arrays []")


def zip_with(name, content):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(name, content)
    return out.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.npy", npy(np.arange(3.0)), "has shape (3,)"),
        ("t.npy", npy(np.array([["a"]])), "needs numbers"),
        ("t.npy", npy(np.zeros((2, 2), complex)), "needs numbers"),
        ("t.npy", npy(np.zeros((0, 2))), "no rows"),
        ("t.npy", npy(np.zeros((2, 0))), "no columns"),
        ("t.npy", npy(np.array([[Trap()]])), "pickled objects"),
        ("t.npy", pickle.dumps(Trap()), "is not a complete NumPy file"),
        ("t.npy", npy(np.zeros((9, 9)))[:300], "is not a complete NumPy file"),
        ("t.npy", npy(np.zeros((9, 9)))[:30], "is not a complete NumPy file"),
        ("t.npy", npy(np.zeros((9, 9))).replace(b"9, 9", b"9999999999999, 9"), "is not a complete NumPy file"),
        ("t.npy", b"", "is not a complete NumPy file"),
        ("t.npy", npz(X=np.zeros((2, 2))), "call it .npz"),
        ("t.npz", npy(np.zeros((2, 2))), "is not an .npz archive"),
        ("t.npz", npz(X=np.array([[Trap()]])), "pickled objects"),
        ("t.npz", pickle.dumps(Trap()), "is not an .npz archive"),
        ("t.npz", npz(X=np.zeros((9, 9)))[:200], "is not a complete .npz archive"),
        ("t.npz", b"PK\x03\x04 no zip", "is not a complete .npz archive"),
        ("t.npz", b"no zip", "is not an .npz archive"),
        ("t.npz", zip_with("X.npy", b"no array"), "holds 'X', which is not an array"),
        ("t.npz", zip_with("readme.txt", b"no array"), "holds 'readme.txt', which is not an array"),
    ],
)
def test_malformed_arrays_are_refused_and_run_no_code(file, name, content, message):
    assert_refused(file(content, name), message)
