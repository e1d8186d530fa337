"""Training by several processes: the first one leads, the others evaluate with it whatever it asks for."""

import json
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tightgp import distributed, layout, parameters
from tightgp.training import checkpoint
from tightgp.training.problem import Problem
from tightgp.training.result import FitResult

_EVALUATE, _DONE, _FAILED = 1, 2, 3


class Shared(Problem):
    """A problem whose rows are with several processes; each evaluation is by all of them."""

    def at(self, x, also=None):
        """What the first process calls; the others come along in `follow`."""
        with _whole():
            _, x = distributed.heard((np.asarray(_EVALUATE), np.asarray(x)))
            found = distributed.together(super().at, x)
        return found if also is None else found._replace(more=jax.device_get(also(found.gradient)))

    def follow(self) -> bool:
        """Evaluate what the first process asks for, until it is done; and whether it came to a result.

        What fails here has failed in the first process too, which is heard out: it may be waiting for an answer.
        """
        failure: Exception | None = None
        with _uninterrupted():
            while True:
                word, x = distributed.heard((np.asarray(0), self.to_vector(self.start)))
                if int(word) != _EVALUATE:
                    if failure is not None and int(word) != _DONE:
                        raise failure
                    return int(word) == _DONE
                try:
                    distributed.together(super().at, x)
                except distributed.LostProcess:
                    raise
                except Exception as error:
                    failure = error

    def dismiss(self, done: bool) -> None:
        """Let the others go."""
        distributed.heard((np.asarray(_DONE if done else _FAILED), self.to_vector(self.start)))


def check(model, data, rows, method: str, restarts: int, refresh: int) -> None:
    """What several processes can train together, and whether they have been given the same."""
    if not isinstance(rows, layout.Layout):
        raise ValueError(
            f"several processes train SGPR together, not {type(model).__name__}, which would see the rows of its own "
            "process alone"
        )
    if method != "lbfgs":
        raise ValueError(f"several processes train by method='lbfgs', not {method!r}")
    for name, value in (("restarts", restarts), ("refresh", refresh)):
        if value:
            raise ValueError(f"{name} must be 0 where several processes train together")
    distributed.check_same("model", checkpoint.digest(model).encode())
    columns = f"{data.num_inputs} {data.num_outputs} {data.X.dtype} {data.noise_variance is None}"
    distributed.check_same("the columns of the data", columns.encode())


def together(shared: Shared, lead: Callable[[], FitResult], file) -> FitResult:
    """``lead()`` in the first process, and its result in all."""
    if not distributed.leads():
        if not shared.follow():
            raise RuntimeError("the first process could not train; what it raised says why")
        return share(None, shared)
    try:
        result = lead()
    except distributed.LostProcess as error:
        kept = f"; {file} keeps where training stood: start all again with resume=True" if file is not None else ""
        raise distributed.LostProcess(f"{error}{kept}") from error
    except BaseException:
        shared.dismiss(done=False)
        raise
    with _uninterrupted():
        shared.dismiss(done=True)
        return share(result, shared)


def share(result: FitResult | None, problem: Shared) -> FitResult:
    """The first process's result, with all of them."""
    facts = {} if result is None else {k: v for k, v in vars(result).items() if k not in ("model", "trace")}
    trace = {} if result is None else {name: column.tolist() for name, column in result.trace.items()}
    told = json.loads(distributed.heard_bytes(json.dumps([facts, trace]).encode()))
    point = problem.start if result is None else eqx.filter(result.model, parameters.trainable(result.model))
    model = problem.model(jax.tree.map(jnp.asarray, distributed.heard(point)))
    return FitResult(model=model, trace={name: np.array(column) for name, column in told[1].items()}, **told[0])


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C is for the first process, which then lets the others go."""
    with _on_interrupt(signal.SIG_IGN):
        yield


@contextmanager
def _whole() -> Iterator[None]:
    """Ctrl-C in the midst of what all processes do together is heard after it: the others would wait, or worse."""
    came: list[int] = []
    with _on_interrupt(lambda number, _: came.append(number)):
        yield
    if came:
        raise KeyboardInterrupt


@contextmanager
def _on_interrupt(handler) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
