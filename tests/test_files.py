import pytest

from tightgp.files import written_whole


def test_success_replaces_the_file_and_leaves_nothing_else(tmp_path):
    target = tmp_path / "new" / "a.txt"
    for text in ("one", "two"):
        with written_whole(target) as temporary:
            temporary.write_text(text)
            assert not target.exists() or target.read_text() == "one"
        assert target.read_text() == text
    assert [p.name for p in target.parent.iterdir()] == ["a.txt"]


def test_failure_keeps_the_old_file(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("old")

    def fail_halfway():
        with written_whole(target) as temporary:
            temporary.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_halfway()
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]
