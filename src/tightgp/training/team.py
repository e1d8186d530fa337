"""Training by several processes: the first one leads, the others evaluate the objective with it."""

import json
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tightgp import distributed, parameters
from tightgp.data.placement import OnDevices, PlacedRows
from tightgp.training import checkpoint
from tightgp.training.full_batch import LBFGSJob
from tightgp.training.objective import Objective
from tightgp.training.result import FitResult, StopReason
from tightgp.training.run import Job, Progress

_EVALUATE, _DONE, _FAILED = 1, 2, 3


class SharedObjective(Objective):
    """An objective whose rows are spread over several processes, which evaluate it together."""

    def advance(self, program: Callable, state: Any) -> tuple[Any, dict[str, float]]:
        """Evaluate the objective; the first process calls this, and the others take part in `follow`."""
        trial = np.asarray(LBFGSJob.optimiser.trial_point(state))
        with _late_interrupt():
            _, trial = distributed.broadcast((np.asarray(_EVALUATE), trial))
            return self._together(program, state, trial)

    def follow(self) -> bool:
        """Evaluate where the first process asks, until it is done. Returns whether it has a result.

        An error here happens in the first process too, and is raised only when that is done: it may be waiting.
        """
        job, progress = LBFGSJob(1, 0.0), Progress(self.start)
        job.begin(self, progress)
        failure: Exception | None = None
        with _on_interrupt(signal.SIG_IGN):  # Ctrl-C is for the first process, which then dismisses the others
            while True:
                word, trial = distributed.broadcast((np.asarray(0), np.asarray(progress.state.x)))
                if int(word) != _EVALUATE:
                    if failure is not None and int(word) != _DONE:
                        raise failure
                    return int(word) == _DONE
                try:
                    self._together(job.program, progress.state, trial)
                except distributed.LostProcess:
                    raise
                except Exception as error:
                    failure = error

    def dismiss(self, done: bool) -> None:
        """End `follow` in the other processes."""
        distributed.broadcast((np.asarray(_DONE if done else _FAILED), self.to_vector(self.start)))

    def placed(self, tree: Any) -> Any:
        return jax.tree.map(jnp.asarray, tree)

    def _together(self, program: Callable, state: Any, trial) -> tuple[Any, dict[str, float]]:
        state, scalars = distributed.run_together(program, state, jnp.asarray(trial))
        return state, scalars.read()


def check(model, data, rows: PlacedRows, job: Job, restarts: int, refresh: int) -> None:
    """Refuse what several processes cannot train together, or models and data that differ between them."""
    if not getattr(model, "multiprocess", False) or not isinstance(rows, OnDevices):
        raise ValueError(
            f"several processes train SGPR together, not {type(model).__name__}, which would see the rows of its own "
            "process alone"
        )
    if not isinstance(job, LBFGSJob):
        raise ValueError("several processes train by method='lbfgs' alone")
    for name, value in (("restarts", restarts), ("refresh", refresh)):
        if value:
            raise ValueError(f"{name} must be 0 where several processes train together")
    distributed.check_same("model", checkpoint.digest(model).encode())
    columns = (
        f"{data.num_inputs} {data.num_outputs} {data.X.dtype} {data.noise_variance is None} {data.noise_factor is None}"
    )
    distributed.check_same("the columns of the data", columns.encode())


def together(shared: SharedObjective, lead: Callable[[], FitResult], file) -> FitResult:
    """``lead()`` in the first process, and its result in all."""
    if not distributed.is_leader():
        if not shared.follow():
            raise RuntimeError("the first process could not train; what it raised says why")
        return _share(None, shared)
    try:
        result = lead()
    except distributed.LostProcess as error:
        kept = f"; {file} keeps where training stood: start all again with resume=True" if file is not None else ""
        raise distributed.LostProcess(error.problem, kept) from error
    except BaseException:
        shared.dismiss(done=False)
        raise
    with _on_interrupt(signal.SIG_IGN):
        shared.dismiss(done=True)
        return _share(result, shared)


def _share(result: FitResult | None, objective: SharedObjective) -> FitResult:
    """The first process's result, in all of them."""
    account: dict[str, Any] = {}
    if result is not None:
        trace = {name: column.tolist() for name, column in result.trace.items()}
        account = {**vars(result), "model": None, "trace": trace, "reason": result.reason.value}
    account = json.loads(distributed.broadcast_bytes(json.dumps(account).encode()))
    point = objective.start if result is None else eqx.filter(result.model, parameters.trainable(result.model))
    account["model"] = objective.model(jax.tree.map(jnp.asarray, distributed.broadcast(point)))
    account["trace"] = {name: np.array(column) for name, column in account["trace"].items()}
    account["reason"] = StopReason(account["reason"])
    return FitResult(**account)


@contextmanager
def _late_interrupt() -> Iterator[None]:
    """Delay Ctrl-C until all processes have finished what they do together; otherwise the others would wait."""
    received: list[int] = []
    with _on_interrupt(lambda number, _: received.append(number)):
        yield
    if received:
        raise KeyboardInterrupt


@contextmanager
def _on_interrupt(handler) -> Iterator[None]:
    """Handle Ctrl-C by ``handler``; only the main thread can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
