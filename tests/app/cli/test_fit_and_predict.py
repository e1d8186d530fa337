"""The way of a new user: fit, look, predict, load."""

import errno
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

import tightgp as tgp
from tests.app.cli.conftest import run, table
from tightgp.app.tables import read_table
from tightgp.io import modelfile


def inputs(num_rows=60):
    return table(num_rows).drop(columns=["y", "count", "label"])


QUICK = ("--inducing", 6, "--max-iter", 3)


@pytest.fixture(scope="module")
def fitted(csv, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fits") / "y"
    ran = run("fit", csv, "--target", "y", "--out", folder, "--ignore", "count", "--ignore", "label", *QUICK)
    assert ran.code == 0, ran.err
    return folder, ran


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
    assert "missing cell" in ran.err
    assert "RMSE" in ran.out
    assert str(folder / "report.html") in ran.out
    page = (folder / "report.html").read_text()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_predictions_are_those_of_the_loaded_model(fitted, csv, tmp_path):
    folder, _ = fitted
    out = tmp_path / "predictions.csv"
    ran = run("predict", folder, csv, "--out", out)
    assert ran.code == 0, ran.err
    written = read_table(out)
    assert list(written) == ["row", "mean", "sd", "lower95", "upper95"]
    assert written["row"].tolist() == list(range(2, 62))
    estimator = tgp.load(folder / "model.safetensors")
    mean, sd = estimator.predict(inputs(), return_std=True)
    np.testing.assert_array_equal(written["mean"], mean)
    np.testing.assert_array_equal(written["sd"], sd)
    low, high = estimator.predict_interval(inputs(), 0.95)
    np.testing.assert_array_equal(written[["lower95", "upper95"]], np.stack([low, high], axis=1))
    assert run("predict", folder, csv, "--out", out).code == 2
    assert run("predict", folder, csv, "--out", out, "--overwrite", "--level", 0.5, "--keep").code == 0
    kept = read_table(out)
    assert [*table().columns] == list(kept)[1:8]
    assert (kept["upper50"] - kept["lower50"] < written["upper95"] - written["lower95"]).all()


def test_parquet_in_and_out_and_json(fitted, tmp_path):
    folder, _ = fitted
    table().to_parquet(tmp_path / "new.parquet")
    ran = run(
        "predict", folder / "model.safetensors", tmp_path / "new.parquet", "--out", tmp_path / "p.parquet", "--json"
    )
    assert ran.code == 0, ran.err
    assert ran.json["rows"] == 60
    assert len(pd.read_parquet(tmp_path / "p.parquet")) == 60


def test_a_table_that_lacks_a_column_or_has_new_things(fitted, tmp_path):
    folder, _ = fitted
    table().drop(columns="city").to_csv(tmp_path / "new.csv", index=False)
    ran = run("predict", folder, tmp_path / "new.csv", "--out", tmp_path / "p.csv")
    assert (ran.code, ran.out) == (2, "")
    assert "lacks 1 column(s) that the model was fitted to: 'city'" in ran.err
    assert ran.err.count("\n") == 1
    assert not (tmp_path / "p.csv").exists()
    table().assign(city="Paris").to_csv(tmp_path / "new.csv", index=False)
    ran = run("predict", folder, tmp_path / "new.csv", "--out", tmp_path / "p.csv")
    assert ran.code == 0
    assert "Paris" in ran.err


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


@pytest.mark.parametrize(
    ("target", "said", "column"),
    [("label", "fitting its 2 classes", "prediction"), ("count", "fitting Poisson counts", "mean")],
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
    arguments = ("fit", csv, "-t", "y", "-o", tmp_path / "m", "--ignore", "count", "--ignore", "label", *QUICK)
    ran = run(*arguments, "--json")
    assert (ran.code, ran.err) == (0, "")
    assert ran.json["rows"] == 48
    assert ran.json["heldout_rows"] == 12
    assert ran.json["scores"]["RMSE"] > 0
    ran = run(*arguments)
    assert ran.code == 2
    assert "holds a model already" in ran.err
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
    arguments = ("fit", csv, "-t", "y", "-o", tmp_path / "m", "--ignore", "count", "--ignore", "label", *QUICK)

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(tmp_path / "m" / "model.safetensors"))

    with monkeypatch.context() as patch:
        patch.setattr(modelfile, "save", full)
        ran = run(*arguments)
    assert ran.code == 4
    assert ran.err.splitlines()[-1].endswith("model.safetensors: No space left on device")
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


def test_resuming_another_fit_is_refused(csv, tmp_path):
    arguments = ("fit", csv, "-t", "y", "-o", tmp_path / "m", "--ignore", "count", "--ignore", "label", *QUICK)
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "settings.json").write_text('{"version": 1, "table": "a", "target": "z"}')
    ran = run(*arguments, "--resume")
    assert ran.code == 2
    assert "--target was 'z' and is 'y'" in ran.err
    (tmp_path / "m" / "settings.json").write_text("junk")
    assert run(*arguments, "--resume").code == 2


def test_ctrl_c_leaves_a_model_and_a_checkpoint_from_which_it_goes_on(tmp_path):
    """A real process, a real signal."""
    csv, folder = tmp_path / "table.csv", tmp_path / "m"
    table(100).to_csv(csv, index=False)
    options = ["--inducing", 20, "--ignore", "label", "--ignore", "count", "--max-iter", 2000, "--method", "minibatch"]
    command = [sys.executable, "-m", "tightgp", "fit", csv, "-t", "y", "-o", folder, *options]
    process = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not list(folder.glob("checkpoint/*.safetensors")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.2)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "--resume goes on from here" in err
    estimator = tgp.load(folder / "model.safetensors")
    assert estimator.n_iter_ < 2000
    assert np.isfinite(estimator.predict(inputs(5))).all()
    assert list(folder.glob("checkpoint/*.safetensors"))
    done = subprocess.run([*map(str, command), "--resume"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not (folder / "checkpoint").exists()
    assert tgp.load(folder / "model.safetensors").n_iter_ == 2000


def test_nothing_is_lost_to_a_mistake(csv, tmp_path):
    arguments = ("fit", csv, "-t", "y", "-o", tmp_path / "m", "--ignore", "count", "--ignore", "label", *QUICK)
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
        assert "no fit of tightgp's" in ran.err
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


def test_resuming_with_another_table_is_refused(csv, tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_bytes(csv.read_bytes())
    arguments = ("fit", path, "-t", "y", "-o", tmp_path / "m", "--ignore", "count", "--ignore", "label", *QUICK)
    with monkeypatch.context() as patch:
        patch.setattr(modelfile, "save", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
        assert run(*arguments).code == 4
    path.write_bytes(csv.read_bytes().rsplit(b"\n", 2)[0] + b"\n")
    ran = run(*arguments, "--resume")
    assert ran.code == 2
    assert "is not the table that the fit" in ran.err


def test_models_that_predict_cannot_use(fitted, csv, tmp_path):
    tgp.save(tgp.SparseGPRegressor(), tmp_path / "unfitted.safetensors")
    tgp.save(tgp.SGPR(tgp.kernels.Matern32(), np.zeros((2, 1)), 0.1), tmp_path / "sgpr.safetensors")
    for name, said in (("unfitted", "was not fitted"), ("sgpr", "holds a SGPR")):
        ran = run("predict", tmp_path / f"{name}.safetensors", csv, "-o", tmp_path / "p.csv")
        assert ran.code == 2
        assert said in ran.err
    ran = run("predict", fitted[0], csv, "-o", tmp_path / "p.xlsx")
    assert ran.code == 2
    assert "use the suffix" in ran.err
