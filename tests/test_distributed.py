"""Real processes on this machine that train together."""

import json

import jax
import numpy as np
import pandas as pd
import pytest

import tightgp as tgp
from tests import processes, workers
from tests.app.cli.conftest import run as run_here
from tests.app.cli.conftest import table
from tightgp import distributed
from tightgp.app.report import Content
from tightgp.estimators.regression_problem import Problem
from tightgp.estimators.start import Start, begin

WORKERS = processes.ROOT / "tests" / "workers.py"


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """The environment variable that names a shared folder for compiled programs."""
    return {"JAX_COMPILATION_CACHE_DIR": tmp_path_factory.mktemp("compiled")}


def run_workers(task, count, folder, **more):
    """Run a task in several processes; returns them and their results."""
    port = processes.port()
    completed = processes.run([[WORKERS, task, i, count, port, folder / task] for i in range(count)], **more)
    files = [folder / f"{task}-{i}.json" for i in range(count)]
    return completed, [json.loads(file.read_text()) if file.exists() else None for file in files]


@pytest.fixture(scope="module")
def one_process():
    """The results of one process with all rows."""
    return workers.compare(slice(None))


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory, cache):
    completed, results = run_workers("compare+neighbours+interrupt+refuse", 2, tmp_path_factory.mktemp("two"), **cache)
    assert [one.code for one in completed] == [0, 0], completed[0].err + completed[1].err
    return results


def check_equal(results, one_process):
    for result in results:
        for name in result.keys() - {"steps"}:
            # Training amplifies rounding, more than a single evaluation does.
            tolerance = 1e-5 if name in ("noise", "lengthscale", "mean", "var", "upper") else 1e-10
            np.testing.assert_allclose(result[name], one_process[name], rtol=tolerance, atol=tolerance, err_msg=name)


def test_two_processes_match_one(two_processes, one_process):
    check_equal([one["compare"] for one in two_processes], one_process)
    assert two_processes[0]["compare"] == two_processes[1]["compare"]
    assert one_process["num_data"] == workers.NUM_ROWS
    assert one_process["steps"] < 60  # it converged


def test_each_process_searches_neighbours_among_its_own_rows(two_processes):
    """The penalty is a sum over blocks, so that of two processes is that of each by itself."""
    rows = np.array_split(np.arange(workers.NUM_ROWS), 2)
    parts = [workers.neighbours(slice(part[0], part[-1] + 1)) for part in rows]
    whole = workers.neighbours(slice(None))
    expected = whole["diagonal"] + sum(part["neighbours"] - part["diagonal"] for part in parts)
    for result in two_processes:
        found = result["neighbours"]
        assert found["diagonal"] == pytest.approx(whole["diagonal"], rel=1e-10)
        assert found["neighbours"] == pytest.approx(expected, rel=1e-9)
        assert found["vecchia"] == pytest.approx(whole["vecchia"], abs=0.05 * workers.NUM_ROWS)
    assert whole["diagonal"] < expected <= whole["neighbours"] + 0.05 * workers.NUM_ROWS


def test_three_processes_match_one(tmp_path, one_process, cache):
    completed, results = run_workers("fit", 3, tmp_path, **cache)
    assert [one.code for one in completed] == [0] * 3, completed[0].err
    check_equal([result["fit"] for result in results], one_process)


def test_interrupt_ends_training_in_every_process(two_processes, one_process):
    first, second = (one["interrupt"] for one in two_processes)
    assert first == second
    assert first["interrupted"]
    assert 0 < first["evaluations"] <= 5
    assert one_process["elbo"] < first["objective"] < one_process["objective"]


def test_errors_are_raised_in_every_process(two_processes):
    for results in two_processes:
        refused = results["refuse"]
        assert "model differs between process 0 and process 1" in refused["models"]
        assert "method='lbfgs' alone" in refused["adam"]
        assert "column 'a' holds numbers in process 0 and text in process 1" in refused["kinds"]
        assert "the columns of X differs between process 0 and process 1" in refused["columns"]
        assert "NaN" in refused["targets"]
        assert 'use method="collapsed"' in refused["minibatch"]
        assert "not SparseGPClassifier" in refused["classes"]
        assert "X has 1 column(s) but Z has 2" in refused["widths"]
        assert "index must hold numbers of rows from 0 to 100" in refused["nowhere"]
        assert "joined already" in refused["again"]
    assert two_processes[0]["refuse"]["targets"].startswith("process 1: ")


def test_training_resumes_after_a_process_died(tmp_path, two_processes, cache):
    file = tmp_path / "fit.safetensors"
    completed, results = run_workers("die", 2, tmp_path, CHECKPOINT=file, **cache)
    assert (completed[0].code, completed[1].code) == (1, -9)
    assert results == [None, None]
    last = completed[0].err.strip().splitlines()[-1]
    assert "LostProcess: process 0 of 2 lost another one" in last
    assert last.endswith(f"{file} keeps where training stood: start all again with resume=True")
    assert "Check failure stack trace" not in completed[0].err
    completed, results = run_workers("resume", 2, tmp_path, CHECKPOINT=file, **cache)
    assert [one.code for one in completed] == [0, 0], completed[0].err
    first = results[0]["resume"]
    assert 0 < first["computed"] <= first["evaluations"] - 6  # evaluations before the checkpoint are not repeated
    for result in results:
        assert result["resume"]["objective"] == two_processes[0]["compare"]["objective"]
        assert result["resume"]["noise"] == two_processes[0]["compare"]["noise"]


@pytest.fixture(scope="module")
def csv(tmp_path_factory):
    """A table with missing cells in the second half only, and a level in the first half only."""
    frame = table(90).drop(columns=["count", "label"])
    frame.loc[60:70, "x"] = np.nan
    frame.loc[:5, "city"] = "Wien"
    path = tmp_path_factory.mktemp("tables") / "table.csv"
    frame.to_csv(path, index=False)
    return path


QUICK = ("--target", "y", "--inducing", 5, "--max-iter", 15)


def fit_in_two_processes(csv, folder, *more, **environment):
    """Run ``tightgp fit`` in two processes."""
    address = f"127.0.0.1:{processes.port()}"
    shared = ["fit", csv, "--out", folder, *QUICK, *more, "--coordinator", address, "--processes", 2, "--process"]
    start = [WORKERS, "command"] if environment.pop("dies", False) else ["-m", "tightgp"]
    return processes.run([[*start, *shared, i] for i in range(2)], **environment)


def test_command_line_fits_the_same_model_with_two_processes(csv, tmp_path, cache, monkeypatch):
    """Several processes start where the inputs' scales say; one alone would search for a better start."""

    def start(self, data):
        names = self.encoding.feature_names
        return Start(*begin(self.estimator.kernel, names, self.features, data.targets, self.settings.seed))

    monkeypatch.setattr(Problem, "_start", start)
    command = run_here(
        "fit",
        csv,
        "--out",
        tmp_path / "one",
        *QUICK,
        "--bound",
        "diagonal",
        "--neighbours",
        0,
        "--noise",
        "gaussian",
        "--json",
    )
    assert command.code == 0, command.err
    first, second = fit_in_two_processes(csv, tmp_path / "two", "--json", **cache)
    assert (first.code, second.code) == (0, 0), first.err + second.err
    assert (first.err, second.out, second.err) == ("", "", "")
    one, two = command.json, json.loads(first.out)
    assert (two["rows"], two["heldout_rows"]) == (one["rows"], one["heldout_rows"]) == (72, 18)
    np.testing.assert_allclose(two["objective"], one["objective"], rtol=1e-6)
    np.testing.assert_allclose(two["evidence_upper"], one["evidence_upper"], rtol=1e-4)
    for name, value in one["scores"].items():
        np.testing.assert_allclose(two["scores"][name], value, rtol=1e-4)
    models = [tgp.load(tmp_path / name / "model.safetensors") for name in ("one", "two")]
    assert models[0].encoding_ == models[1].encoding_
    np.testing.assert_allclose(models[0].scales_, models[1].scales_, rtol=1e-4)
    reports = [Content.from_json((tmp_path / name / "report.json").read_text()) for name in ("one", "two")]
    numbers = [[row.row for row in report.heldout.worst.rows] for report in reports]
    assert numbers[0] == numbers[1]


def test_command_line_resumes_after_a_process_died(csv, tmp_path, cache):
    first, second = fit_in_two_processes(csv, tmp_path / "m", "--max-iter", 40, dies=True, **cache)
    assert (first.code, second.code) == (5, -9), first.err
    lines = [line for line in first.err.splitlines() if line.startswith("error")]
    assert len(lines) == 1
    assert first.err.splitlines()[-1] == lines[0]
    assert "lost another one" in lines[0]
    assert "--resume" in lines[0]
    assert list((tmp_path / "m" / "checkpoint").glob("fit-*.safetensors"))
    first, second = fit_in_two_processes(csv, tmp_path / "m", "--max-iter", 40, "--quiet", **cache)
    assert (first.code, second.code) == (2, 2)
    assert "unfinished fit" in first.err
    assert second.err == ""
    first, second = fit_in_two_processes(csv, tmp_path / "m", "--max-iter", 40, "--resume", "--quiet", **cache)
    assert (first.code, second.code) == (0, 0), first.err
    assert (tmp_path / "m" / "model.safetensors").exists()
    assert not (tmp_path / "m" / "checkpoint").exists()


def test_table_that_one_process_cannot_read(tmp_path, cache):
    pd.DataFrame({"x": range(9), "y": range(9)}).to_csv(tmp_path / "t.csv", index=False)
    address = f"127.0.0.1:{processes.port()}"
    tables = (tmp_path / "t.csv", tmp_path / "missing.csv")
    shared = ["--out", tmp_path / "m", *QUICK, "--coordinator", address, "--processes", 2, "--process"]
    first, second = processes.run([["-m", "tightgp", "fit", one, *shared, i] for i, one in enumerate(tables)], **cache)
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
def test_invalid_arguments_of_start_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        distributed.start(*arguments)


def test_start_reads_environment_variables(monkeypatch):
    monkeypatch.setenv("JAX_COORDINATOR_ADDRESS", "10.0.0.1:80")
    monkeypatch.setenv("JAX_NUM_PROCESSES", "3")
    with pytest.raises(ValueError, match=r"process_id \(or JAX_PROCESS_ID\) must be given too"):
        distributed.start()
    monkeypatch.setenv("JAX_PROCESS_ID", "3")
    with pytest.raises(ValueError, match="process_id must be from 0 to 2"):
        distributed.start()


def test_processes_that_cannot_be_joined_are_lost(monkeypatch):
    monkeypatch.setattr(jax.config, "update", lambda *_: None)

    def initialize(*_, **__):
        raise RuntimeError("DEADLINE_EXCEEDED")

    monkeypatch.setattr(jax.distributed, "initialize", initialize)
    with pytest.raises(distributed.LostProcess, match=r"could not join the others at 10\.0\.0\.1:80") as caught:
        distributed.start("10.0.0.1:80", 2, 1)
    assert caught.value.while_joining
    with pytest.raises(ValueError, match="no cluster was detected"):
        distributed.start()


def test_functions_work_without_start_in_one_process():
    X, _ = workers.make_rows()
    assert not distributed.is_multiprocess()
    assert distributed.is_leader()
    np.testing.assert_array_equal(distributed.gather(X), X)
    np.testing.assert_array_equal(distributed.rows_at(X, np.array([3, 1])), X[[3, 1]])
    assert distributed.gather_bytes(b"a") == [b"a"]
    assert distributed.row_counts(7) == [7]
