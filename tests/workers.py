"""The processes in the tests of `tightgp.distributed`: ``python workers.py TASKS PROCESS_ID NUM_PROCESSES PORT OUT``.

TASKS are names of functions, joined by "+". Their results are written to the JSON file OUT-PROCESS_ID.json.
"""

import json
import os
import signal
import sys

import jax
import numpy as np
import pandas as pd

import tightgp as tgp
from tightgp import distributed
from tightgp.estimators import processes
from tightgp.estimators.encoding import Encoding
from tightgp.training import team

NUM_ROWS = 101


def make_rows():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(NUM_ROWS, 2))
    return X, np.sin(X[:, 0]) + np.cos(X[:, 1]) + 0.1 * rng.normal(size=NUM_ROWS)


def make_model(X, frozen=True):
    model = tgp.SGPR(
        tgp.kernels.SquaredExponential(1.0, [1.0, 1.0]), distributed.rows_at(X, np.arange(0, 100, 10)), 0.2
    )
    return tgp.freeze(model, "Z") if frozen else model


def make_table():
    """A table with a column of each kind and with missing cells; the first rows have no city, the last no number."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "x": rng.normal(size=NUM_ROWS),
            "whole": rng.integers(0, 9, NUM_ROWS),
            "city": rng.choice(["Oslo", "Rome", "Zürich"], NUM_ROWS),
            "mixed": [[1, "a", 2.0, True][i % 4] for i in range(NUM_ROWS)],
            "kind": pd.Categorical(rng.choice(["u", "v"], NUM_ROWS), categories=["w", "v", "u"]),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 900, NUM_ROWS), "h"),
            "duration": pd.to_timedelta(rng.integers(0, 900, NUM_ROWS), "s"),
            "flag": rng.random(NUM_ROWS) < 0.5,
        }
    )
    table.loc[:20, "city"] = None
    table.loc[80:, "x"] = np.nan
    table.loc[5, "day"] = pd.NaT
    table.loc[90, "duration"] = pd.NaT
    return table


def compare(part):
    """Results of training, predictions and the evidence bracket."""
    X, y = make_rows()
    data = tgp.Dataset(X[part], y[part])
    trace = tgp.fit(make_model(X[part], frozen=False), data, steps=1, progress=False).trace
    result = tgp.fit(make_model(X[part]), data, steps=60, tolerance=1e-13, progress=False)
    mean, var = result.model.posterior(data).predict_f(X[:3])
    bracket = result.model.evidence_bracket(data)
    return {
        **fit(part),
        "gradient_in_Z": float(trace["gradient_norm"][0]),
        "mean": np.asarray(mean).tolist(),
        "var": np.asarray(var).tolist(),
        "upper": bracket.upper,
        "num_data": bracket.num_data,
    }


def fit(part):
    """Results of training; checks the encoding of a table with columns of every kind."""
    X, y = make_rows()
    data = tgp.Dataset(X[part], y[part])
    result = tgp.fit(make_model(X[part]), data, steps=60, tolerance=1e-13, progress=False)
    table = make_table()
    assert Encoding.fit(table[part].reset_index(drop=True), processes.read_all) == Encoding.fit(table)
    assert np.array_equal(distributed.gather(X[part]), X)
    assert sum(distributed.row_counts(data.num_data)) == NUM_ROWS
    return {
        "elbo": float(result.trace["objective"][0]),
        "gradient": float(result.trace["gradient_norm"][0]),
        "objective": result.objective,
        "steps": result.steps,
        "noise": float(result.model.noise_variance),
        "lengthscale": np.asarray(result.model.kernel.lengthscale).tolist(),
    }


def neighbours(part):
    """Objectives without and with neighbours, which each process searches among its own rows."""
    X, y = make_rows()
    data, Z = tgp.Dataset(X[part], y[part]), make_rows()[0][:10]
    kernel = tgp.kernels.SquaredExponential(1.0, [1.0, 1.0])
    bounds = {"diagonal": "diagonal", "neighbours": tgp.Neighbours(6, block=4), "vecchia": tgp.Vecchia(6, block=4)}
    return {name: float(tgp.SGPR(kernel, Z, 0.2, bound=bound).elbo(data)) for name, bound in bounds.items()}


def refuse(part):
    """The messages of errors that every process must raise, so that none waits for the others."""
    X, y = make_rows()
    process = jax.process_index()
    data = tgp.Dataset(X[part], y[part])
    texts = pd.DataFrame({"a": ["b"] * len(y[part]) if process else y[part]})
    columns = pd.DataFrame({f"x{process}": y[part]})
    bad = y[part].copy()
    bad[:process] = np.nan
    small = {"n_inducing": 4, "max_iter": 2}
    return {
        "models": message_of(lambda: tgp.fit(tgp.SGPR(tgp.kernels.Matern32(), X[part][:3], 0.1), data, progress=False)),
        "adam": message_of(lambda: tgp.fit(make_model(X[part]), data, "adam", steps=2, progress=False)),
        "kinds": message_of(lambda: tgp.SparseGPRegressor(**small).fit(texts, y[part])),
        "columns": message_of(lambda: tgp.SparseGPRegressor(**small).fit(columns, y[part])),
        "targets": message_of(lambda: tgp.SparseGPRegressor(**small).fit(X[part], bad)),
        "minibatch": message_of(lambda: tgp.SparseGPRegressor(method="minibatch", **small).fit(X[part], y[part])),
        "classes": message_of(lambda: tgp.SparseGPClassifier(**small).fit(X[part], y[part] > 0)),
        "widths": message_of(lambda: make_model(X[part]).elbo(tgp.Dataset(X[part][:, : 2 - process], y[part]))),
        "nowhere": message_of(lambda: distributed.rows_at(X[part], [-1])),
        "again": message_of(lambda: distributed.start("127.0.0.1:1", 2, process)),
    }


def message_of(action) -> str:
    """The message of the ValueError that ``action`` raises."""
    try:
        action()
    except ValueError as error:
        return str(error)
    return "no error"


def checkpointed_fit(part):
    """Train with a checkpoint, continuing from it if there is one."""
    X, y = make_rows()
    file = os.environ["CHECKPOINT"]
    options = {"checkpoint": file, "resume": os.path.exists(file), "checkpoint_seconds": 0.0}
    calls, advance = [], team.SharedObjective.advance
    team.SharedObjective.advance = lambda self, *arguments: calls.append(0) or advance(self, *arguments)
    result = tgp.fit(
        make_model(X[part]), tgp.Dataset(X[part], y[part]), steps=60, tolerance=1e-13, progress=False, **options
    )
    noise = float(result.model.noise_variance)
    counts = {"computed": len(calls), "evaluations": result.evaluations}
    return {"objective": result.objective, "noise": noise, **counts}


def interrupt(part):
    """Train; the first process receives Ctrl-C during the fifth evaluation."""
    X, y = make_rows()
    run_together = distributed.run_together
    if distributed.is_leader():
        signal_later(4, signal.SIGINT)
    result = tgp.fit(make_model(X[part]), tgp.Dataset(X[part], y[part]), steps=60, tolerance=1e-13, progress=False)
    distributed.run_together = run_together
    return {
        "message": result.message,
        "interrupted": result.interrupted,
        "objective": result.objective,
        "evaluations": result.evaluations,
    }


def signal_later(evaluations: int, number: int) -> None:
    """Send a signal to this process once, after this many evaluations."""
    run_together, turns = distributed.run_together, iter([*[False] * evaluations, True])

    def counted(*arguments):
        if next(turns, False):
            os.kill(os.getpid(), number)
        return run_together(*arguments)

    distributed.run_together = counted


def command(process: int) -> None:
    """Run the command line; its last process dies during training."""
    from tightgp.app.cli import main

    if process == 1:
        signal_later(8, signal.SIGKILL)
    main()


if __name__ == "__main__":
    task = sys.argv[1]
    if task == "command":
        sys.argv[:] = ["tightgp", *sys.argv[2:]]
        command(int(sys.argv[-1]))
    process, count, port, out = int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5]
    if task == "die" and process == count - 1:
        signal_later(8, signal.SIGKILL)
    distributed.start(f"127.0.0.1:{port}", count, process)
    rows = np.array_split(np.arange(NUM_ROWS), count)[process]
    tasks = {"compare": compare, "fit": fit, "neighbours": neighbours, "refuse": refuse, "interrupt": interrupt}
    tasks |= {"resume": checkpointed_fit, "die": checkpointed_fit}
    results = {name: tasks[name](slice(rows[0], rows[-1] + 1)) for name in task.split("+")}
    with open(f"{out}-{process}.json", "w") as file:
        json.dump(results, file)
