"""What each of several processes does in the tests of `tightgp.distributed`: ``python workers.py TASK PROCESS N PORT``.

What it found goes to a file, in JSON.
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
from tightgp.encoding import Encoding
from tightgp.estimators import several
from tightgp.training import team

NUM_ROWS = 101


def rows():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(NUM_ROWS, 2))
    return X, np.sin(X[:, 0]) + np.cos(X[:, 1]) + 0.1 * rng.normal(size=NUM_ROWS)


def model(X, frozen=True):
    made = tgp.SGPR(tgp.kernels.SquaredExponential(1.0, [1.0, 1.0]), distributed.rows_at(X, np.arange(0, 100, 10)), 0.2)
    return tgp.freeze(made, "Z") if frozen else made


def frame():
    """A column of each kind, with cells missing; one part of it has no city and another no number."""
    rng = np.random.default_rng(0)
    made = pd.DataFrame(
        {
            "x": rng.normal(size=NUM_ROWS),
            "whole": rng.integers(0, 9, NUM_ROWS),
            "city": rng.choice(["Oslo", "Rome", "Zürich"], NUM_ROWS),
            "mixed": [[1, "a", 2.0, True][i % 4] for i in range(NUM_ROWS)],
            "kind": pd.Categorical(rng.choice(["u", "v"], NUM_ROWS), categories=["w", "v", "u"]),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 900, NUM_ROWS), "h"),
            "took": pd.to_timedelta(rng.integers(0, 900, NUM_ROWS), "s"),
            "flag": rng.random(NUM_ROWS) < 0.5,
        }
    )
    made.loc[:20, "city"] = None
    made.loc[80:, "x"] = np.nan
    made.loc[5, "day"] = pd.NaT
    made.loc[90, "took"] = pd.NaT
    return made


def compare(part):
    """Objective, gradient, training, posterior, brackets."""
    X, y = rows()
    data = tgp.Dataset(X[part], y[part])
    trace = tgp.fit(model(X[part], frozen=False), data, steps=1, progress=False).trace
    result = tgp.fit(model(X[part]), data, steps=60, tolerance=1e-13, progress=False)
    mean, var = result.model.posterior(data).predict_f(X[:3])
    bracket = result.model.evidence_bracket(data)
    return {
        **few(part),
        "gradient_in_Z": float(trace["gradient_norm"][0]),
        "mean": np.asarray(mean).tolist(),
        "var": np.asarray(var).tolist(),
        "upper": bracket.upper,
        "num_data": bracket.num_data,
    }


def few(part):
    """Objective, gradient, training; and the encoding of a table of every kind."""
    X, y = rows()
    data = tgp.Dataset(X[part], y[part])
    result = tgp.fit(model(X[part]), data, steps=60, tolerance=1e-13, progress=False)
    table = frame()
    assert Encoding.of(table[part].reset_index(drop=True), several.whole_column) == Encoding.of(table)
    assert np.array_equal(distributed.gather(X[part]), X)
    assert sum(distributed.counts(data.num_data)) == NUM_ROWS
    return {
        "elbo": float(result.trace["objective"][0]),
        "gradient": float(result.trace["gradient_norm"][0]),
        "objective": result.objective,
        "steps": result.steps,
        "noise": float(result.model.noise_variance),
        "lengthscale": np.asarray(result.model.kernel.lengthscale).tolist(),
    }


def refuse(part):
    """What must be refused in all processes, so that none waits for ever."""
    X, y = rows()
    number = jax.process_index()
    data = tgp.Dataset(X[part], y[part])
    texts = pd.DataFrame({"a": ["b"] * len(y[part]) if number else y[part]})
    columns = pd.DataFrame({f"x{number}": y[part]})
    bad = y[part].copy()
    bad[:number] = np.nan
    small = {"n_inducing": 4, "max_iter": 2}
    return {
        "models": said(lambda: tgp.fit(tgp.SGPR(tgp.kernels.Matern32(), X[part][:3], 0.1), data, progress=False)),
        "adam": said(lambda: tgp.fit(model(X[part]), data, "adam", steps=2, progress=False)),
        "kinds": said(lambda: tgp.SparseGPRegressor(**small).fit(texts, y[part])),
        "columns": said(lambda: tgp.SparseGPRegressor(**small).fit(columns, y[part])),
        "targets": said(lambda: tgp.SparseGPRegressor(**small).fit(X[part], bad)),
        "minibatch": said(lambda: tgp.SparseGPRegressor(method="minibatch", **small).fit(X[part], y[part])),
        "classes": said(lambda: tgp.SparseGPClassifier(**small).fit(X[part], y[part] > 0)),
        "widths": said(lambda: model(X[part]).elbo(tgp.Dataset(X[part][:, : 2 - number], y[part]))),
        "nowhere": said(lambda: distributed.rows_at(X[part], [-1])),
        "again": said(lambda: distributed.start("127.0.0.1:1", 2, number)),
    }


def said(action) -> str:
    try:
        action()
    except ValueError as error:
        return str(error)
    return "nothing"


def keep(part):
    """Training with a checkpoint."""
    X, y = rows()
    file = os.environ["CHECKPOINT"]
    how = {"checkpoint": file, "resume": os.path.exists(file), "checkpoint_seconds": 0.0}
    computed, at = [], team.Shared.at
    team.Shared.at = lambda self, *given: computed.append(0) or at(self, *given)
    result = tgp.fit(model(X[part]), tgp.Dataset(X[part], y[part]), steps=60, tolerance=1e-13, progress=False, **how)
    found = {"objective": result.objective, "noise": float(result.model.noise_variance)}
    return {**found, "computed": len(computed), "evaluations": result.evaluations}


def interrupt(part):
    """Ctrl-C reaches the first process in the midst of the fifth evaluation."""
    X, y = rows()
    together = distributed.together
    if distributed.leads():
        signal_later(4, signal.SIGINT)
    result = tgp.fit(model(X[part]), tgp.Dataset(X[part], y[part]), steps=60, tolerance=1e-13, progress=False)
    distributed.together = together
    return {"message": result.message, "objective": result.objective, "evaluations": result.evaluations}


def signal_later(evaluations: int, number: int) -> None:
    """From now on the process sends itself a signal after so many evaluations, once."""
    together, left = distributed.together, iter([*[False] * evaluations, True])

    def counted(*arguments):
        if next(left, False):
            os.kill(os.getpid(), number)
        return together(*arguments)

    distributed.together = counted


def command(number: int) -> None:
    """The command line, whose last process dies on the way."""
    from tightgp.cli import main

    if number == 1:
        signal_later(8, signal.SIGKILL)
    main()


if __name__ == "__main__":
    task = sys.argv[1]
    if task == "command":
        sys.argv[:] = ["tightgp", *sys.argv[2:]]
        command(int(sys.argv[-1]))
    number, count, port, out = int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5]
    if task == "die" and number == count - 1:
        signal_later(8, signal.SIGKILL)
    distributed.start(f"127.0.0.1:{port}", count, number)
    share = np.array_split(np.arange(NUM_ROWS), count)[number]
    tasks = {"compare": compare, "few": few, "refuse": refuse, "interrupt": interrupt, "keep": keep, "die": keep}
    found = {name: tasks[name](slice(share[0], share[-1] + 1)) for name in task.split("+")}
    with open(f"{out}-{number}.json", "w") as file:
        json.dump(found, file)
