"""``tightgp info``."""

from tests.app.cli.conftest import run


def test_info():
    ran = run("info", "--json")
    assert ran.code == 0
    assert ran.json["precision"] == "float64"
    assert ran.json["packages"]["jax"]
    assert "tightgp" in run("info").out
