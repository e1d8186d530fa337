"""``tightgp fit`` by several processes: how they are joined, fail as one, and pass rows of tables to each other."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import jax
import numpy as np

from tightgp import distributed
from tightgp.cli.terminal import Failed, Terminal, described

T = TypeVar("T")
_OPTIONS = {"coordinator": "--coordinator", "num_processes": "--processes", "process_id": "--process"}


def join(coordinator: str | None, processes: int | None, process: int | None) -> None:
    """Join the others, whom the options name, or the environment, or the cluster."""
    try:
        distributed.start(coordinator, processes, process)
    except ValueError as error:
        said = str(error).replace("tightgp.distributed.start", "--distributed")
        for name, option in _OPTIONS.items():
            said = said.replace(name, option)
        raise ValueError(said) from None
    with _unheard():
        distributed.counts(0)


@contextmanager
def _unheard() -> Iterator[None]:
    """Gloo says on standard output who is connected, where a result should stand."""
    sys.stdout.flush()
    kept, nothing = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nothing)


def terminal(quiet: bool, as_json: bool) -> Terminal:
    """Where the first process speaks, and the others do not."""
    return Terminal(quiet, as_json) if distributed.leads() else Terminal(quiet=True)


def share() -> tuple[int, int] | None:
    """Which part of a table's rows is this process's; None where it is all."""
    return (jax.process_index(), jax.process_count()) if distributed.several() else None


def agree(step: Callable[[], T]) -> T:
    """``step()``, which every process takes; where it fails in one, all fail, with one exit code and one line.

    Either the step concerns this process alone, or what it does together fails everywhere.
    """
    if not distributed.several():
        return step()
    failure, result, said = None, None, b""
    try:
        result = step()
    except distributed.LostProcess:
        raise
    except Exception as error:
        failure, (text, code) = error, described(error)
        said = f"{code} {text}".encode()
    heard = [text.decode() for text in distributed.gather_bytes(said)]
    if not any(heard):
        return result  # type: ignore[return-value]
    if distributed.leads() and failure is not None:
        raise failure
    number, (kind, _, text) = next((i, one.partition(" ")) for i, one in enumerate(heard) if one)
    raise Failed(f"process {number}: {text}" if distributed.leads() else "", int(kind))


def by_first(step: Callable[[], Any]) -> None:
    """``step()`` in the first process alone; where it fails, all fail."""
    agree(step if distributed.leads() else lambda: None)


def check_same(*command) -> None:
    """Refuse other options in another process."""
    said = distributed.gather_bytes(repr(command).encode())
    if other := [number for number, text in enumerate(said) if text != said[0]]:
        raise ValueError(f"process {other[0]} was started with other options than process 0; give all the same")


def told(truth: bool) -> bool:
    """What the first process found true."""
    return bool(distributed.heard(np.asarray(truth))) if distributed.several() else truth


def gathered(frame) -> Any:
    """The rows of all processes, in their order; what a frame says of its file stays, but for where it began."""
    if not distributed.several():
        return frame
    import pyarrow as pa

    plain = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, plain.schema) as writer:
        writer.write_table(plain)
    parts = [pa.ipc.open_stream(data).read_all() for data in distributed.gather_bytes(sink.getvalue().to_pybytes())]
    whole = pa.concat_tables(parts, promote_options="permissive").to_pandas()
    whole.attrs.update({name: value for name, value in frame.attrs.items() if name != "first"})
    return whole
