"""Checkpoints: the state of training, written to a file every so often, so that a killed fit can be resumed."""

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
    """A file with a section for each start and each round of a fit; without a path, nothing is kept.

    Args:
        path: the file.
        seconds: the least time between two writings.
        resume: whether to go on from an existing file.
        origin: the fit that the file belongs to (see `origin`); a file of another fit is refused.
    """

    def __init__(self, path: Path | None = None, seconds: float = 0.0, resume: bool = False, origin: Any = None):
        self._path, self._seconds, self._origin = path, seconds, origin
        self.sections: dict[str, Any] = {}
        self._written = time.monotonic()
        self._pending: tuple[str, Callable[[], Any]] | None = None
        if path is None:
            return
        if not path.exists():
            self._write(path)  # a place that cannot be written is an error now
        elif not resume:
            raise ValueError(
                f"checkpoint {path} is there already; pass resume=True to go on from it, or remove it to start anew"
            )
        else:
            stored = modelfile.read(path, "checkpoint")
            _check_origin(path, stored["origin"], origin)
            self.sections = stored["sections"]

    def name_round(self, number: int, model) -> str:
        """The section of a round that begins with ``model``; the section of such a round from another is removed."""
        name = f"round {number} from {digest(model)}"
        for other in [key for key in self.sections if key.startswith(f"round {number} ") and key != name]:
            del self.sections[other]
        return name

    def offer(self, section: str, state: Callable[[], Any]) -> None:
        """Write ``state()`` to a section if it is time; otherwise remember it for `flush`."""
        self._pending = section, state
        if time.monotonic() - self._written >= self._seconds:
            self.flush()

    def flush(self) -> None:
        """Write what was offered last, unless it is written already."""
        if self._path is not None and self._pending is not None:
            section, state = self._pending
            self.sections[section] = state()
            self._write(self._path)
        self._pending = None

    def _write(self, path: Path) -> None:
        modelfile.write({"origin": self._origin, "sections": self.sections}, path, "checkpoint")
        self._written = time.monotonic()


def origin(model, data, settings: dict[str, Any]) -> dict[str, Any]:
    """What a checkpoint belongs to: fingerprints of model and data, and the settings that training depends on."""
    return {"model": digest(model), "data": fingerprint(data), "settings": settings}


def digest(model) -> str:
    """A hash of a model."""
    tensors: dict[str, np.ndarray] = {}
    described = json.dumps(serialise.encode(model, tensors), sort_keys=True)
    return modelfile.fingerprint("model", described, tensors)


def fingerprint(data) -> str:
    """A hash of a data set; of the rows of all processes where there are several."""
    whole = hashlib.sha256()
    if isinstance(data, Batches):
        whole.update(f"batches of {data.num_data} rows".encode())
    elif isinstance(data, Dataset) and distributed.is_multiprocess():
        return str(_sum_of_rows(data))
    elif isinstance(data, Dataset):
        for array in (data.X, data.y, data.noise_variance, data.input_variance, data.noise_factor):
            if array is not None:
                _absorb(whole, array)
    return whole.hexdigest()


def _sum_of_rows(data: Dataset) -> int:
    """A hash that does not depend on which process has which row: the sum of a hash of each row."""
    columns = [a for a in (data.X, data.targets, data.noise_variance, data.noise_factor) if a is not None]
    weights = np.random.default_rng(0).integers(1 << 63, size=sum(a[:1].size for a in columns), dtype=np.uint64) | 1
    total = np.zeros(1, np.uint64)  # an array, since sums of scalars warn when they overflow
    for i in range(0, data.num_data, _PART_ROWS):
        part = np.concatenate([np.asarray(a[i : i + _PART_ROWS]).reshape(-1, a[:1].size) for a in columns], axis=1)
        mixed = (np.ascontiguousarray(part, np.float64).view(np.uint64) * weights).sum(axis=1, dtype=np.uint64)
        total = total + ((mixed ^ (mixed >> np.uint64(29))) * weights[0]).sum(keepdims=True, dtype=np.uint64)
    return int(distributed.gather(total).sum(dtype=np.uint64))


def _absorb(whole, array) -> None:
    """Hash an array a part at a time: it may be a large file."""
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
