"""``tightgp fit``."""

import errno
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import tightgp as tgp
from tests.app.cli.conftest import QUICK, fit_arguments, inputs, run, table
from tightgp.app.tables import read_table
from tightgp.io import modelfile


def test_fit_says_what_it_does_and_leaves_a_model_and_a_report(fitted):
    folder, ran = fitted
    assert sorted(p.name for p in folder.iterdir()) == [
        "model.safetensors",
        "report.html",
        "report.json",
        "settings.json",
    ]
    assert "fitting Gaussian noise" in ran.err
    assert "48 rows to fit, 12 held out, 4 input columns" in ran.err
    assert "RMSE" in ran.out
    assert str(folder / "report.html") in ran.out
    page = (folder / "report.html").read_text()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


@pytest.mark.parametrize(
    ("target", "said", "column"),
    [("label", "fitting its 2 classes", "prediction"), ("count", "counts", "mean")],
)
def test_other_likelihoods_are_guessed_and_said(csv, tmp_path, target, said, column):
    others = {"y", "count", "label"} - {target}
    ignored = [part for name in others for part in ("--ignore", name)]
    ran = run("fit", csv, "--target", target, "--out", tmp_path / "m", *ignored, *QUICK)
    assert ran.code == 0, ran.err
    assert said in ran.err
    ran = run("predict", tmp_path / "m", csv, "--out", tmp_path / "p.csv")
    assert ran.code == 0, ran.err
    written = read_table(tmp_path / "p.csv")
    assert column in written
    if target == "label":
        np.testing.assert_allclose(written[["p(high)", "p(low)"]].sum(axis=1), 1)


def test_quiet_json_and_what_is_there_already(csv, tmp_path):
    arguments = fit_arguments(csv, tmp_path / "m")
    ran = run(*arguments, "--json")
    assert (ran.code, ran.err) == (0, "")
    assert ran.json["rows"] == 48
    assert ran.json["heldout_rows"] == 12
    assert ran.json["scores"]["RMSE"] > 0
    ran = run(*arguments)
    assert ran.code == 2
    assert "already holds a model" in ran.err
    again = run(*arguments, "--resume", "--json")
    assert again.code == 0
    before = (tmp_path / "m" / "model.safetensors").read_bytes()
    ran = run(*arguments, "--overwrite", "--quiet")
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    after = tgp.load(tmp_path / "m" / "model.safetensors")
    (tmp_path / "before.safetensors").write_bytes(before)
    np.testing.assert_array_equal(after.predict(inputs()), tgp.load(tmp_path / "before.safetensors").predict(inputs()))
    assert run(*arguments, "--overwrite", "--resume").code == 2


def test_a_full_disk_loses_no_training(csv, tmp_path, monkeypatch):
    arguments = fit_arguments(csv, tmp_path / "m")

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(tmp_path / "m" / "model.safetensors"))

    with monkeypatch.context() as patch:
        patch.setattr(modelfile, "save", full)
        ran = run(*arguments)
    assert ran.code == 4
    assert "model.safetensors: No space left on device" in ran.err.splitlines()[-1]
    assert not (tmp_path / "m" / "model.safetensors").exists()
    assert run(*arguments).code == 2  # not without being told
    with monkeypatch.context() as patch:
        patch.setattr("tightgp.training.objective.Objective.advance", lambda *_: pytest.fail("trained again"))
        ran = run(*arguments, "--resume")
    assert ran.code == 0, ran.err
    assert run(*arguments, "--resume").code == 0  # it is finished
    ran = run(*arguments, "--resume", "--seed", 1)
    assert ran.code == 2
    assert "--seed was 0 and is 1" in ran.err


def test_ctrl_c_leaves_a_model_and_a_checkpoint_from_which_it_goes_on(tmp_path):
    """A real process, a real signal."""
    csv, folder = tmp_path / "table.csv", tmp_path / "m"
    table(100).to_csv(csv, index=False)
    options = ["--inducing", 20, "--ignore", "label", "--ignore", "count", "--max-iter", 8000, "--method", "minibatch"]
    command = [sys.executable, "-m", "tightgp", "fit", csv, "-t", "y", "-o", folder, *options]
    process = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not list(folder.glob("checkpoint/*.safetensors")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.2)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "--resume continues the fit" in err
    estimator = tgp.load(folder / "model.safetensors")
    assert estimator.n_iter_ < 8000
    assert np.isfinite(estimator.predict(inputs(5))).all()
    assert list(folder.glob("checkpoint/*.safetensors"))
    done = subprocess.run([*map(str, command), "--resume"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not (folder / "checkpoint").exists()
    assert tgp.load(folder / "model.safetensors").n_iter_ == 8000


def test_resuming_with_another_table_is_refused(csv, tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_bytes(csv.read_bytes())
    arguments = fit_arguments(path, tmp_path / "m")
    with monkeypatch.context() as patch:
        patch.setattr(modelfile, "save", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
        assert run(*arguments).code == 4
    path.write_bytes(csv.read_bytes().rsplit(b"\n", 2)[0] + b"\n")
    ran = run(*arguments, "--resume")
    assert ran.code == 2
    assert "was written by a fit with other" in ran.err


def test_an_outlier_is_said_with_the_option_that_is_not_swayed_by_it(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, 80)
    y = np.sin(x) + 0.1 * rng.normal(size=80)
    y[:2] = 1e9
    (tmp_path / "t.csv").write_text("x,y\n" + "".join(f"{a},{b}\n" for a, b in zip(x, y, strict=True)))
    arguments = ("fit", tmp_path / "t.csv", "--target", "y", "--target-transform", "none", "--max-iter", "20")
    ran = run(*arguments, "--out", tmp_path / "m", "--holdout", "0", "--noise", "gaussian")
    assert ran.code == 0, ran.err
    assert "--noise student-t" in ran.err
    ran = run(*arguments, "--out", tmp_path / "n", "--holdout", "0", "--noise", "student-t")
    assert ran.code == 0, ran.err
    assert "Student's distribution" in ran.err
    assert "(change: --noise gaussian)" in ran.err
    assert "outliers count little" in (tmp_path / "n" / "report.html").read_text()
    run("predict", tmp_path / "n", tmp_path / "t.csv", "--out", tmp_path / "p.csv")
    predicted = read_table(tmp_path / "p.csv")
    assert np.sqrt(np.mean((predicted["mean"] - np.sin(x)) ** 2)) < 0.1
    ran = run("fit", tmp_path / "t.csv", "--target", "y", "--out", tmp_path / "o", "--noise", "cauchy")
    assert ran.code == 2
    assert "--noise must be auto, gaussian, student-t or heteroscedastic" in ran.err
