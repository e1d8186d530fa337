"""What L-BFGS itself takes, apart from the function: tightgp's against SciPy's L-BFGS-B, on the same simple function.

A badly scaled sum of squares and fourth powers, whose value and gradient take next to no time; SciPy remembers 20
steps, as many as tightgp at least. The time of the function alone is taken off.

    python -m benchmarks.optimiser
"""

import argparse
import time

import jax
import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from scipy.optimize import minimize

from tightgp.training import lbfgs
from tightgp.training.checkpoint import Section
from tightgp.training.curvature import at_once, held
from tightgp.training.outcome import Outcome
from tightgp.training.problem import Evaluation


@at_once
def _simple(x, weights):
    off = x - 1
    return -(weights * off**2 + off**4).sum(), -(2 * weights * off + 4 * off**3)


class Simple:
    """As much of a problem as L-BFGS sees."""

    def __init__(self, variables: int):
        self.start = np.zeros(variables)
        self.weights = held(np.exp(np.random.default_rng(0).uniform(-3, 6, variables)))

    def to_vector(self, point):
        return point

    from_vector = to_vector

    def at(self, x, also=None) -> Evaluation:
        value, gradient = _simple(x, self.weights)
        value, more = jax.device_get((value, None if also is None else also(gradient)))
        return Evaluation(float(value), gradient, {}, True, more)


def timed(call) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.optimiser", description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--variables", type=int, nargs="+", default=[100, 1000, 8000, 27_000])
    a = parser.parse_args(arguments)
    table = Table(title=f"Milliseconds a step, of {a.steps}", box=box.SIMPLE_HEAD)
    for column in ("variables", "tightgp", "reached", "SciPy", "reached", "SciPy / tightgp"):
        table.add_column(column, justify="right")
    for n in a.variables:
        problem = Simple(n)
        x = held(problem.start)
        problem.at(x)
        alone = min(timed(lambda p=problem, x=x: p.at(x)) for _ in range(20))

        outcome = Outcome(problem.start)
        lbfgs.maximise(problem, Outcome(problem.start), 3, 0.0, lambda *_: None, Section(None))
        ours = timed(lambda p=problem, o=outcome: lbfgs.maximise(p, o, a.steps, 0.0, lambda *_: None, Section(None)))
        ours = (ours - outcome.evaluations * alone) / outcome.steps

        def negated(x, problem=problem):
            value, gradient, *_ = problem.at(x)
            return -value, -np.asarray(gradient)

        options = {"maxiter": a.steps, "maxfun": 20 * a.steps, "ftol": 0.0, "gtol": 0.0, "maxcor": 20}
        began = time.perf_counter()
        done = minimize(negated, problem.start, jac=True, method="L-BFGS-B", options=options)
        theirs = (time.perf_counter() - began - done.nfev * alone) / done.nit
        row = (f"{1e3 * ours:.2f}", f"{-outcome.objective:.2g}", f"{1e3 * theirs:.2f}", f"{done.fun:.2g}")
        table.add_row(f"{n}", *row, f"{theirs / ours:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
