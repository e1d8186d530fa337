"""Read arrays from an .npz archive by name."""

import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np


def arrays(path: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """The arrays ``names`` of the archive; pickled objects are refused."""
    # NumPy mistakes a file that is not an archive for a pickle, and its message says so.
    if not zipfile.is_zipfile(path):
        raise ValueError("it is not a complete .npz archive")
    with np.load(path, allow_pickle=False) as file:
        if missing := [name for name in names if name not in file.files]:
            raise ValueError(f"it has no array {missing[0]!r}; its arrays are {', '.join(map(repr, file.files))}")
        return {name: file[name] for name in names}
