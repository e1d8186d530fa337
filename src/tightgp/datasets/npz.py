"""Arrays out of an .npz archive, by name."""

import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np


def arrays(path: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """The arrays ``names`` of the archive. Nothing in it is run."""
    # NumPy takes what is no archive for a pickle, and says so.
    if not zipfile.is_zipfile(path):
        raise ValueError("it is no whole .npz archive")
    with np.load(path, allow_pickle=False) as file:
        missing = [name for name in names if name not in file.files]
        if missing:
            raise ValueError(f"it has no array {missing[0]!r}; its arrays are {', '.join(map(repr, file.files))}")
        return {name: file[name] for name in names}
