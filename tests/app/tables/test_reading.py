"""Which file is read by which reader, and files that cannot be read at all."""

import errno
from pathlib import Path

import pytest

from tests.app.tables.files import COMPRESS, TEXT, assert_refused
from tightgp.app.tables import read_table, reading
from tightgp.app.tables.errors import TableFileError


@pytest.mark.parametrize("suffix", [suffix for suffix in COMPRESS if suffix])
def test_damaged_compressed_files(file, suffix):
    data = COMPRESS[suffix](b"a,b\n" + b"".join(b"%d,%d\n" % (i, i * i) for i in range(5000)))
    for broken in (data[: len(data) // 2], b"a,b\n1,2\n" + data):
        assert_refused(file(broken, "table.csv" + suffix), f"is not a complete {suffix} file")


@pytest.mark.parametrize("name", ["t.ods", "t", "t.xml", "t.parquet.gz", "t.gz", ".csv"])
def test_other_suffixes_are_refused(file, name):
    assert_refused(file("a,b\n1,2\n", name), "cannot tell the format", ".csv", ".parquet", ".npz")


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet", ".npy", ".npz"])
def test_files_that_cannot_be_opened(tmp_path, monkeypatch, suffix):
    path = tmp_path / f"table{suffix}"
    with pytest.raises(TableFileError, match="No such file or directory"):
        read_table(path)
    path.mkdir()
    assert_refused(path, "is a folder")
    path.rmdir()
    path.write_bytes(b"")

    def denied(*args, **kwargs):
        raise PermissionError(errno.EACCES, "denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", denied)
    monkeypatch.setattr(Path, "open", denied)
    assert_refused(path, "cannot be read: Permission denied")


def test_a_table_that_does_not_fit_in_memory(file, monkeypatch):
    def exhausted(*args, **kwargs):
        raise MemoryError

    monkeypatch.setattr(reading, "read_text", exhausted)
    assert_refused(file(TEXT), "does not fit in memory")
