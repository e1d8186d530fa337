"""Programs that are kept from one command to the next."""

import json
import os
import subprocess
import sys

import pytest

from tests import processes
from tests.app.cli.conftest import run, table
from tightgp.app.cli.compilation import Kept


def tightgp(*arguments, **more):
    """A command in a process of its own, and what it printed."""
    command = [sys.executable, "-m", "tightgp", *map(str, arguments), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, env=processes.environment(**more))
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_a_second_command_finds_what_the_first_compiled(tmp_path):
    kept = {"JAX_COMPILATION_CACHE_DIR": tmp_path / "compiled"}
    table(40)[["x", "city", "y"]].to_csv(tmp_path / "t.csv", index=False)
    fit = ["fit", tmp_path / "t.csv", "-t", "y", "--inducing", 4, "--max-iter", 2, "--neighbours", 0, "--overwrite"]
    fit += ["--precision", "mixed"]
    first = tightgp(*fit, "-o", tmp_path / "m", **kept)
    entries = {path.name for path in (tmp_path / "compiled").iterdir()}
    assert len(entries) > 10
    second = tightgp(*fit, "-o", tmp_path / "m", **kept)
    assert {path.name for path in (tmp_path / "compiled").iterdir()} == entries
    assert second["objective"] == first["objective"]
    told = tightgp("info", **kept)["compiled"]
    assert told["on"]
    assert told["folder"] == str(tmp_path / "compiled")
    assert told["entries"] >= len(entries)
    assert told["bytes"] > 0


@pytest.mark.parametrize("why", ["switch", "file"])
def test_without_a_folder_commands_work_all_the_same(tmp_path, why):
    (tmp_path / "file").write_text("")
    folder = tmp_path / "compiled" if why == "switch" else tmp_path / "file" / "compiled"
    more = {"TIGHTGP_COMPILATION_CACHE": 0} if why == "switch" else {}
    facts = tightgp("info", JAX_COMPILATION_CACHE_DIR=folder, **more)
    assert not facts["compiled"]["on"]
    assert not folder.exists()
    said = {"switch": "TIGHTGP_COMPILATION_CACHE=0", "file": "cannot be made"}
    assert said[why] in facts["compiled"]["why"]
    assert facts["processes"] == 1
    assert "process 0" in facts["devices"][0]


def test_a_folder_that_cannot_be_written_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("TIGHTGP_COMPILATION_CACHE", raising=False)
    assert Kept.now() == Kept(tmp_path, True)
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert Kept.now() == Kept(tmp_path, False, "its folder cannot be written")


def test_without_a_name_the_folder_is_in_the_cache(tmp_path, monkeypatch):
    for name in ("JAX_COMPILATION_CACHE_DIR", "TIGHTGP_COMPILATION_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("tightgp.datasets.download.cache_folder", lambda: tmp_path / "tightgp")
    assert Kept.now() == Kept(tmp_path / "tightgp" / "compiled", True)
    assert (tmp_path / "tightgp" / "compiled").is_dir()


def test_what_was_not_used_for_longest_goes_first(tmp_path):
    (tmp_path / "mine").mkdir()
    for name in ("thesis.tex", "mine/old-cache"):  # what is not JAX's own is left alone
        (tmp_path / name).write_bytes(bytes(1000))
        os.utime(tmp_path / name, (0, 0))
    for i in range(8):
        path = tmp_path / f"program{i}-cache"
        path.write_bytes(bytes(100))
        os.utime(path, (1000 * ((3 * i) % 8), 0))
    kept = Kept(tmp_path, True)
    kept.shrink(800)
    assert (kept.entries, kept.size) == (8, 800)
    kept.shrink(799)
    left = {path.name for path in tmp_path.rglob("*")} - {"mine", "old-cache", "thesis.tex"}
    assert (tmp_path / "thesis.tex").exists()
    assert (tmp_path / "mine" / "old-cache").exists()
    assert left == {f"program{i}-cache" for i in range(8) if (3 * i) % 8 >= 3}
    assert kept.size <= 0.75 * 799


def test_info_shows_it(tmp_path, monkeypatch):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("TIGHTGP_COMPILATION_CACHE", raising=False)
    (tmp_path / "x-cache").write_bytes(b"x")
    assert f"1 programs, 0.0 MB, kept in {tmp_path}" in run("info").out
    monkeypatch.setenv("TIGHTGP_COMPILATION_CACHE", "0")
    assert "not kept: TIGHTGP_COMPILATION_CACHE=0" in run("info").out
