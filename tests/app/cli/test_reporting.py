"""``tightgp report``."""

from tests.app.cli.conftest import run


def test_report_is_written_again(fitted, tmp_path):
    folder, _ = fitted
    ran = run("report", folder, "--out", tmp_path / "again.html", "--json")
    assert ran.code == 0
    assert (tmp_path / "again.html").read_text() == (folder / "report.html").read_text()
    assert run("report", tmp_path).code == 2
    (tmp_path / "report.json").write_text("{}")
    ran = run("report", tmp_path)
    assert ran.code == 2
    assert "report.json" in ran.err


def test_the_result_is_ten_plain_lines(fitted):
    _, ran = fitted
    lines = ran.out.splitlines()
    assert len(lines) <= 10
    assert "typical error" in lines[1]
    assert lines[2].startswith("R² ")
    assert any("--max-iter" in line for line in lines)  # it was stopped early: what to try is a command
    assert "nats" not in ran.out
