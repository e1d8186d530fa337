"""Atomic writes: a file appears under its name only when it is complete."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Give a temporary path to write to. On success it replaces ``path``; on failure it is removed.

    The new file keeps the permissions of the old one, and a symbolic link keeps pointing to its target. An `OSError`,
    such as that of a full disk, names ``path``.

    >>> from tempfile import TemporaryDirectory
    >>> from pathlib import Path
    >>> with TemporaryDirectory() as folder:
    ...     with atomic_write(Path(folder, "a.txt")) as temporary:
    ...         length = temporary.write_text("complete")
    ...     Path(folder, "a.txt").read_text()
    'complete'
    """
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        temporary.touch(exist_ok=False)
        if path.exists():
            shutil.copymode(path, temporary)
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())  # without it a crash of the machine could leave an empty file
        temporary.replace(path)
    except OSError as error:
        if error.errno is None or error.filename not in (None, str(temporary)):
            raise
        # A full disk has no name in its error, or the temporary one.
        raise OSError(error.errno, os.strerror(error.errno), str(path)) from None
    finally:
        temporary.unlink(missing_ok=True)
