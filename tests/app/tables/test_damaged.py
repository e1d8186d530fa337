"""Random and damaged files: a table or a `TableError`, and nothing else."""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.app.tables.files import fast, npy, npz
from tightgp.app.tables import TableError, read_table, write_table


def read_or_refused(content, suffix, **options):
    """A table or a `TableError` comes of it, and nothing else."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"fuzz{suffix}"
        path.write_bytes(content)
        try:
            frame = read_table(path, progress=False, **options)
        except TableError as error:
            message = str(error)
        else:
            assert frame.shape[0] > 0
            assert all(isinstance(name, str) for name in frame.columns)
            return
    assert message.startswith(f"{path}: ")
    assert message.isprintable()


SUFFIXES = [".csv", ".tsv", ".txt.gz", ".csv.xz", ".csv.bz2", ".csv.zst", ".parquet", ".npy", ".npz"]


@fast
@given(st.binary(max_size=300), st.sampled_from(SUFFIXES))
def test_random_bytes_are_a_table_or_an_error(content, suffix):
    read_or_refused(content, suffix)


@fast
@given(
    st.text(st.sampled_from("ab1290.,;\t|\"'\n\r -+?eNA:é"), max_size=80),
    st.sampled_from([None, ",", ";", " ", "a"]),
    st.sampled_from(["utf-8", "latin-1", "utf-16", "ascii"]),
)
def test_random_text_is_a_table_or_an_error(content, delimiter, encoding):
    read_or_refused(content.encode(), ".csv", delimiter=delimiter, encoding=encoding)


def valid_files():
    frame = pd.DataFrame(
        {"a": [1.5, np.nan, 3], "b": ["x", "y, z", None], "c": np.array(["2020-01-01"] * 3, "M8[us]"), "d": [1, 2, 3]}
    )
    X = np.arange(12.0).reshape(4, 3)
    files = {".npy": npy(X), ".npz": npz(X=X, y=X[:, 0])}
    with tempfile.TemporaryDirectory() as folder:
        for suffix in (".csv", ".tsv", ".csv.gz", ".csv.bz2", ".csv.xz", ".csv.zst", ".parquet"):
            write_table(frame, Path(folder) / f"t{suffix}")
            files[suffix] = (Path(folder) / f"t{suffix}").read_bytes()
    return files


VALID = valid_files()


@st.composite
def mutated(draw):
    """A valid file of some format, with bytes flipped, cut out and put in."""
    suffix = draw(st.sampled_from(sorted(VALID)))
    content = bytearray(VALID[suffix])
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(content)))
        change = draw(st.sampled_from(["flip", "cut", "insert", "end"]))
        if change == "flip" and at < len(content):
            content[at] ^= draw(st.integers(1, 255))
        elif change == "cut":
            del content[at : at + draw(st.integers(1, 20))]
        elif change == "end":
            del content[at:]
        else:
            content[at:at] = draw(st.binary(min_size=1, max_size=10))
    return bytes(content), suffix


@settings(fast, max_examples=400)
@given(mutated())
def test_a_damaged_file_is_a_table_or_an_error(damaged):
    read_or_refused(*damaged)
