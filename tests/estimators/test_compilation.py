"""Compiled programs that are kept from one command to the next."""

import json
import os
import subprocess
import sys

import jax
import pytest

from tests import processes
from tests.app.cli.conftest import run, table
from tightgp.estimators import compilation


def tightgp(*arguments, **more):
    """A command in a process of its own, and what it printed."""
    command = [sys.executable, "-m", "tightgp", *map(str, arguments), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, env=processes.environment(**more))
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@pytest.fixture
def no_settings(monkeypatch):
    for name in ("JAX_COMPILATION_CACHE_DIR", "TIGHTGP_COMPILATION_CACHE", "JAX_ENABLE_COMPILATION_CACHE"):
        monkeypatch.delenv(name, raising=False)


def test_a_second_command_finds_what_the_first_compiled(tmp_path):
    cache = {"JAX_COMPILATION_CACHE_DIR": tmp_path / "compiled", "TIGHTGP_COMPILATION_CACHE": 1}
    table(40)[["x", "city", "y"]].to_csv(tmp_path / "t.csv", index=False)
    fit = ["fit", tmp_path / "t.csv", "-t", "y", "--inducing", 4, "--max-iter", 2, "--neighbours", 0, "--overwrite"]
    fit += ["--precision", "mixed"]
    first = tightgp(*fit, "-o", tmp_path / "m", **cache)
    entries = {path.name for path in (tmp_path / "compiled").iterdir()}
    assert len(entries) > 10
    second = tightgp(*fit, "-o", tmp_path / "m", **cache)
    assert {path.name for path in (tmp_path / "compiled").iterdir()} == entries
    assert second["objective"] == first["objective"]
    told = tightgp("info", **cache)["compiled"]
    assert told["on"]
    assert told["folder"] == str(tmp_path / "compiled")
    assert told["entries"] >= len(entries) / 2
    assert told["bytes"] > 0


@pytest.mark.parametrize("why", ["switch", "file"])
def test_without_a_folder_commands_work_all_the_same(tmp_path, why):
    (tmp_path / "file").write_text("")
    folder = tmp_path / "compiled" if why == "switch" else tmp_path / "file" / "compiled"
    more = {"TIGHTGP_COMPILATION_CACHE": 0 if why == "switch" else 1}
    facts = tightgp("info", JAX_COMPILATION_CACHE_DIR=folder, **more)
    assert not facts["compiled"]["on"]
    assert not folder.exists()
    reason = {"switch": "TIGHTGP_COMPILATION_CACHE=0", "file": "cannot be created"}
    assert reason[why] in facts["compiled"]["reason"]
    assert facts["processes"] == 1
    assert "process 0" in facts["devices"][0]


@pytest.mark.usefixtures("no_settings")
def test_a_folder_that_cannot_be_written_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path))
    assert compilation.find_folder() == (tmp_path, "")
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert compilation.find_folder() == (None, f"{tmp_path} cannot be written")


@pytest.mark.usefixtures("no_settings")
def test_without_a_name_the_folder_is_in_the_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(compilation, "cache_folder", lambda: tmp_path / "tightgp")
    assert compilation.find_folder() == (tmp_path / "tightgp" / "compiled" / compilation.processor(), "")
    assert (tmp_path / "tightgp" / "compiled").is_dir()


@pytest.mark.usefixtures("no_settings")
@pytest.mark.parametrize("named", [False, True])
def test_only_the_folder_of_our_own_is_kept_small(tmp_path, monkeypatch, named):
    monkeypatch.setattr(compilation, "cache_folder", lambda: tmp_path)
    if named:
        monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "shared"))
    settings = {}
    monkeypatch.setattr(jax.config, "update", settings.__setitem__)
    compilation.switch_on()
    assert settings["jax_enable_compilation_cache"]
    assert settings.get("jax_compilation_cache_max_size") == (None if named else compilation.MOST_BYTES)


def test_info_shows_it(tmp_path, monkeypatch):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("TIGHTGP_COMPILATION_CACHE", raising=False)
    (tmp_path / "x-cache").write_bytes(b"x")
    assert f"1 programs, 0.0 MB, in {tmp_path}" in run("info").out
    monkeypatch.setenv("TIGHTGP_COMPILATION_CACHE", "0")
    assert "no cache: TIGHTGP_COMPILATION_CACHE=0" in run("info").out
