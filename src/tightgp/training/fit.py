"""`fit`: one function from a model and data to a trained model and an account of how it went."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from threadpoolctl import threadpool_limits

from tightgp import distributed
from tightgp.backend import on_cpu
from tightgp.data import Batches, Dataset
from tightgp.diagnosis import NumericalError
from tightgp.training import adam, arguments, lbfgs, sources, stochastic, team
from tightgp.training.checkpoint import Checkpoint, Section, fingerprint, origin
from tightgp.training.outcome import Outcome, Stop
from tightgp.training.problem import Problem
from tightgp.training.progress import ProgressBar
from tightgp.training.result import FitResult
from tightgp.training.rounds import Rounds
from tightgp.training.stepping import Settings


def fit(
    model,
    data,
    method: str | None = None,
    *,
    steps: int = 1000,
    learning_rate: float | Callable = 0.01,
    natural_rate: float | None = None,
    batch_size: int | None = None,
    epochs: int | None = None,
    validation=None,
    patience: int = 10,
    stream: bool | None = None,
    tolerance: float = 1e-9,
    restarts: int = 0,
    refresh: int = 0,
    seed: int = 0,
    progress: bool = True,
    callback=None,
    checkpoint: str | os.PathLike | None = None,
    checkpoint_seconds: float = 60.0,
    resume: bool = False,
) -> FitResult:
    """Maximise ``model``'s objective on ``data``.

    Args:
        model: what to train; frozen parameters stay, parameters with priors make it MAP estimation.
        data: a `Dataset`, or `Batches` that come one by one.
        method: "lbfgs" (L-BFGS, the default without ``batch_size``), "adam" (the default with it), or "natural":
            natural-gradient steps for q(u), alternated with Adam for the rest.
        steps: most iterations for "lbfgs", exactly this many for the others.
        learning_rate: Adam's step size, or a function of the step that gives it, such as
            ``optax.cosine_decay_schedule(0.01, 5000)``.
        natural_rate: step size of natural gradients; None takes 1 where one step on all rows solves for q
            (Gaussian noise), and 0.1 elsewhere and with minibatches. A step is made smaller where q's covariance
            would not stay positive definite.
        batch_size: train on minibatches of at most so many rows, reshuffled each epoch. Under a bound with blocks,
            such as ``Block(64)``, they are made of whole blocks, at least one, and the blocks are reshuffled. Rows of
            blocks of neighbours resemble each other, and make noisy batches: Adam gets further with
            ``Block(batch_size, partition="random")``.
        epochs: how often minibatches go through the data; None makes up about ``steps`` steps.
        validation: a held-out `Dataset`, scored after each epoch: the best-scoring parameters are returned.
        patience: epochs without a better validation score after which training ends.
        stream: whether minibatches are gathered on the host; None does so for memory-mapped arrays, and for data
            too large for the device.
        tolerance: relative gain of a step under which training counts as converged; L-BFGS then stops.
        restarts: further starts, drawn at random by ``seed``; the best is returned. Not with minibatches.
        refresh: how often, after training, the partition of a bound that groups neighbours (``Block(64)``) is made
            anew by the lengthscales just learnt, and training goes on from there for up to ``steps`` steps more, its
            optimiser started afresh. Objectives of different partitions do not compare: the last partition's best
            is returned, be it lower than an earlier one's. Ends early where the partition stays the same and
            training had converged.
        seed: decides restarts and the order of rows; the same seed gives the same result.
        progress: show a bar, where standard error is a terminal.
        callback: called as ``callback(step, row)`` with a step's scalars, after each L-BFGS iteration, after
            every 50 full-batch steps, and after each epoch; returning True ends training. With ``refresh`` steps are
            counted on, and a row has its ``partition``, as the trace has.
        checkpoint: a file that keeps where training stands: written every ``checkpoint_seconds``, when training
            ends, and on Ctrl-C; always whole, so that the process may be killed at any moment.
            With "lbfgs" it keeps the steps that are remembered, up to 200 numbers a parameter. `Batches` must come in
            the same order again.
        checkpoint_seconds: how long to wait between two writings.
        resume: go on from ``checkpoint`` where it exists, to the same numbers that training without the break
            would have reached. ``steps``, ``epochs``, ``patience``, ``tolerance``, ``restarts`` and ``refresh`` may
            differ from before.

    Returns:
        A `FitResult`. With minibatches its trace has one row an epoch, means over the epoch's steps. Ctrl-C ends
        training and returns the best model so far (with minibatches, the latest; with ``refresh``, the best on the
        latest partition), with the message "interrupted". Where several processes train together (see
        `tightgp.distributed`), every one calls ``fit`` and gets the result; the first alone shows progress, hears
        the callback and writes the checkpoint.
    """
    method = method or ("lbfgs" if batch_size is None else "adam")
    arguments.check(model, method, steps, learning_rate, natural_rate, tolerance, restarts, seed, callback)
    arguments.check_minibatches(model, data, method, batch_size, epochs, validation, patience, stream, restarts)
    arguments.check_refresh(model, refresh, batch_size)
    arguments.check_checkpoint(checkpoint, checkpoint_seconds, resume)
    if natural_rate is None and method == "natural":
        natural_rate = model.natural_rate if batch_size is None else min(0.1, model.natural_rate)
    began = time.perf_counter()
    settings = Settings.of(learning_rate, natural_rate if method == "natural" else None)
    way: dict[str, Any] = {"method": method, "batch_size": batch_size, "seed": int(seed)}
    way["learning_rate"] = _described(learning_rate)
    way["natural_rate"] = None if natural_rate is None else float(natural_rate)
    given = model
    if batch_size is None:
        model, rows = model.prepare(data)
        job: Any = _FullBatch(method, steps, settings, tolerance)
    else:
        model, source = sources.choose(model, data, batch_size, seed, stream)
        way["source"] = type(source).__name__
        way["validation"] = None if validation is None else fingerprint(validation)
        model = model.for_targets((data.first() if isinstance(data, Batches) else data).vector)
        held_out = None if validation is None else _held_out(model, validation)
        rows = source.sample()
        epochs = epochs or -(-steps // source.steps)
        job = _Minibatch(source, epochs, settings, held_out, patience)
    file = None
    if checkpoint is not None:
        file = partial(Checkpoint, Path(checkpoint), checkpoint_seconds, resume, origin(given, data, way))
    run = _Runner(job, progress, callback, refresh)
    if distributed.several():
        team.check(given, data, rows, method, restarts, refresh)
        shared = team.Shared(model, rows)
        return team.together(shared, lambda: _train(lambda _: shared, 0, run, file, data, began), checkpoint)

    def problem(start: int) -> Problem:
        return Problem(model if start == 0 else _another(model, seed, start, rows), rows)

    return _train(problem, restarts, run, file, data, began)


def _train(problem_of: Callable[[int], Problem], restarts: int, run: "_Runner", file, data, began: float) -> FitResult:
    """Train from each start, go on from the best, and tell of all."""
    kept = None if file is None else file()
    runs: list[tuple[Outcome, Problem]] = []
    for start in range(restarts + 1):
        problem = problem_of(start)
        outcome = run(problem, Section(None) if kept is None else kept.section(start))
        runs.append((outcome, problem))
        if outcome.ended:
            break
    best, problem = max(runs, key=lambda run: run[0].objective)
    if best.objective == -np.inf and best.ended:
        best.offer(best.best, problem.at(problem.to_vector(problem.start)).value)
    if best.ended and not len(best.trace):
        best.trace.add({"objective": best.objective})
    if not np.isfinite(best.objective):
        why = problem.model(problem.start).explain(problem.rows)
        raise NumericalError(f"{best.message}\n{why}" if run.job.unit == "epoch" else why)
    rounds, (last, _) = Rounds(distributed.at_home(problem.model(best.best)), best), runs[-1]
    if last.ended:
        rounds.end(last.message)
    elif run.refresh:
        rounds.go_on(data, run.refresh, run, kept)
    return FitResult(
        model=distributed.at_home(rounds.model),
        trace=rounds.trace() if run.refresh else best.trace.arrays(),
        converged=rounds.converged,
        message=rounds.message,
        objective=rounds.objective,
        seconds=time.perf_counter() - began,
        evaluations=sum(outcome.evaluations for outcome, _ in runs) + rounds.evaluations,
        rejected=sum(outcome.rejected for outcome, _ in runs) + rounds.rejected,
        steps=sum(one.steps for one in rounds.kept),
        restarts=[outcome.objective for outcome, _ in runs],
    )


@dataclass(frozen=True)
class _FullBatch:
    """Every step sees all rows."""

    method: str
    steps: int
    settings: Settings
    tolerance: float

    unit = "fit"

    @property
    def length(self) -> int:
        return self.steps

    def __call__(self, problem: Problem, outcome: Outcome, report, section: Section) -> None:
        if self.method == "lbfgs":
            lbfgs.maximise(problem, outcome, self.steps, self.tolerance, report, section)
        else:
            adam.maximise(problem, outcome, self.steps, self.settings, self.tolerance, report, section)


@dataclass(frozen=True)
class _Minibatch:
    """Every step sees a batch."""

    source: Any
    epochs: int
    settings: Settings
    validation: Any
    patience: int

    unit = "epoch"

    @property
    def length(self) -> int:
        return self.epochs

    def __call__(self, problem: Problem, outcome: Outcome, report, section: Section) -> None:
        stochastic.maximise(
            problem, outcome, self.source, self.epochs, self.settings, self.validation, self.patience, report, section
        )


def _described(learning_rate):
    """What tells a learning rate from another: the number, or a schedule's numbers at some steps."""
    if not callable(learning_rate):
        return float(learning_rate)
    return [float(learning_rate(step)) for step in (0, 1, 10, 100, 1000, 10_000)]


def _held_out(model, validation: Dataset):
    """Validation rows on the device."""
    try:
        rows = model.as_batch(validation)
        jax.eval_shape(model.score, rows)
    except ValueError as error:
        raise ValueError(f"validation: {error}") from None
    if np.all(np.isnan(validation.y)):
        raise ValueError("validation has no target that is not missing")
    return jax.tree.map(jnp.asarray, rows)


def _another(model, seed: int, start: int, rows):
    return model.random_start(jax.random.fold_in(jax.random.key(seed), start), rows)


class _Report:
    """What optimisers call to be seen and, after each step worth it, to be stopped."""

    def __init__(self, bar: ProgressBar, callback):
        self._bar, self._callback, self._state = bar, callback, "running"

    def __call__(self, step: int, row: dict[str, float], state: str) -> None:
        self._state = state
        self._bar.update(step, state)
        if self._callback is not None and self._callback(step, row):
            raise Stop

    def within(self, step: float) -> None:
        """Move on between two steps."""
        self._bar.update(step, self._state)


@contextmanager
def _one_blas_thread() -> Iterator[None]:
    """LAPACK's threads wait busily after each small factor, on the cores that the compiled program needs.

    At M = 256 on two cores an evaluation took 160 ms with them and 110 without.
    """
    if not on_cpu():
        yield
        return
    with threadpool_limits(1, "blas"):
        yield


@dataclass(frozen=True)
class _Runner:
    """Runs a job where the user sees it and can end it."""

    job: Any
    progress: bool
    callback: Callable | None
    refresh: int

    def __call__(self, problem: Problem, section: Section, number: int = 0, before: int = 0) -> Outcome:
        """Train on the rows' partition ``number``, when ``before`` steps were taken on those before it."""
        outcome = Outcome(problem.start)
        shown = f"partition {number + 1} of {self.refresh + 1}" if self.refresh else self.job.unit
        with _one_blas_thread(), ProgressBar(self.job.length, self.progress, shown) as bar:
            try:
                self.job(problem, outcome, _Report(bar, self._heard(number, before)), section)
            except KeyboardInterrupt:
                outcome.end("interrupted")
            except Stop:
                outcome.end("stopped by the callback")
            finally:
                section.flush()
        return outcome

    def _heard(self, number: int, before: int) -> Callable | None:
        callback = self.callback
        if callback is None or not self.refresh:
            return callback
        return lambda step, row: callback(before + step, {**row, "partition": number})
