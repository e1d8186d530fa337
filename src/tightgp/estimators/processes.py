"""What processes that fit one estimator agree on, each with its own rows (see `tightgp.distributed`).

Every process must call each function. With a single process they do next to nothing.
"""

import json

import jax
import numpy as np

from tightgp import distributed
from tightgp.estimators.cells import KIND_NAMES, Cells, read


def from_leader(array: np.ndarray) -> np.ndarray:
    """The first process's array of floats; processes on different machines may round, and choose rows, differently."""
    if not distributed.is_multiprocess():
        return array
    data = distributed.broadcast_bytes(np.ascontiguousarray(array, np.float64).tobytes())
    return np.frombuffer(data).reshape(-1, *array.shape[1:]).astype(array.dtype)


def read_all(name: str, column) -> Cells:
    """The cells of a column in all processes; their kinds must agree."""
    own = distributed.all_succeed(lambda: read(name, column))
    kinds = [text.decode() for text in distributed.gather_bytes(own.kind.encode())]
    found = [kind for kind in dict.fromkeys(kinds) if kind != "empty"]
    if len(found) > 1:
        held = " and ".join(f"{KIND_NAMES[kind]} in process {kinds.index(kind)}" for kind in found)
        raise ValueError(f"column {name!r} holds {held}; make it one kind in all of them")
    kind = found[0] if found else "empty"
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
