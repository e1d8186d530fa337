"""Several processes, on one machine or on many, that train one model together: each has its own rows.

Every process runs the same program. `start` comes first; from then on a `Dataset` holds the rows of its process, and
objectives are over the rows of all of them, in the order of the processes. What is called here, a model's `elbo` and
`posterior`, and `fit` must be called by every process, since each waits for the others.
"""

import atexit
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.errors import JaxRuntimeError

from tightgp import checks

#: Where the first process can be reached, how many there are, and which one this is; what JAX itself calls them.
ENVIRONMENT = ("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID")
T = TypeVar("T")


class LostProcess(RuntimeError):
    """Another process died or cannot be reached any more.

    What this process still has to do it must do itself: at its end it leaves with exit code 1 and without a farewell to
    JAX, which would wait for the lost one and then abort.
    """


def start(
    coordinator: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    *,
    timeout_seconds: int = 300,
) -> None:
    """Join the other processes. Call it before anything is computed.

    Args:
        coordinator: address and port of the first process, such as "10.0.0.1:7890"; None reads
            ``JAX_COORDINATOR_ADDRESS``, and else asks the cluster: JAX knows Slurm, Open MPI, Kubernetes and TPU pods.
        num_processes: how many there are; None reads ``JAX_NUM_PROCESSES``.
        process_id: which one this is, from 0; None reads ``JAX_PROCESS_ID``.
        timeout_seconds: how long to wait for the others.
    """
    address, count, number = _described(coordinator, num_processes, process_id)
    checks.count("timeout_seconds", timeout_seconds)
    if jax.distributed.is_initialized():
        raise ValueError("the processes have been joined already; call tightgp.distributed.start once")
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    try:
        jax.distributed.initialize(address, count, number, initialization_timeout=timeout_seconds)
    except (RuntimeError, ValueError) as error:
        said = str(error).splitlines()[0]
        if "must be called before" in said:
            raise ValueError("call tightgp.distributed.start before anything else uses JAX") from None
        if address is None:
            raise ValueError(
                "no cluster was found that says how many processes there are; pass coordinator, num_processes and "
                f"process_id, or set {', '.join(ENVIRONMENT)} ({said})"
            ) from None
        raise LostProcess(
            f"process {number} of {count} could not join the others at {address} within {timeout_seconds} s: {said}"
        ) from None
    devices = Counter(device.process_index for device in jax.devices())
    if len(set(devices.values())) > 1:
        raise ValueError(f"every process must have as many devices as the others, but they have {dict(devices)}")


def _described(coordinator, num_processes, process_id) -> tuple[str | None, int | None, int | None]:
    given = [coordinator, num_processes, process_id]
    names = ("coordinator", "num_processes", "process_id")
    values: list[Any] = [os.environ.get(e) if v is None else v for v, e in zip(given, ENVIRONMENT, strict=True)]
    lacking = [name for name, value in zip(names, values, strict=True) if value is None]
    if len(lacking) == 3:
        return None, None, None
    if lacking:
        said = ", ".join(f"{name} (or {ENVIRONMENT[names.index(name)]})" for name in lacking)
        raise ValueError(f"{said} must be given too: coordinator, num_processes and process_id go together")
    address = str(values[0])
    if not address.rpartition(":")[2].isdigit() or not address.rpartition(":")[0]:
        raise ValueError(f"coordinator must be an address and a port such as '10.0.0.1:7890', got {address!r}")
    count, number = _whole("num_processes", values[1]), _whole("process_id", values[2])
    checks.count("num_processes", count)
    if not 0 <= number < count:
        raise ValueError(f"process_id must be from 0 to {count - 1}, since num_processes is {count}; got {number}")
    return address, count, number


def _whole(name: str, value) -> int:
    try:
        return int(str(value))
    except ValueError:
        raise ValueError(f"{name} must be a whole number, got {value!r}") from None


def several() -> bool:
    """Whether there are other processes."""
    return jax.process_count() > 1


def leads() -> bool:
    """Whether this process is the first: the one that decides, shows progress and writes files."""
    return jax.process_index() == 0


def gather(array: np.ndarray) -> np.ndarray:
    """The rows of all processes, in their order; their numbers may differ, their columns may not."""
    array = np.asarray(array)
    if not several():
        return array
    parts = gather_bytes(np.ascontiguousarray(array).tobytes())
    return np.concatenate([np.frombuffer(part, array.dtype).reshape(-1, *array.shape[1:]) for part in parts])


def gather_bytes(data: bytes) -> list[bytes]:
    """What each process has to say."""
    if not several():
        return [data]
    lengths = counts(len(data))
    padded = np.zeros(max(lengths), np.uint8)
    padded[: len(data)] = np.frombuffer(data, np.uint8)
    return [part[:length].tobytes() for part, length in zip(_all(padded), lengths, strict=True)]


def counts(count: int) -> list[int]:
    """How many rows each process has, of which this one has ``count``."""
    return [count] if not several() else _all(np.asarray(count)).tolist()


def total_count(count: int) -> int:
    """How many rows all processes have, of which this one has ``count``."""
    return sum(counts(count))


def agreed(step: Callable[[], T]) -> T:
    """``step()``, which concerns this process alone; where it fails in one it fails in all, so that none waits."""
    if not several():
        return step()
    failure, result = None, None
    try:
        result = step()
    except LostProcess:
        raise
    except Exception as error:
        failure = error
    said = gather_bytes(b"" if failure is None else (str(failure) or type(failure).__name__).encode())
    if failure is not None:
        raise failure
    for number, text in enumerate(said):
        if text:
            raise ValueError(f"process {number}: {text.decode()}")
    return result  # type: ignore[return-value]


def rows_at(array: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Rows by their numbers among the rows of all processes."""
    array, index = np.asarray(array), np.asarray(index)
    numbers = counts(len(array))
    if index.size and not 0 <= index.min() <= index.max() < sum(numbers):
        raise ValueError(
            f"index must hold numbers of rows from 0 to {sum(numbers) - 1}, got {index.min()} .. {index.max()}"
        )
    if not several():
        return array[index]
    first = sum(numbers[: jax.process_index()])
    mine = (index >= first) & (index < first + len(array))
    found = np.zeros((len(index), *array.shape[1:]), array.dtype)
    found[mine] = array[index[mine] - first]
    owners = np.searchsorted(np.cumsum(numbers), index, side="right")
    return gather(found).reshape(len(numbers), *found.shape)[owners, np.arange(len(index))]


def check_same(name: str, description: bytes) -> None:
    """Refuse what differs between processes and must not."""
    others = gather_bytes(description)
    different = [i for i, other in enumerate(others) if other != others[0]]
    if different:
        raise ValueError(
            f"{name} differs between process 0 and process {different[0]}; every process must be given the same "
            "(inducing points too: choose them from tightgp.distributed.rows_at or .gather)"
        )


def heard(message: Any) -> Any:
    """The first process's ``message``, a tree of arrays; the others pass one of the same shapes."""
    from jax.experimental import multihost_utils

    with partners():
        return multihost_utils.broadcast_one_to_all(message)


def heard_bytes(data: bytes) -> bytes:
    """The first process's bytes."""
    length = int(heard(np.asarray(len(data))))
    padded = np.zeros(length, np.uint8)
    padded[: len(data)] = np.frombuffer(data, np.uint8)[:length]
    return np.asarray(heard(padded)).astype(np.uint8).tobytes()


def _all(array: np.ndarray) -> np.ndarray:
    from jax.experimental import multihost_utils

    with partners():
        return np.asarray(multihost_utils.process_allgather(array)).reshape(jax.process_count(), *array.shape)


def at_home(tree: Any) -> Any:
    """What a computation over several devices left on each of them, on one."""

    def home(a):
        spread = isinstance(a, jax.Array) and not isinstance(a, jax.core.Tracer) and len(a.sharding.device_set) > 1
        # Another array, that is bound to no device: it may meet rows on all of them again.
        return jnp.asarray(np.asarray(a.addressable_data(0))) if spread and a.is_fully_replicated else a

    return jax.tree.map(home, tree)


def together(function: Callable, *arguments) -> Any:
    """What a function computes with all processes, on one device; a process that is lost meanwhile is said to be."""
    if not several():
        return at_home(function(*arguments))
    with partners():
        return jax.block_until_ready(at_home(function(*arguments)))


@contextmanager
def partners() -> Iterator[None]:
    """What fails inside because another process has gone is a `LostProcess`."""
    try:
        yield
    except JaxRuntimeError as error:
        if not several() or not _is_loss(str(error)):
            raise
        # JAX would wait at the exit for the one that is gone, and then abort.
        atexit.register(leave, 1)
        raise LostProcess(
            f"process {jax.process_index()} of {jax.process_count()} lost another one, which died or cannot be reached "
            f"({str(error).splitlines()[0][:200]})"
        ) from error


def _is_loss(said: str) -> bool:
    return any(word in said for word in ("Gloo", "NCCL", "coordination", "heartbeat", "Connection", "UNAVAILABLE"))


def leave(code: int) -> None:
    """End this process at once: at an ordinary end JAX would wait for the one that is gone."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
