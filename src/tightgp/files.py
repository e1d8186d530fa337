"""Writing files: to a temporary name beside the target, then renamed, so that no reader sees half of one."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Give a temporary path to write to; on success it becomes ``path``, on failure it is removed."""
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())  # a crash of the machine must not leave an empty file under the new name
        temporary.chmod(_mode(path))
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _mode(path: Path) -> int:
    """Who may read it: those who could before, or what the process gives to new files."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
