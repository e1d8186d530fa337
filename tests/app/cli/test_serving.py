"""``tightgp serve``: what it refuses. The service itself is tested in tests/extras/."""

import sys

from tests.app.cli.conftest import run


def test_the_extra_that_is_missing_is_named(fitted, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    ran = run("serve", fitted[0])
    assert ran.code == 2
    assert "tightgp serve needs the package uvicorn" in ran.err
    assert "pip install 'tightgp[serve]'" in ran.err


def test_a_model_that_is_not_there_is_refused(tmp_path):
    ran = run("serve", tmp_path / "none")
    assert ran.code == 2
    assert "does not exist" in ran.err
    assert run("serve", tmp_path, "--port", 0).code == 2
