"""Model files: one safetensors file that holds a model, a posterior or an estimator, and cannot run code.

The arrays are tensors, named by their paths; the header describes in JSON how they form objects. Loading creates
objects of a fixed list of classes and fills in their fields: no constructor runs, no module is imported by name, and
nothing is unpickled. A fingerprint of all content reveals a damaged file.
"""

import copy
import errno
import hashlib
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tightgp.io import serialise
from tightgp.io.files import atomic_write

#: The version of the format: the one that is written, and the newest that can be read.
FORMAT = 1


class ModelFileError(ValueError):
    """A file that is not a model file, is damaged, or needs a newer tightgp."""


def save(value, path, *, training_rows: bool = True) -> None:
    """Write a model, posterior, kernel, likelihood or estimator to a file, completely or not at all.

    Args:
        value: the object to write.
        path: the name of the file.
        training_rows: whether to include the training rows of posteriors and estimators that predict from neighbours.
            What is loaded from a file without them cannot predict from neighbours; an estimator predicts from its
            inducing points after ``set_params(neighbours=0)``.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     tgp.save(tgp.kernels.Matern32(lengthscale=[0.5, 2.0]), f"{folder}/kernel.safetensors")
    ...     tgp.load(f"{folder}/kernel.safetensors").lengthscale
    Array([0.5, 2. ], dtype=float64)
    """
    if not serialise.is_component(value):
        raise ValueError(
            "value must be a tightgp model, posterior, kernel, mean, likelihood or estimator; "
            f"got {type(value).__name__}"
        )
    if training_rows not in (True, False):
        raise ValueError(f"training_rows must be True or False, got {training_rows!r}")
    write(value if training_rows else _without_rows(value), path, "model")


def _without_rows(value):
    if hasattr(value, "without_rows"):
        return value.without_rows()
    if hasattr(value, "posterior_"):
        value = copy.copy(value)
        value.posterior_ = value.posterior_.without_rows()
    return value


def load(path, classes: Iterable[type] = ()) -> Any:
    """Read what `save` wrote. Its predictions are the same to the last bit.

    Args:
        path: the name of the file.
        classes: your own classes that the file contains, such as a kernel; a file names classes and has no code.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     tgp.save(tgp.means.Constant(0.5), f"{folder}/mean.safetensors")
    ...     float(tgp.load(f"{folder}/mean.safetensors").level)
    0.5
    """
    value = read(path, "model", classes)
    if not serialise.is_component(value):
        raise ModelFileError(f"{path} contains a {type(value).__name__}, not a model")
    from tightgp.io.consistency import InconsistentError, check_consistent

    try:
        check_consistent(value)
    except InconsistentError as error:
        raise ModelFileError(f"{path} is damaged: {error}; get another copy of it") from None
    return value


def write(value, path, kind: str) -> None:
    """Write arrays, plain values and tightgp's objects, in any nesting, to a file of this ``kind``."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    tensors: dict[str, Any] = {}
    tree = json.dumps(serialise.encode(value, tensors), allow_nan=False, separators=(",", ":"))
    header = {"format": "tightgp", "version": str(FORMAT), "kind": kind, "tree": tree}
    header["fingerprint"] = fingerprint(kind, tree, tensors)
    with atomic_write(_as_path(path)) as temporary:
        try:
            save_file(tensors, temporary, header)
        except SafetensorError as error:
            raise _as_os_error(error) from None


def _as_os_error(error: Exception) -> OSError:
    """The error of the operating system, such as a full disk, behind one of safetensors."""
    code = re.search(r"os error (\d+)", str(error))
    number = int(code[1]) if code else errno.EIO
    return OSError(number, os.strerror(number))


def read(path, kind: str, classes: Iterable[type] = ()) -> Any:
    """Read a file of this ``kind`` that `write` wrote."""
    path = _as_path(path)
    if path.is_dir():
        raise ModelFileError(f"{path} is a folder, not a model file")
    header, tensors = _open(path)
    if header.get("format") != "tightgp":
        raise ModelFileError(f"{path} is a safetensors file, but tightgp did not write it")
    version, stored, tree = (header.get(key, "") for key in ("version", "kind", "tree"))
    if not version.isascii() or not version.isdigit() or len(version) > 9:
        raise ModelFileError(f"{path} is damaged: its header has no version")
    if int(version) > FORMAT:
        raise ModelFileError(
            f"{path} was written by a newer tightgp (file version {version}; this one reads up to {FORMAT}); upgrade it"
        )
    if header.get("fingerprint") != fingerprint(stored, tree, tensors):
        raise ModelFileError(f"{path} is damaged: its content has changed since it was written; get another copy of it")
    if stored != kind:
        hint = "; continue from it with fit(..., checkpoint=..., resume=True)" if stored == "checkpoint" else ""
        raise ModelFileError(f"{path} is a {stored!r} file where a {kind} file is expected{hint}")
    try:
        description = json.loads(tree)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path} is damaged: its description cannot be read ({type(error).__name__})") from None
    try:
        return serialise.decode(description, tensors, classes)
    except serialise.DecodeError as error:
        raise ModelFileError(f"{path}: {error}") from None
    except (RecursionError, MemoryError) as error:
        raise ModelFileError(f"{path} describes more than fits in memory ({type(error).__name__})") from None


def _as_path(path) -> Path:
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"path must be the name of a file, got {type(path).__name__}")
    return Path(path)


def _open(path: Path) -> tuple[dict[str, str], dict[str, Any]]:
    """The header and all tensors."""
    from safetensors import SafetensorError, safe_open

    path.open("rb").close()  # raises Python's own error if the file is missing or unreadable
    try:
        with safe_open(path, framework="numpy") as file:
            return file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, TypeError, ValueError, AttributeError, KeyError) as error:
        raise ModelFileError(f"{path} is not a model file, or only a part of one ({error})") from None


def fingerprint(kind: str, tree: str, tensors: dict[str, Any]) -> str:
    """A SHA-256 digest of the content of a file."""
    digest = hashlib.sha256(f"{kind}\n{tree}\n".encode())
    for name in sorted(tensors):
        array = tensors[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(memoryview(array.reshape(-1).view("u1")))
    return digest.hexdigest()
