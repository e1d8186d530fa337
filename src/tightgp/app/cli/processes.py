"""Several processes that run ``tightgp fit`` together: how they join, fail together, and exchange rows of tables."""

import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from tightgp.app.cli.failures import ProcessFailed, describe
from tightgp.app.cli.options import option

T = TypeVar("T")


@dataclass(frozen=True)
class Processes:
    """The options that make this process one of several."""

    distributed: Annotated[
        bool, option("Join the processes of a cluster or of JAX_COORDINATOR_ADDRESS.", "--distributed")
    ] = False
    coordinator: Annotated[
        str | None, option("Address of process 0, if several processes fit together.", metavar="HOST:PORT")
    ] = None
    num_processes: Annotated[int | None, option("Number of processes.", "--processes", metavar="N")] = None
    process_id: Annotated[int | None, option("Number of this process, from 0.", "--process", metavar="I")] = None

    @property
    def alone(self) -> bool:
        """Whether no other process is to be joined."""
        return not self.distributed and (self.coordinator, self.num_processes, self.process_id) == (None, None, None)

    def join(self) -> None:
        """Join the other processes, if there are any."""
        address = (self.coordinator, self.num_processes, self.process_id)
        if self.alone:
            return
        from tightgp import distributed

        try:
            distributed.start(*address)
        except ValueError as error:
            raise ValueError(f"cannot join the other processes: {error}") from None
        with _no_output():
            distributed.row_counts(0)


@contextmanager
def _no_output() -> Iterator[None]:
    """Discard standard output: Gloo prints there that it is connected, where the result should be."""
    sys.stdout.flush()
    output, null = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 1)
        yield
    finally:
        os.dup2(output, 1)
        os.close(output)
        os.close(null)


def run_in_all(step: Callable[[], T]) -> T:
    """``step()``, which every process calls; if it fails in one, all fail with its exit code and one message.

    The step must not exchange data with other processes, or must fail in all of them.
    """
    from tightgp import distributed

    result, failure, report = None, None, b""
    try:
        result = step()
    except distributed.LostProcess:
        raise
    except Exception as error:
        failure, report = error, json.dumps(describe(error)).encode()
    for number, text in enumerate(distributed.gather_bytes(report)):
        if text and failure is not None and distributed.is_leader():
            raise failure
        if text:
            message, code = json.loads(text)
            raise ProcessFailed(f"process {number}: {message}" if distributed.is_leader() else "", code)
    return result  # type: ignore[return-value]


def run_in_leader(step: Callable[[], Any]) -> None:
    """``step()`` in the first process only; if it fails, all fail."""
    from tightgp import distributed

    run_in_all(step if distributed.is_leader() else lambda: None)


def check_same_options(*options) -> None:
    """Refuse options that differ between processes."""
    from tightgp import distributed

    others = distributed.gather_bytes(repr(options).encode())
    if different := [number for number, other in enumerate(others) if other != others[0]]:
        raise ValueError(f"process {different[0]} was started with other options than process 0; use the same for all")


def gather_frame(frame) -> Any:
    """The rows of all processes, in their order, as one frame with the attributes of the whole file."""
    from tightgp import distributed

    if not distributed.is_multiprocess():
        return frame
    import pandas as pd

    parts = [pd.read_parquet(io.BytesIO(data)) for data in distributed.gather_bytes(frame.to_parquet(index=False))]
    gathered = pd.concat(parts, ignore_index=True)
    gathered.attrs = {**frame.attrs, "first": 0}
    return gathered
