"""Model files: one safetensors file that holds a model, a posterior or an estimator, and can run no code.

The numbers are tensors, named by where they belong; the header describes in JSON how they hang together. Loading
makes objects of a fixed list of classes and fills in their fields: no constructor runs, nothing is imported by
name, nothing is unpickled. A fingerprint of all content tells a damaged file from a whole one.
"""

import copy
import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tightgp import structure
from tightgp.files import written_whole

#: The newest layout that this code reads, and the one it writes.
FORMAT = 1


class ModelFileError(ValueError):
    """A file that is no model file, is damaged, or needs a newer tightgp."""


def save(value, path, *, training_rows: bool = True) -> None:
    """Write a model, posterior, kernel, likelihood or estimator to ``path``: one safetensors file, whole or not at all.

    Posteriors and estimators that predict from neighbours hold the training rows, and so does their file;
    ``training_rows=False`` leaves these out. What is loaded from it refuses to predict from neighbours, and an
    estimator predicts from the inducing points alone after ``set_params(neighbours=0)``.

    >>> save(result.model, "model.safetensors")
    >>> save(SparseGPRegressor().fit(X, y), "regressor.safetensors")
    """
    if not structure.is_part(value):
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
    """What `save` wrote to ``path``. It predicts bit for bit what it predicted before.

    ``classes`` are those of your own (a kernel, say) that the file holds: a file names classes and brings no code.

    >>> load("model.safetensors").posterior(data)
    """
    value = read(path, "model", classes)
    if not structure.is_part(value):
        raise ModelFileError(f"{path} holds a {type(value).__name__}, no model")
    return value


def write(value, path, kind: str) -> None:
    """Write anything made of arrays, plain values and tightgp's parts, as a file of this ``kind``."""
    from safetensors.numpy import save_file

    tensors: dict[str, Any] = {}
    tree = json.dumps(structure.encode(value, tensors), allow_nan=False, separators=(",", ":"))
    header = {
        "format": "tightgp",
        "version": str(FORMAT),
        "kind": kind,
        "tree": tree,
        "fingerprint": _fingerprint(kind, tree, tensors),
    }
    with written_whole(_as_path(path)) as temporary:
        save_file(tensors, temporary, header)


def read(path, kind: str, classes: Iterable[type] = ()) -> Any:
    """The value of a file of this ``kind``."""
    path = _as_path(path)
    if path.is_dir():
        raise ModelFileError(f"{path} is a folder, not a model file")
    header, tensors = _open(path)
    if header.get("format") != "tightgp":
        raise ModelFileError(f"{path} is a safetensors file, but not one of tightgp's: its header does not say so")
    version = header.get("version", "")
    if not version.isascii() or not version.isdigit() or len(version) > 9:
        raise ModelFileError(f"{path} is damaged: its header has no version")
    if int(version) > FORMAT:
        raise ModelFileError(
            f"{path} was written by a newer tightgp (file version {version}; this one reads up to {FORMAT}): upgrade it"
        )
    tree = header.get("tree", "")
    if header.get("fingerprint") != _fingerprint(header.get("kind", ""), tree, tensors):
        raise ModelFileError(f"{path} is damaged: its content is not what was written; get another copy of it")
    stored = header.get("kind", "")
    if stored != kind:
        hint = "; go on from it with fit(..., checkpoint=..., resume=True)" if stored == "checkpoint" else ""
        raise ModelFileError(f"{path} is a {stored!r} file where a {kind} file is expected{hint}")
    try:
        description = json.loads(tree)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path} is damaged: its description cannot be read ({type(error).__name__})") from None
    try:
        return structure.decode(description, tensors, classes)
    except structure.StructureError as error:
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

    with path.open("rb"):  # a file that is not there or not ours to read says so in Python's own words
        pass
    try:
        with safe_open(path, framework="numpy") as file:
            return file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, TypeError, ValueError, AttributeError, KeyError) as error:
        raise ModelFileError(f"{path} is no model file, or only a part of one ({error})") from None


def _fingerprint(kind: str, tree: str, tensors: dict[str, Any]) -> str:
    digest = hashlib.sha256(f"{kind}\n{tree}\n".encode())
    for name in sorted(tensors):
        array = tensors[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(memoryview(array.reshape(-1).view("u1")))
    return digest.hexdigest()
