"""`fit`: train a model on data."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax

from tightgp import distributed
from tightgp.data import Batches, Dataset
from tightgp.data.placement import OnDevice, on_device
from tightgp.numerics.linalg import NumericalError
from tightgp.numerics.threads import one_blas_thread
from tightgp.progress import ProgressBar
from tightgp.training import arguments, minibatches, team
from tightgp.training.checkpoint import Checkpoint, fingerprint, origin
from tightgp.training.epochs import MinibatchJob
from tightgp.training.first_order import FirstOrder
from tightgp.training.full_batch import FirstOrderJob, LBFGSJob
from tightgp.training.objective import Objective
from tightgp.training.result import FitResult
from tightgp.training.rounds import Rounds
from tightgp.training.run import Job, Progress, run


def fit(
    model,
    data,
    method: str | optax.GradientTransformation | None = None,
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
    min_gain: float = 0.0,
    time_limit: float | None = None,
    restarts: int | Sequence = 0,
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
        model: what to train. Frozen parameters stay; parameters with priors make it MAP estimation.
        data: a `Dataset`, or ``(X, y)`` for one, or `Batches`.
        method: "lbfgs" (the default without ``batch_size``), "adam" (the default with it), "natural" (natural-gradient
            steps for q(u), alternated with Adam for the rest), or any optax transformation such as
            ``optax.adamw(1e-2)``, which brings its own learning rate.
        steps: most iterations for "lbfgs"; exactly this many for the others.
        learning_rate: Adam's, or a function of the step that gives it, such as
            ``optax.cosine_decay_schedule(0.01, 5000)``.
        natural_rate: step size of natural gradients. None takes 1 where one step on all rows solves for q (Gaussian
            noise), and 0.1 elsewhere and with minibatches. A step is made smaller where q's covariance would not stay
            positive definite.
        batch_size: train on minibatches of at most so many rows, reshuffled each epoch. Under a bound with blocks,
            such as ``Block(64)``, they are made of whole blocks, at least one. Rows of blocks of neighbours resemble
            each other and make noisy batches: Adam gets further with ``Block(batch_size, partition="random")``.
        epochs: passes through the data, with minibatches; None makes up about ``steps`` steps.
        validation: a held-out `Dataset`, scored after each epoch; the parameters with the best score are returned.
        patience: epochs without a better validation score after which training ends.
        stream: whether minibatches are gathered on the host. None does so for memory-mapped arrays, and for data too
            large for the device.
        tolerance: relative gain of a step under which training counts as converged; L-BFGS then stops.
        min_gain: nats that five iterations of L-BFGS must gain together; otherwise training counts as converged. 0 asks
            for none.
        time_limit: seconds after which training ends, once the evaluation or run of steps under way is done; the best
            model so far is returned.
        restarts: further starts: how many to draw at random by ``seed``, or models like ``model`` themselves. The best
            is returned. Not with minibatches.
        refresh: a bound that groups neighbours (``Block(64)``, ``Vecchia(16)``) groups rows once, by the lengthscales
            that ``model`` has. This says how often, after training, they are grouped again by those just learnt. Each
            time, training goes on for up to ``steps`` steps. Objectives of different partitions do not compare: the
            last partition's best is returned. Ends early when training has converged and the partition stays the same.
        seed: decides restarts and the order of rows; the same seed gives the same result.
        progress: show a bar, where standard error is a terminal.
        callback: called as ``callback(step, row)`` with a step's scalars: after each L-BFGS iteration, after every 50
            full-batch steps, and after each epoch. Returning True ends training. With ``refresh``, steps are counted
            on, and ``row["partition"]`` numbers the partitions.
        checkpoint: a file with the state of training. It is written every ``checkpoint_seconds``, when training ends,
            and on Ctrl-C. It is always complete, even if the process is killed. To resume, `Batches` must come in the
            same order again.
        checkpoint_seconds: the least time between two writings.
        resume: go on from ``checkpoint`` if it exists, to the same numbers as without the interruption. ``steps``,
            ``epochs``, ``patience``, ``tolerance``, ``restarts`` and ``refresh`` may differ from before.

    Returns:
        A `FitResult`. With minibatches its trace has one row an epoch, means over the epoch's steps. Ctrl-C ends
        training and returns the best model so far (with minibatches, the latest; with ``refresh``, the best on the
        latest partition), with ``result.interrupted``. Where several processes train together (see
        `tightgp.distributed`), every one calls ``fit`` and gets the result; the first alone shows progress, calls the
        callback and writes the checkpoint.

    >>> model = tgp.SGPR(tgp.kernels.SquaredExponential(), X[:20])
    >>> result = tgp.fit(model, tgp.Dataset(X, y), steps=20, progress=False)
    >>> result.objective > float(model.elbo(tgp.Dataset(X, y)))
    True
    """
    data = Dataset(*data) if isinstance(data, tuple) else data
    method = method or ("lbfgs" if batch_size is None else "adam")
    others = list(restarts) if isinstance(restarts, Sequence) else []
    count = len(others) if isinstance(restarts, Sequence) else restarts
    arguments.check(model, method, steps, learning_rate, natural_rate, tolerance, count, seed, callback)
    arguments.check_stops(method, min_gain, time_limit)
    arguments.check_minibatches(model, data, method, batch_size, epochs, validation, patience, stream, count)
    arguments.check_refresh(model, refresh, batch_size)
    arguments.check_checkpoint(checkpoint, checkpoint_seconds, resume)
    if natural_rate is None and method == "natural":
        natural_rate = model.natural_rate if batch_size is None else min(0.1, model.natural_rate)
    began, given = time.perf_counter(), model
    model, others = model.ungrouped(), [one.ungrouped() for one in others]
    settings: dict[str, Any] = {
        "method": method if isinstance(method, str) else "optax transformation",
        "batch_size": batch_size,
        "seed": int(seed),
        "learning_rate": _described(learning_rate),
        "natural_rate": None if natural_rate is None else float(natural_rate),
    }
    named = isinstance(method, str)
    optimiser = FirstOrder.adam(learning_rate, natural_rate) if named else FirstOrder(method, None)
    job: Job
    mesh = None
    if batch_size is None:
        model, rows = model.prepare(data)
        job = LBFGSJob(steps, tolerance, min_gain) if method == "lbfgs" else FirstOrderJob(optimiser, steps, tolerance)
    else:
        model, source = minibatches.choose(model, data, batch_size, seed, stream)
        settings["source"] = type(source).__name__
        settings["validation"] = None if validation is None else fingerprint(validation)
        model = model.for_targets((data.first() if isinstance(data, Batches) else data).vector)
        held_out = None if validation is None else _held_out(model, validation)
        rows, mesh = source.sample(), source.mesh
        epochs = epochs or -(-steps // source.steps)
        job = MinibatchJob(optimiser, source, epochs, held_out, patience)
    open_checkpoint: Callable[[], Checkpoint] = Checkpoint  # the first process alone opens the file
    if checkpoint is not None:
        made_by = origin(given, data, settings)
        open_checkpoint = partial(Checkpoint, Path(checkpoint), checkpoint_seconds, resume, made_by)
    deadline = np.inf if time_limit is None else began + time_limit
    trainer = _Trainer(job, progress, callback, refresh, deadline)
    if distributed.is_multiprocess():
        team.check(given, data, rows, job, count, refresh)
        shared = team.SharedObjective(model, rows)
        return team.together(
            shared, lambda: _train(lambda _: shared, 0, trainer, open_checkpoint(), data, began), checkpoint
        )

    def start(number: int) -> Objective:
        if number == 0:
            return Objective(model, rows, mesh)
        if others:
            return Objective(*others[number - 1].prepare(data), mesh=mesh)
        key = jax.random.fold_in(jax.random.key(seed), number)
        return Objective(model.random_start(key, rows), rows, mesh)

    return _train(start, count, trainer, open_checkpoint(), data, began)


def _train(
    start: Callable[[int], Objective], restarts: int, trainer: "_Trainer", checkpoint: Checkpoint, data, began: float
) -> FitResult:
    """Train from each start, and on new partitions from the best one."""
    runs: list[tuple[Progress, Objective, Any]] = []
    for number in range(restarts + 1):
        objective = start(number)
        progress, best = trainer(objective, checkpoint, str(number))
        runs.append((progress, objective, best))
        if progress.reason.by_user:
            break
    starts = [progress for progress, _, _ in runs]
    progress, objective, best = max(runs, key=lambda run: run[0].objective)
    if progress.objective == -np.inf and progress.reason.by_user:  # ended before anything was evaluated
        progress.objective = float(objective.at_vector(objective.to_vector(objective.start)).value)
        progress.trace.add({"objective": progress.objective})
        best = objective.start
    if not np.isfinite(progress.objective):
        why = objective.model(objective.start).explain(objective.rows)
        raise NumericalError(f"{progress.message}\n{why}" if trainer.job.unit == "epoch" else why)
    rounds = Rounds(distributed.to_one_device(objective.model(best)), progress, starts)
    if trainer.refresh and not rounds.reason.by_user:
        rounds.train(data, trainer.refresh, trainer, checkpoint)
    return FitResult(
        model=distributed.to_one_device(rounds.model),
        trace=rounds.trace() if trainer.refresh else progress.trace.arrays(),
        reason=rounds.reason,
        message=rounds.message,
        objective=rounds.kept[-1].objective,
        seconds=time.perf_counter() - began,
        evaluations=sum(run.evaluations for run in rounds.runs),
        rejected=sum(run.rejected for run in rounds.runs),
        steps=sum(run.steps for run in rounds.kept),
        restarts=[run.objective for run in starts],
    )


def _described(learning_rate):
    """A learning rate as it is compared with a checkpoint's: a number, or those of a schedule at some steps."""
    if not callable(learning_rate):
        return float(learning_rate)
    return [float(learning_rate(step)) for step in (0, 1, 10, 100, 1000, 10_000)]


def _held_out(model, validation: Dataset) -> OnDevice:
    """Validation rows on the device."""
    try:
        rows = on_device(model.check_rows(validation))
        jax.eval_shape(model.score, rows)
    except ValueError as error:
        raise ValueError(f"validation: {error}") from None
    if np.all(np.isnan(validation.y)):
        raise ValueError("validation has no target that is not missing")
    return rows


@dataclass(frozen=True)
class _Trainer:
    """Runs a job, with its progress bar and the user's callback."""

    job: Job
    progress: bool
    callback: Callable | None
    refresh: int
    deadline: float

    def __call__(
        self, objective: Objective, checkpoint: Checkpoint, section: str, partition: int = 0, steps_before: int = 0
    ) -> tuple[Progress, Any]:
        """Train on a partition of the rows, after ``steps_before`` on earlier ones. Returns the best point too."""
        progress = Progress(objective.start)
        title = f"partition {partition + 1} of {self.refresh + 1}" if self.refresh else self.job.unit
        numbered = {"partition": partition} if self.refresh else {}

        def callback(step: int, row: dict[str, float]) -> bool:
            return self.callback is not None and self.callback(steps_before + step, {**row, **numbered})

        with one_blas_thread(), ProgressBar(self.job.length, self.progress, title, "compiling") as bar:
            run(self.job, objective, progress, bar, callback, checkpoint, section, self.deadline)
        return progress, self.job.point(objective, progress.best)
