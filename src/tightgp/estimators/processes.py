"""One estimator fitted by several processes, each with its own rows (see `tightgp.distributed`): what they agree on.

Each function is called by every process, and is next to nothing where there is only one.
"""

import json

import jax
import numpy as np

from tightgp import distributed
from tightgp.estimators.cells import KIND_NAMES, Cells, read


def of_the_first(rows: np.ndarray) -> np.ndarray:
    """The first process's rows of floats: machines that are not alike may round otherwise."""
    if not distributed.is_multiprocess():
        return rows
    data = distributed.broadcast_bytes(np.ascontiguousarray(rows, np.float64).tobytes())
    return np.frombuffer(data).reshape(-1, rows.shape[1]).astype(rows.dtype)


def check_alike(names: list[str], rows: int) -> None:
    """Refuse tables of other columns, or of no row, in some process."""
    distributed.check_same("the columns of X", json.dumps(names).encode())
    if 0 in (counts := distributed.row_counts(rows)):
        raise ValueError(f"process {counts.index(0)} has no rows; every process needs at least one")


def read_all(name: str, column) -> Cells:
    """The cells of a column in all processes; their kinds must agree."""
    own = distributed.all_succeed(lambda: read(name, column))
    kinds = [text.decode() for text in distributed.gather_bytes(own.kind.encode())]
    known = [(process, kind) for process, kind in enumerate(kinds) if kind != "empty"]
    process, kind = known[0] if known else (0, "empty")
    for other, another in known:
        if another != kind:
            raise ValueError(
                f"column {name!r} holds {KIND_NAMES[kind]} in process {process} and {KIND_NAMES[another]} in process "
                f"{other}; make it one kind in all of them"
            )
    if own.kind == "empty":
        own = read(name, column, kind)
    if kind == "category":
        own = _with_all_levels(own)
    return Cells(kind, distributed.gather(own.values), distributed.gather(own.missing), own.levels)


def _with_all_levels(cells: Cells) -> Cells:
    """The same cells with the levels of all processes: each text is sent once, and its cells as numbers."""
    levels = [json.loads(text) for text in distributed.gather_bytes(json.dumps(cells.levels).encode())]
    before = sum(map(len, levels[: jax.process_index()]))
    return cells._replace(
        values=np.where(cells.missing, -1, cells.values + before), levels=[text for part in levels for text in part]
    )
