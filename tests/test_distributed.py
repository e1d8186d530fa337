"""Several processes, for real, on this machine."""

import json

import numpy as np
import pandas as pd
import pytest

import tightgp as tgp
from tests import processes, workers
from tests.cli.conftest import run as run_here
from tests.cli.conftest import table
from tightgp import distributed

WORKERS = processes.ROOT / "tests" / "workers.py"


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A folder for compiled programs."""
    return {"JAX_COMPILATION_CACHE_DIR": tmp_path_factory.mktemp("compiled")}


def work(task, count, folder, **more):
    """Every process's exit, and what it found."""
    at = processes.port()
    ended = processes.run([[WORKERS, task, i, count, at, folder / task] for i in range(count)], **more)
    files = [folder / f"{task}-{i}.json" for i in range(count)]
    return ended, [json.loads(file.read_text()) if file.exists() else None for file in files]


@pytest.fixture(scope="module")
def alone():
    """What one process finds on all rows."""
    return workers.compare(slice(None))


@pytest.fixture(scope="module")
def two(tmp_path_factory, kept):
    ended, found = work("compare+interrupt+refuse", 2, tmp_path_factory.mktemp("two"), **kept)
    assert [one.code for one in ended] == [0, 0], ended[0].err + ended[1].err
    return found


def check_alike(found, alone):
    for one in found:
        for name in one.keys() - {"steps"}:
            # Training amplifies rounding, more than a single evaluation does.
            tolerance = 1e-5 if name in ("noise", "lengthscale", "mean", "var", "upper") else 1e-10
            np.testing.assert_allclose(one[name], alone[name], rtol=tolerance, atol=tolerance, err_msg=name)


def test_two_processes_find_what_one_does(two, alone):
    check_alike([one["compare"] for one in two], alone)
    assert two[0]["compare"] == two[1]["compare"]
    assert alone["num_data"] == workers.NUM_ROWS
    assert alone["steps"] < 60  # it converged


def test_four_processes_find_what_one_does(tmp_path, alone, kept):
    ended, found = work("few", 4, tmp_path, **kept)
    assert [one.code for one in ended] == [0] * 4, ended[0].err
    check_alike([one["few"] for one in found], alone)


def test_ctrl_c_ends_training_in_every_process(two, alone):
    first, second = (one["interrupt"] for one in two)
    assert first == second
    assert first["message"] == "interrupted"
    assert 0 < first["evaluations"] <= 5
    assert alone["elbo"] < first["objective"] < alone["objective"]


def test_what_differs_or_cannot_be_done_is_refused_in_every_process(two):
    for found in two:
        refused = found["refuse"]
        assert "model differs between process 0 and process 1" in refused["models"]
        assert "method='lbfgs', not 'adam'" in refused["adam"]
        assert "column 'a' holds numbers in process 0 and text in process 1" in refused["kinds"]
        assert "the columns of X differs between process 0 and process 1" in refused["columns"]
        assert "NaN" in refused["targets"]
        assert 'use method="collapsed"' in refused["minibatch"]
        assert "not SparseGPClassifier" in refused["classes"]
        assert "X has 1 column(s) but Z has 2" in refused["widths"]
        assert "index must hold numbers of rows from 0 to 100" in refused["nowhere"]
        assert "joined already" in refused["again"]
    assert two[0]["refuse"]["targets"].startswith("process 1: ")


def test_a_worker_dies_and_training_goes_on_where_it_stood(tmp_path, two, kept):
    file = tmp_path / "fit.safetensors"
    ended, found = work("die", 2, tmp_path, CHECKPOINT=file, **kept)
    assert (ended[0].code, ended[1].code) == (1, -9)
    assert found == [None, None]
    last = ended[0].err.strip().splitlines()[-1]
    assert "LostProcess: process 0 of 2 lost another one" in last
    assert last.endswith(f"{file} keeps where training stood: start all again with resume=True")
    assert "Check failure stack trace" not in ended[0].err
    ended, found = work("keep", 2, tmp_path, CHECKPOINT=file, **kept)
    assert [one.code for one in ended] == [0, 0], ended[0].err
    first = found[0]["keep"]
    assert 0 < first["computed"] <= first["evaluations"] - 6  # what the checkpoint holds is not computed again
    for one in found:
        assert one["keep"]["objective"] == two[0]["compare"]["objective"]
        assert one["keep"]["noise"] == two[0]["compare"]["noise"]


@pytest.fixture(scope="module")
def csv(tmp_path_factory):
    """Cells are missing in the second half alone, and a level occurs in the first alone."""
    frame = table(90).drop(columns=["count", "label"])
    frame.loc[60:70, "x"] = np.nan
    frame.loc[:5, "city"] = "Wien"
    path = tmp_path_factory.mktemp("tables") / "table.csv"
    frame.to_csv(path, index=False)
    return path


QUICK = ("--target", "y", "--inducing", 5, "--max-iter", 15)


def fit_by_two(csv, folder, *more, **environment):
    """The command line in two processes."""
    at = f"127.0.0.1:{processes.port()}"
    shared = ["fit", csv, "--out", folder, *QUICK, *more, "--coordinator", at, "--processes", 2, "--process"]
    start = [WORKERS, "command"] if environment.pop("dies", False) else ["-m", "tightgp"]
    return processes.run([[*start, *shared, i] for i in range(2)], **environment)


def test_the_command_line_fits_the_same_model_with_two_processes(csv, tmp_path, kept):
    ran = run_here("fit", csv, "--out", tmp_path / "one", *QUICK, "--bound", "diagonal", "--neighbours", 0, "--json")
    assert ran.code == 0, ran.err
    first, second = fit_by_two(csv, tmp_path / "two", "--json", **kept)
    assert (first.code, second.code) == (0, 0), first.err + second.err
    assert (first.err, second.out, second.err) == ("", "", "")
    one, two = ran.json, json.loads(first.out)
    assert (two["rows"], two["heldout_rows"]) == (one["rows"], one["heldout_rows"]) == (72, 18)
    np.testing.assert_allclose(two["objective"], one["objective"], rtol=1e-6)
    np.testing.assert_allclose(two["evidence_upper"], one["evidence_upper"], rtol=1e-4)
    for name, value in one["scores"].items():
        np.testing.assert_allclose(two["scores"][name], value, rtol=1e-4)
    models = [tgp.load(tmp_path / name / "model.safetensors") for name in ("one", "two")]
    assert models[0].encoding_ == models[1].encoding_
    np.testing.assert_allclose(models[0].scales_, models[1].scales_, rtol=1e-4)
    reports = [json.loads((tmp_path / name / "report.json").read_text()) for name in ("one", "two")]
    numbers = [[row["row"] for row in report["heldout"]["worst"]["rows"]] for report in reports]
    assert numbers[0] == numbers[1]


def test_the_command_line_loses_a_process_and_goes_on(csv, tmp_path, kept):
    first, second = fit_by_two(csv, tmp_path / "m", "--max-iter", 40, dies=True, **kept)
    assert (first.code, second.code) == (5, -9), first.err
    lines = [line for line in first.err.splitlines() if line.startswith("error")]
    assert len(lines) == 1
    assert first.err.splitlines()[-1] == lines[0]
    assert "lost another one" in lines[0]
    assert "--resume" in lines[0]
    assert list((tmp_path / "m" / "checkpoint").glob("fit-*.safetensors"))
    first, second = fit_by_two(csv, tmp_path / "m", "--max-iter", 40, "--quiet", **kept)
    assert (first.code, second.code) == (2, 2)
    assert "not finished" in first.err
    assert second.err == ""
    first, second = fit_by_two(csv, tmp_path / "m", "--max-iter", 40, "--resume", "--quiet", **kept)
    assert (first.code, second.code) == (0, 0), first.err
    assert (tmp_path / "m" / "model.safetensors").exists()
    assert not (tmp_path / "m" / "checkpoint").exists()


def test_a_table_that_one_process_cannot_read(tmp_path, kept):
    pd.DataFrame({"x": range(9), "y": range(9)}).to_csv(tmp_path / "t.csv", index=False)
    at = f"127.0.0.1:{processes.port()}"
    tables = (tmp_path / "t.csv", tmp_path / "missing.csv")
    shared = ["--out", tmp_path / "m", *QUICK, "--coordinator", at, "--processes", 2, "--process"]
    first, second = processes.run([["-m", "tightgp", "fit", one, *shared, i] for i, one in enumerate(tables)], **kept)
    assert (first.code, second.code) == (4, 4)
    assert first.err.startswith("error: process 1: ")
    assert "missing.csv" in first.err
    assert second.err == ""
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("10.0.0.1:80", 2, None), r"process_id \(or JAX_PROCESS_ID\) must be given too"),
        ((None, 2, 0), r"coordinator \(or JAX_COORDINATOR_ADDRESS\) must be given too"),
        (("10.0.0.1:80", None, 0), r"num_processes \(or JAX_NUM_PROCESSES\) must be given too"),
        (("10.0.0.1", 2, 0), "coordinator must be an address and a port such as '10.0.0.1:7890', got '10.0.0.1'"),
        ((":80", 2, 0), "coordinator must be an address and a port"),
        (("10.0.0.1:http", 2, 0), "coordinator must be an address and a port"),
        (("10.0.0.1:80", 2, 2), "process_id must be from 0 to 1, since num_processes is 2; got 2"),
        (("10.0.0.1:80", 2, -1), "process_id must be from 0 to 1"),
        (("10.0.0.1:80", 0, 0), "num_processes must be a whole number of at least 1"),
        (("10.0.0.1:80", "two", 0), "num_processes must be a whole number, got 'two'"),
    ],
)
def test_arguments_of_start(arguments, message):
    with pytest.raises(ValueError, match=message):
        distributed.start(*arguments)


def test_start_reads_the_environment(monkeypatch):
    monkeypatch.setenv("JAX_COORDINATOR_ADDRESS", "10.0.0.1:80")
    monkeypatch.setenv("JAX_NUM_PROCESSES", "3")
    with pytest.raises(ValueError, match=r"process_id \(or JAX_PROCESS_ID\) must be given too"):
        distributed.start()
    monkeypatch.setenv("JAX_PROCESS_ID", "3")
    with pytest.raises(ValueError, match="process_id must be from 0 to 2"):
        distributed.start()


def test_one_process_needs_no_start():
    X, _ = workers.rows()
    assert not distributed.several()
    assert distributed.leads()
    np.testing.assert_array_equal(distributed.gather(X), X)
    np.testing.assert_array_equal(distributed.rows_at(X, np.array([3, 1])), X[[3, 1]])
    assert distributed.gather_bytes(b"a") == [b"a"]
    assert distributed.counts(7) == [7]
