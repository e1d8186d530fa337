"""One estimator fitted by several processes, each with its own rows (see `tightgp.distributed`): what they agree on.

Each function is called by every process, and is next to nothing where there is only one.
"""

import json

import jax
import numpy as np

from tightgp import distributed
from tightgp.cells import kind_of, numbers, ticks, words

_CALLED = {"category": "text", "number": "numbers", "time": "dates", "duration": "durations"}


def of_the_first(rows: np.ndarray) -> np.ndarray:
    """The first process's rows of floats: machines that are not alike may round otherwise."""
    if not distributed.several():
        return rows
    data = distributed.heard_bytes(np.ascontiguousarray(rows, np.float64).tobytes())
    return np.frombuffer(data).reshape(-1, rows.shape[1]).astype(rows.dtype)


def check_alike(names: list[str], rows: int) -> None:
    """Refuse tables of other columns, or of no row, in some process."""
    distributed.check_same("the columns of X", json.dumps(names).encode())
    if 0 in (counts := distributed.counts(rows)):
        raise ValueError(f"process {counts.index(0)} has no rows; every process needs at least one")


def whole_column(name: str, cells):
    """The cells of a column that all processes have, as the encoding takes them; their kinds must be one."""
    mine = distributed.agreed(lambda: kind_of(name, cells))
    kinds = [text.decode() for text in distributed.gather_bytes(mine.encode())]
    known = [(number, kind) for number, kind in enumerate(kinds) if kind != "empty"]
    if not known:
        return np.full(distributed.total_count(len(cells)), np.nan)
    (one, kind), (other, another) = known[0], next((pair for pair in known if pair[1] != known[0][1]), known[0])
    if kind != another:
        raise ValueError(
            f"column {name!r} holds {_CALLED[kind]} in process {one} and {_CALLED[another]} in process {other}; "
            "make it one kind in all of them"
        )
    if kind == "number":
        return distributed.gather(distributed.agreed(lambda: numbers(name, cells)))
    return _whole_words(name, cells) if kind == "category" else _whole_ticks(name, cells, kind)


def _whole_ticks(name: str, cells, kind: str):
    import pandas as pd

    values, gone = distributed.agreed(lambda: ticks(name, cells, kind))
    values, gone = distributed.gather(values), distributed.gather(gone)
    return pd.Series(values.astype("m8[us]" if kind == "duration" else "M8[us]")).mask(gone)


def _whole_words(name: str, cells):
    """Texts are sent once each, and then numbers in their stead."""
    import pandas as pd

    codes, texts = distributed.agreed(lambda: words(name, cells))
    vocabularies = [json.loads(text) for text in distributed.gather_bytes(json.dumps(texts).encode())]
    sizes = np.cumsum([0, *(len(one) for one in vocabularies)])
    place = np.where(codes < 0, -1, codes + sizes[jax.process_index()])
    known = np.array([*(text for one in vocabularies for text in one), None], dtype=object)
    return pd.Series(known[distributed.gather(place)], dtype=object)
