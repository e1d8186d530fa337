"""The folder of a fit: what is refused, and what stays."""

from tests.app.cli.conftest import fit_arguments, run


def test_resuming_another_fit_is_refused(csv, tmp_path):
    arguments = fit_arguments(csv, tmp_path / "m")
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "settings.json").write_text('{"version": 1, "table": "a", "target": "z"}')
    ran = run(*arguments, "--resume")
    assert ran.code == 2
    assert "--target was 'z' and is 'y'" in ran.err
    (tmp_path / "m" / "settings.json").write_text("junk")
    assert run(*arguments, "--resume").code == 2


def test_nothing_is_lost_to_a_mistake(csv, tmp_path):
    arguments = fit_arguments(csv, tmp_path / "m")
    assert run(*arguments, "--quiet").code == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "m").iterdir()}
    for wrong in (["--kernel", "nonsense"], ["--max-iter", 0], ["--seed", -1], ["--bound", "tight"]):
        assert run(*arguments, "--overwrite", *wrong).code == 2
        assert {path.name: path.read_bytes() for path in (tmp_path / "m").iterdir()} == before
    (tmp_path / "theirs" / "checkpoint").mkdir(parents=True)
    (tmp_path / "theirs" / "checkpoint" / "weights.bin").write_text("mine")
    (tmp_path / "theirs" / "settings.json").write_text("[1]")
    for extra in ([], ["--overwrite"]):
        ran = run(*arguments[:4], "-o", tmp_path / "theirs", *extra)
        assert ran.code == 2
        assert "no fit of tightgp" in ran.err
    assert (tmp_path / "theirs" / "settings.json").read_text() == "[1]"
    (tmp_path / "page.html").write_text("mine")
    assert run("report", tmp_path / "m", "-o", tmp_path / "page.html").code == 2
    assert (tmp_path / "page.html").read_text() == "mine"


def test_a_fit_that_fails_leaves_no_half_begun_folder(tmp_path):
    rows = "".join(f"text {i},{i % 7}.5\n" for i in range(200))
    (tmp_path / "t.csv").write_text("note,y\n" + rows)
    ran = run("fit", tmp_path / "t.csv", "-t", "y", "-o", tmp_path / "m")
    assert ran.code == 2
    assert "'note' is text with" in ran.err.splitlines()[-1]
    assert not (tmp_path / "m").exists()
