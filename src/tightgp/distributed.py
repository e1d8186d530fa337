"""Several processes that train one model together, on one machine or on many, each with its own rows.

Every process runs the same program and calls `start` first. From then on a `Dataset` holds the rows of its own process,
and objectives are sums over the rows of all processes, in their order. Every process must call the functions here, a
model's `elbo` and `posterior`, and `fit`, because each call waits for the other processes.
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

#: JAX's environment variables for the arguments of `start`, in their order.
_VARIABLES = ("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID")
#: Words by which the messages of JAX, Gloo and NCCL about lost connections are recognised.
_LOSS_WORDS = ("Gloo", "NCCL", "coordination", "heartbeat", "Connection", "UNAVAILABLE")
T = TypeVar("T")


class LostProcess(RuntimeError):
    """Another process died or cannot be reached.

    When this process ends, it exits at once with code 1: JAX would wait for the lost process and then abort.

    Attributes:
        problem: what happened, which is the message without the hint.
        while_joining: whether the process was lost in `start`, before any training.
    """

    def __init__(self, problem: str, hint: str = "", *, while_joining: bool = False):
        super().__init__(problem + hint)
        self.problem, self.while_joining = problem, while_joining


def start(
    coordinator: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    *,
    timeout_seconds: int = 300,
) -> None:
    """Join the other processes. Call this before any computation.

    Args:
        coordinator: address and port of the first process, such as "10.0.0.1:7890". None reads the environment
            variable ``JAX_COORDINATOR_ADDRESS``. Without that, JAX detects Slurm, Open MPI, Kubernetes and TPU pods.
        num_processes: the number of processes; None reads ``JAX_NUM_PROCESSES``.
        process_id: the number of this process, counted from 0; None reads ``JAX_PROCESS_ID``.
        timeout_seconds: how long to wait for the other processes.

    >>> tgp.distributed.start("10.0.0.1:7890", num_processes=2, process_id=0)  # doctest: +SKIP
    """
    address, count, number = _read_arguments(coordinator, num_processes, process_id)
    checks.count("timeout_seconds", timeout_seconds)
    if jax.distributed.is_initialized():
        raise ValueError("the processes have been joined already; call tightgp.distributed.start once")
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    try:
        jax.distributed.initialize(address, count, number, initialization_timeout=timeout_seconds)
    except (RuntimeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        if "must be called before" in reason:
            raise ValueError("call tightgp.distributed.start before anything else uses JAX") from None
        if address is None:
            raise ValueError(
                "no cluster was detected; pass coordinator, num_processes and process_id, or set "
                f"{', '.join(_VARIABLES)} ({reason})"
            ) from None
        raise LostProcess(
            f"process {number} of {count} could not join the others at {address} within {timeout_seconds} s: {reason}",
            while_joining=True,
        ) from None
    devices = Counter(device.process_index for device in jax.devices())
    if len(set(devices.values())) > 1:
        raise ValueError(f"every process must have the same number of devices, but they have {dict(devices)}")


def _read_arguments(coordinator, num_processes, process_id) -> tuple[str | None, int | None, int | None]:
    """The arguments of `start`, completed from the environment; all None where there are none."""
    names, given = ("coordinator", "num_processes", "process_id"), (coordinator, num_processes, process_id)
    values: list[Any] = [v if v is not None else os.environ.get(_VARIABLES[i]) for i, v in enumerate(given)]
    missing = [f"{names[i]} (or {_VARIABLES[i]})" for i, value in enumerate(values) if value is None]
    if len(missing) == 3:
        return None, None, None
    if missing:
        raise ValueError(f"{', '.join(missing)} must be given too: {', '.join(names)} go together")
    address, count, number = str(values[0]), _whole_number(names[1], values[1]), _whole_number(names[2], values[2])
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"coordinator must be an address and a port such as '10.0.0.1:7890', got {address!r}")
    checks.count("num_processes", count)
    if not 0 <= number < count:
        raise ValueError(f"process_id must be from 0 to {count - 1}, since num_processes is {count}; got {number}")
    return address, count, number


def _whole_number(name: str, value) -> int:
    try:
        return int(str(value))
    except ValueError:
        raise ValueError(f"{name} must be a whole number, got {value!r}") from None


def is_multiprocess() -> bool:
    """Whether there are other processes.

    >>> tgp.distributed.is_multiprocess()
    False
    """
    return jax.process_count() > 1


def is_leader() -> bool:
    """Whether this is the first process, which decides, shows progress and writes files.

    >>> tgp.distributed.is_leader()
    True
    """
    return jax.process_index() == 0


def gather(array: np.ndarray) -> np.ndarray:
    """Concatenate the rows of all processes, in their order.

    Args:
        array: the rows of this process; the numbers of rows may differ between processes, the columns may not.

    >>> tgp.distributed.gather(X).shape
    (60, 2)
    """
    array = np.asarray(array)
    if not is_multiprocess():
        return array
    parts = gather_bytes(np.ascontiguousarray(array).tobytes())
    return np.concatenate([np.frombuffer(part, array.dtype).reshape(-1, *array.shape[1:]) for part in parts])


def gather_bytes(data: bytes) -> list[bytes]:
    """The ``data`` of every process, in their order."""
    if not is_multiprocess():
        return [data]
    lengths = row_counts(len(data))
    padded = np.frombuffer(data.ljust(max(lengths), b"\0"), np.uint8)
    return [part[:length].tobytes() for part, length in zip(_all_gather(padded), lengths, strict=True)]


def row_counts(count: int) -> list[int]:
    """The numbers of rows of all processes; ``count`` is that of this process."""
    return _all_gather(np.asarray(count)).tolist() if is_multiprocess() else [count]


def total_count(count: int) -> int:
    """The number of rows of all processes together; ``count`` is that of this process."""
    return sum(row_counts(count))


def all_succeed(step: Callable[[], T]) -> T:
    """``step()``, a local computation; if it fails in one process, every process raises, so that none waits."""
    if not is_multiprocess():
        return step()
    failure, result = None, None
    try:
        result = step()
    except LostProcess:
        raise
    except Exception as error:
        failure = error
    messages = gather_bytes(b"" if failure is None else (str(failure) or type(failure).__name__).encode())
    if failure is not None:
        raise failure
    for number, message in enumerate(messages):
        if message:
            raise ValueError(f"process {number}: {message.decode()}")
    return result  # type: ignore[return-value]


def rows_at(array: np.ndarray, index: np.ndarray) -> np.ndarray:
    """The rows with these numbers, counted over the rows of all processes.

    Args:
        array: the rows of this process.
        index: the numbers of the rows to return.

    >>> tgp.distributed.rows_at(y, np.array([3, 1])).shape
    (2,)
    """
    array, index = np.asarray(array), np.asarray(index)
    counts = row_counts(len(array))
    if index.size and not 0 <= index.min() <= index.max() < sum(counts):
        raise ValueError(
            f"index must hold numbers of rows from 0 to {sum(counts) - 1}, got {index.min()} .. {index.max()}"
        )
    if not is_multiprocess():
        return array[index]
    first = sum(counts[: jax.process_index()])
    local = (index >= first) & (index < first + len(array))
    found = np.zeros((len(index), *array.shape[1:]), array.dtype)
    found[local] = array[index[local] - first]
    owners = np.searchsorted(np.cumsum(counts), index, side="right")
    return gather(found).reshape(len(counts), *found.shape)[owners, np.arange(len(index))]


def check_same(name: str, data: bytes) -> None:
    """Raise ValueError unless every process passes the same ``data``."""
    everyone = gather_bytes(data)
    different = [i for i, other in enumerate(everyone) if other != everyone[0]]
    if different:
        raise ValueError(
            f"{name} differs between process 0 and process {different[0]}; every process must be given the same "
            "(inducing points too: choose them from tightgp.distributed.rows_at or .gather)"
        )


def broadcast(tree: Any) -> Any:
    """The first process's tree of arrays; the other processes pass one of the same shapes."""
    from jax.experimental import multihost_utils

    with _detect_loss():
        return multihost_utils.broadcast_one_to_all(tree)


def broadcast_bytes(data: bytes) -> bytes:
    """The first process's ``data``."""
    length = int(broadcast(np.asarray(len(data))))
    padded = np.frombuffer(data[:length].ljust(length, b"\0"), np.uint8)
    return np.asarray(broadcast(padded)).astype(np.uint8).tobytes()


def _all_gather(array: np.ndarray) -> np.ndarray:
    """Stack the arrays of all processes, which have one shape."""
    from jax.experimental import multihost_utils

    with _detect_loss():
        return np.asarray(multihost_utils.process_allgather(array)).reshape(jax.process_count(), *array.shape)


def to_one_device(tree: Any) -> Any:
    """Replace arrays that are replicated over several devices by uncommitted arrays on one device."""

    def move(a):
        concrete = isinstance(a, jax.Array) and not isinstance(a, jax.core.Tracer)
        replicated = concrete and len(a.sharding.device_set) > 1 and a.is_fully_replicated
        return jnp.asarray(np.asarray(a.addressable_data(0))) if replicated else a

    return jax.tree.map(move, tree)


def run_together(function: Callable, *arguments) -> Any:
    """``function(*arguments)``, computed by all processes, on one device; raises `LostProcess` if one is lost."""
    if not is_multiprocess():
        return to_one_device(function(*arguments))
    with _detect_loss():
        return jax.block_until_ready(to_one_device(function(*arguments)))


@contextmanager
def _detect_loss() -> Iterator[None]:
    """Raise `LostProcess` where JAX fails because another process is gone."""
    try:
        yield
    except JaxRuntimeError as error:
        if not is_multiprocess() or not any(word in str(error) for word in _LOSS_WORDS):
            raise
        atexit.register(exit_now, 1)
        raise LostProcess(
            f"process {jax.process_index()} of {jax.process_count()} lost another one, which died or cannot be reached "
            f"({str(error).splitlines()[0][:200]})"
        ) from error


def exit_now(code: int) -> None:
    """End this process at once, without waiting for lost processes as JAX would do."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
