"""Time L-BFGS itself, without the objective: tightgp's, optax's and SciPy's on the same simple function.

The function is a badly scaled sum of squares and fourth powers, whose value and gradient take almost no time. All three
remember the same number of steps. SciPy calls the function from Python; that time is subtracted.

    python -m benchmarks.optimiser
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax
from rich import box
from rich.console import Console
from rich.table import Table
from scipy.optimize import minimize

from tightgp.training.lbfgs import LBFGS
from tightgp.training.objective import Evaluation, Scalars


def timed(call) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def ours(function, start, steps: int) -> tuple[int, float]:
    """Evaluations and lowest value by tightgp, as in `tightgp.fit`: one program and one transfer an evaluation."""
    optimiser = LBFGS()

    def evaluate(x):
        value, gradient = jax.value_and_grad(function)(x)
        return Evaluation(-value, -gradient, {}, jnp.isfinite(value))

    @jax.jit
    def step(state):
        state, report, _ = optimiser.step(state, evaluate)
        return state, Scalars.of(report._asdict())

    def run(steps):
        state, taken, evaluations = optimiser.init(start), -1, 0
        while taken < steps:
            state, scalars = step(state)
            report = scalars.read()
            taken, evaluations = taken + int(report["accepted"]), evaluations + 1
            if report["failed"]:
                break
        return evaluations, float(state.best_value)

    run(1)
    began = time.perf_counter()
    evaluations, value = run(steps)
    return 1e3 * (time.perf_counter() - began) / evaluations, value


def theirs(function, start, steps: int) -> tuple[float, float]:
    """Steps and lowest value by optax, one program a step."""
    search = optax.scale_by_zoom_linesearch(max_linesearch_steps=20, initial_guess_strategy="one")
    transformation = optax.lbfgs(memory_size=_memory(len(start)), linesearch=search)
    evaluate = optax.value_and_grad_from_state(function)

    @jax.jit
    def step(x, state):
        value, gradient = evaluate(x, state=state)
        update, state = transformation.update(gradient, state, x, value=value, grad=gradient, value_fn=function)
        return optax.apply_updates(x, update), state, value

    def run(steps):
        x, state, value = start, transformation.init(start), np.inf
        for _ in range(steps):
            x, state, value = step(x, state)
            float(value)
        return float(function(x))

    run(1)
    began = time.perf_counter()
    value = run(steps)
    return 1e3 * (time.perf_counter() - began) / steps, value


def scipys(function, start, steps: int) -> tuple[float, float]:
    evaluate = jax.jit(jax.value_and_grad(function))

    def at(x):
        value, gradient = jax.device_get(evaluate(x))
        return float(value), np.asarray(gradient, np.float64)

    x = np.asarray(start)
    at(x)
    alone = min(timed(lambda: at(x)) for _ in range(20))
    options = {"maxiter": steps, "maxfun": 20 * steps, "ftol": 0.0, "gtol": 0.0, "maxcor": _memory(len(x))}
    began = time.perf_counter()
    done = minimize(at, x, jac=True, method="L-BFGS-B", options=options)
    return 1e3 * (time.perf_counter() - began - done.nfev * alone) / max(done.nit, 1), float(done.fun)


def _memory(variables: int) -> int:
    return len(jax.eval_shape(LBFGS().init, jnp.zeros(variables)).memory.steps)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.optimiser", description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--variables", type=int, nargs="+", default=[100, 1000, 8000, 27_000])
    a = parser.parse_args(arguments)
    table = Table(title=f"Milliseconds an evaluation (optax, SciPy: a step), of {a.steps} steps", box=box.SIMPLE_HEAD)
    for column in ("variables", "tightgp", "reached", "optax", "reached", "SciPy", "reached"):
        table.add_column(column, justify="right")
    for n in a.variables:
        weights = jnp.asarray(np.exp(np.random.default_rng(0).uniform(-3, 6, n)))

        def simple(x, weights=weights):
            return jnp.sum(weights * (x - 1) ** 2 + (x - 1) ** 4)

        found = [side(simple, jnp.zeros(n), a.steps) for side in (ours, theirs, scipys)]
        table.add_row(f"{n}", *(cell for took, value in found for cell in (f"{took:.2f}", f"{value:.2g}")))
    Console().print(table)


if __name__ == "__main__":
    main()
