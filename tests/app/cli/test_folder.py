"""The folder of a fit: what is refused, and what stays."""

import os
import shutil
import threading

import pytest

import tightgp as tgp
from tests.app.cli.conftest import fit_arguments, run
from tightgp.app.cli.folder import FitFolder
from tightgp.estimators import SparseGPRegressor

fcntl = pytest.importorskip("fcntl")


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
    assert "nothing is left to predict from" in ran.err.splitlines()[-1]
    assert not (tmp_path / "m").exists()


def test_a_second_fit_is_refused_while_one_runs(csv, tmp_path):
    folder = FitFolder(tmp_path / "m")
    folder.lock()
    for more in ([], ["--overwrite"], ["--resume"]):
        ran = run(*fit_arguments(csv, tmp_path / "m"), *more)
        assert ran.code == 2
        assert f"in use by process {os.getpid()} on " in ran.err
    folder.unlock()
    assert not (tmp_path / "m").exists()


def test_a_fit_that_has_only_just_begun_is_named_too(tmp_path):
    """Between taking the lock and writing its name a process may have to wait for a core."""
    lock = tmp_path / ".lock"
    with lock.open("a+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        late = threading.Timer(0.2, lambda: lock.write_text("process 7 on elsewhere"))
        late.start()
        with pytest.raises(ValueError, match="in use by process 7 on elsewhere"):
            FitFolder(tmp_path).lock()
        late.join()
        lock.write_text("")
        with pytest.raises(ValueError, match="in use by another process"):
            FitFolder(tmp_path).lock()


def test_a_folder_that_is_removed_during_a_fit(csv, tmp_path, monkeypatch):
    fitted = SparseGPRegressor.fit

    def fit_and_remove(self, X, y):
        fitted(self, X, y)
        shutil.rmtree(tmp_path / "m")
        return self

    monkeypatch.setattr(SparseGPRegressor, "fit", fit_and_remove)
    ran = run(*fit_arguments(csv, tmp_path / "m"))
    assert ran.code == 4
    assert "was removed or replaced during the fit; the model is in" in ran.err
    (rescued,) = tmp_path.glob("m-rescued-*.safetensors")
    assert rescued.name in ran.err
    assert tgp.load(rescued).n_inducing_ == 6
    assert not (tmp_path / "m").exists()


def test_a_full_disk_ends_a_fit_that_can_be_resumed(csv, tmp_path, monkeypatch):
    import safetensors.numpy

    save = safetensors.numpy.save_file

    def full(tensors, path, header):
        if header["kind"] == "model":
            raise safetensors.SafetensorError("I/O error: No space left on device (os error 28)")
        save(tensors, path, header)

    with monkeypatch.context() as patch:
        patch.setattr(safetensors.numpy, "save_file", full)
        ran = run(*fit_arguments(csv, tmp_path / "m"))
    assert ran.code == 4
    file = tmp_path / "m" / "model.safetensors"
    assert ran.err.splitlines()[-1].startswith(f"error: {file}: No space left on device")
    assert list((tmp_path / "m" / "checkpoint").iterdir())
    assert run(*fit_arguments(csv, tmp_path / "m"), "--resume").code == 0
    assert not (tmp_path / "m" / "checkpoint").exists()
