"""Checkpoints: where training stands, written to a file every so often, so that it can go on after its process died."""

import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tightgp import distributed
from tightgp.data import Batches, Dataset
from tightgp.io import modelfile, serialise

_PART_BYTES = 64 << 20
_PART_ROWS = 1 << 16


class Checkpoint:
    """A file with a section for each start of a fit and each round after.

    What it belongs to is checked before anything of it is used.
    """

    def __init__(self, path: Path, seconds: float, resume: bool, origin: dict[str, Any]):
        self._path, self._seconds, self._origin = path, seconds, origin
        self._sections: dict[str, Any] = {}
        self._written = time.monotonic()
        if not path.exists():
            self._write()  # a place that cannot be written says so now
        elif not resume:
            raise ValueError(
                f"checkpoint {path} is there already; pass resume=True to go on from it, or remove it to start anew"
            )
        else:
            stored = modelfile.read(path, "checkpoint")
            _check_origin(path, stored["origin"], origin)
            self._sections = stored["sections"]

    def section(self, start: int) -> "Section":
        """The part of the file for one start."""
        return Section(self, str(start))

    def round(self, number: int, model) -> "Section":
        """The part of the file for a round that begins with ``model``.

        What an earlier start or number of steps had led to begins elsewhere, and is let go.
        """
        name = f"round {number} from {digest(model)}"
        for other in [key for key in self._sections if key.startswith(f"round {number} ") and key != name]:
            del self._sections[other]
        return Section(self, name)

    def stored(self, name: str) -> Any:
        """What the file has of a section, or None."""
        return self._sections.get(name)

    def put(self, name: str, state: Callable[[], Any], now: bool) -> bool:
        """Write the file with a section's new state, if it is time; and whether that was done."""
        if not now and time.monotonic() - self._written < self._seconds:
            return False
        self._sections[name] = state()
        self._write()
        return True

    def _write(self) -> None:
        modelfile.write({"origin": self._origin, "sections": self._sections}, self._path, "checkpoint")
        self._written = time.monotonic()


class Section:
    """What an optimiser sees: what there was, and where to leave what there is."""

    def __init__(self, checkpoint: Checkpoint | None, name: str = ""):
        self._checkpoint, self._name = checkpoint, name
        self._pending: Callable[[], Any] | None = None

    @property
    def stored(self) -> Any:
        """The state to go on from, or None."""
        return None if self._checkpoint is None else self._checkpoint.stored(self._name)

    def offer(self, state: Callable[[], Any]) -> None:
        """``state()`` describes where training stands; it is called only when it is time to write."""
        if self._checkpoint is not None:
            self._pending = None if self._checkpoint.put(self._name, state, now=False) else state

    def flush(self) -> None:
        """Write what was offered last and is not written yet."""
        if self._checkpoint is not None and self._pending is not None:
            self._checkpoint.put(self._name, self._pending, now=True)
            self._pending = None


def origin(model, data, settings: dict[str, Any]) -> dict[str, Any]:
    """What a checkpoint belongs to: fingerprints of model and data, and the settings that decide the way."""
    return {"model": digest(model), "data": fingerprint(data), "settings": settings}


def digest(model) -> str:
    """What tells a model from others."""
    tensors: dict[str, np.ndarray] = {}
    described = json.dumps(serialise.encode(model, tensors), sort_keys=True)
    whole = hashlib.sha256(described.encode())
    for name in sorted(tensors):
        _absorb(whole, tensors[name])
    return whole.hexdigest()


def fingerprint(data) -> str:
    """What tells data from other data."""
    whole = hashlib.sha256()
    if isinstance(data, Batches):
        whole.update(f"batches of {data.num_data} rows".encode())
    elif isinstance(data, Dataset) and distributed.is_multiprocess():
        return str(_sum_of_rows(data))
    elif isinstance(data, Dataset):
        for array in (data.X, data.y, data.noise_variance, data.input_variance):
            if array is not None:
                _absorb(whole, array)
    return whole.hexdigest()


def _sum_of_rows(data: Dataset) -> int:
    """What tells rows from others, whichever process has which of them: a sum of a number for each."""
    columns = [data.X, data.targets] + ([] if data.noise_variance is None else [data.noise_variance])
    weights = np.random.default_rng(0).integers(1 << 63, size=sum(a[:1].size for a in columns), dtype=np.uint64) | 1
    total = np.zeros(1, np.uint64)  # of arrays sums may wrap round
    for i in range(0, data.num_data, _PART_ROWS):
        part = np.concatenate([np.asarray(a[i : i + _PART_ROWS]).reshape(-1, a[:1].size) for a in columns], axis=1)
        mixed = (np.ascontiguousarray(part, np.float64).view(np.uint64) * weights).sum(axis=1, dtype=np.uint64)
        total = total + ((mixed ^ (mixed >> np.uint64(29))) * weights[0]).sum(keepdims=True, dtype=np.uint64)
    return int(distributed.gather(total).sum(dtype=np.uint64))


def _absorb(whole, array) -> None:
    """Take in an array a part at a time: it may be a large file."""
    array = np.atleast_1d(array if isinstance(array, np.ndarray) else np.asarray(array))
    whole.update(f"{array.dtype.str} {array.shape}\n".encode())
    step = max(1, _PART_BYTES // max(1, array[:1].nbytes))
    for i in range(0, len(array), step):
        whole.update(np.ascontiguousarray(array[i : i + step]).tobytes())


def _check_origin(path, stored: dict[str, Any], mine: dict[str, Any]) -> None:
    other = [f"other {name}" for name in ("model", "data") if stored[name] != mine[name]]
    theirs = stored["settings"]
    other += [f"{k}={theirs.get(k)!r} (now {v!r})" for k, v in mine["settings"].items() if theirs.get(k) != v]
    if other:
        raise ValueError(
            f"checkpoint {path} was written by a fit with {', '.join(other)}; resume with what it was begun with, "
            "or remove it to start anew"
        )
