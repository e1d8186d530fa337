"""Carry out runs, one after the other or several at a time, until they are finished or the time is up."""

import importlib
import math
import multiprocessing
import platform
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich.console import Console

import tightgp as tgp
from experiments.held_out import FAILURES, error_text
from experiments.reproduction import rows
from experiments.reproduction.store import Record, Run, Store
from tightgp.estimators import compilation


class Unfinished(Exception):
    """The time was up before a training finished."""


class NotInstalled(Exception):
    """A run needs a library that is not installed; the others go on."""


#: Steps of a training that compiles the same programs as a longer one: all but L-BFGS run fifty steps a program.
_SHORT = {"lbfgs": 2, "adam": 50, "natural": 50}
#: Number of test rows that a rehearsal predicts.
_REHEARSED = 20_000


@dataclass(frozen=True)
class Work:
    """How a run trains: the quick or the full version, with checkpoints and a time limit.

    A ``rehearsal`` only compiles programs, by a short training.
    """

    quick: bool
    checkpoint: Path
    cache: Path
    deadline: float = math.inf
    progress: bool = False
    rehearsal: bool = False

    def fit(self, model, data, method: str | None = None, *, warmed: bool = False, **options) -> tgp.FitResult:
        """`tightgp.fit`, resumed from an earlier try that was interrupted.

        ``warmed`` is for short trainings that are timed: programs are compiled before, and there is no checkpoint.
        """
        if warmed or self.rehearsal:
            short = {"epochs": 1} if "epochs" in options else {"steps": _SHORT[method or "lbfgs"]}
            first = self.once(model, data, method, **(options | short))
            if self.rehearsal:
                return first
        if not warmed:
            self.checkpoint.parent.mkdir(parents=True, exist_ok=True)
            options |= {"checkpoint": self.checkpoint, "resume": True}
        return self.once(model, data, method, progress=self.progress, **options)

    def once(self, model, data, method: str | None = None, *, progress: bool = False, **options) -> tgp.FitResult:
        """`tightgp.fit`; raises if it is interrupted or the time is up."""
        result = tgp.fit(
            model, data, method, progress=progress, callback=lambda *_: time.time() > self.deadline, **options
        )
        if result.interrupted:
            raise KeyboardInterrupt
        if result.reason is tgp.StopReason.CALLBACK:
            raise Unfinished
        return result

    def centres(self, run: Run, X, second: bool = False) -> np.ndarray:
        """The start of a run's inducing points, or of its second set; the same for every method."""
        name = "-".join([run.set, *(["second"] if second else []), str(run.inducing), str(run.split)])
        return rows.centres(X, run.inducing, run.split + 1000 * second, self.cache / f"{name}.npy")

    def some(self, test: tgp.Dataset) -> tgp.Dataset:
        """The rows to predict: all of them, or a few in a rehearsal."""
        return test.take(slice(_REHEARSED)) if self.rehearsal else test


@dataclass(frozen=True)
class Job:
    """One run of one experiment, as it is sent to a process."""

    module: str
    run: Run
    folder: Path
    quick: bool
    deadline: float
    side_by_side: int
    progress: bool
    rehearsal: bool = False


def carry_out(job: Job) -> str:
    """Train, store the result, and return a line to show."""
    store = Store(job.folder)
    if time.time() > job.deadline:
        return "left for another time"
    checkpoint = store.path(job.run, "checkpoint")
    work = Work(job.quick, checkpoint, store.folder / "inducing", job.deadline, job.progress, job.rehearsal)
    resumed, began = checkpoint.exists(), time.perf_counter()
    try:
        record: Record = importlib.import_module(job.module).train(job.run, work)
    except Unfinished:
        return "broken off" + ("; its checkpoint is kept" if checkpoint.exists() else "")
    except NotInstalled as missing:
        return f"not run: {missing}"
    except FAILURES as failed:  # no result is stored, so the run can be tried again
        return f"failed: {error_text(failed)}".splitlines()[0]
    wall = round(time.perf_counter() - began, 2)
    if job.rehearsal:
        return f"compiled in {wall:.0f} s"
    how = {"side_by_side": job.side_by_side, "resumed": resumed, "wall": wall}
    store.write(job.run, {**record, "machine": machine(), "how": how})
    checkpoint.unlink(missing_ok=True)
    return str(record.get("summary", "done"))


def machine() -> dict[str, Any]:
    """The machine and the versions."""
    return {
        "device": jax.devices()[0].device_kind,
        "jax": jax.__version__,
        "python": platform.python_version(),
        "tightgp": tgp.__version__,
    }


def fill(
    module: str,
    runs: list[Run],
    store: Store,
    *,
    quick: bool,
    jobs: int,
    deadline: float,
    console: Console,
    rehearsal: bool = False,
) -> list[Run]:
    """Carry out every unfinished run, and return those that still are. A rehearsal only compiles."""
    missing = [run for run in runs if not store.holds(run)]
    if not missing:
        return []
    if len(missing) < len(runs):
        console.print(f"{len(runs) - len(missing)} of {len(runs)} runs are finished already.")
    tasks = [Job(module, run, store.folder, quick, deadline, jobs, jobs == 1, rehearsal) for run in missing]

    def say(run: Run, line: str) -> None:
        console.print(f"{run.name}: {line}", highlight=False, soft_wrap=True)

    if jobs == 1:
        for task in tasks:
            say(task.run, carry_out(task))
    else:
        _side_by_side(tasks, jobs, say)
    return [run for run in missing if not store.holds(run)]


def _side_by_side(tasks: list[Job], jobs: int, say: Callable[[Run, str], None]) -> None:
    """Run tasks in processes that are used again, so that compiled programs are too."""
    start = compilation.switch_on if jax.config.jax_compilation_cache_dir else None
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), start) as pool:
        waiting: dict[Future, Job] = {pool.submit(carry_out, task): task for task in tasks}
        try:
            while waiting:
                ready, _ = wait(waiting, return_when=FIRST_COMPLETED)
                for future in ready:
                    say(waiting.pop(future).run, future.result())
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
