import errno
import os

import pytest

from tightgp.io.files import atomic_write


def test_success_replaces_the_file_and_removes_the_temporary_one(tmp_path):
    target = tmp_path / "new" / "a.txt"
    for text in ("one", "two"):
        with atomic_write(target) as temporary:
            temporary.write_text(text)
            assert not target.exists() or target.read_text() == "one"
        assert target.read_text() == text
    assert [p.name for p in target.parent.iterdir()] == ["a.txt"]


def test_permissions_and_symbolic_links_are_preserved(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("old")
    target.chmod(0o600)
    (tmp_path / "link").symlink_to(target)
    with atomic_write(tmp_path / "link") as temporary:
        temporary.write_text("new")
    assert (target.read_text(), target.stat().st_mode & 0o777) == ("new", 0o600)
    assert (tmp_path / "link").is_symlink()
    before = os.umask(0o077)
    try:
        with atomic_write(tmp_path / "b.txt") as temporary:
            temporary.write_text("new")
    finally:
        os.umask(before)
    assert (tmp_path / "b.txt").stat().st_mode & 0o777 == 0o600


def test_failure_keeps_the_old_file(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("old")

    def write_and_fail():
        with atomic_write(target) as temporary:
            temporary.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_and_fail()
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_a_full_disk_names_the_file_and_keeps_the_old_one(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("old")

    def write_and_fail():
        with atomic_write(target):
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left") as caught:
        write_and_fail()
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(target))
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a.txt", "old")]
