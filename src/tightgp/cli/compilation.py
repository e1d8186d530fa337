"""Programs that JAX compiled, kept in a folder from one command to the next: a second fit starts at once.

``TIGHTGP_COMPILATION_CACHE=0`` switches it off; ``JAX_COMPILATION_CACHE_DIR`` names another folder, which processes may
share, and users who trust each other. Without a folder that can be written everything works, and each command compiles
anew.
"""

import os
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import jax

from tightgp.cli.terminal import UNREADABLE

#: When the folder has grown larger than this, what was not used for longest is removed down to three quarters of it.
MOST_BYTES = 1 << 30


@dataclass(frozen=True)
class Kept:
    """The folder of compiled programs, whether it is used, and if not, why."""

    folder: Path | None
    on: bool
    why: str = ""

    @classmethod
    def now(cls) -> "Kept":
        """What environment and disk allow; the folder is made where it is not there."""
        if os.environ.get("TIGHTGP_COMPILATION_CACHE") == "0":
            return cls(None, False, "TIGHTGP_COMPILATION_CACHE=0")
        if os.environ.get("JAX_ENABLE_COMPILATION_CACHE", "").lower() in ("0", "false"):
            return cls(None, False, "JAX_ENABLE_COMPILATION_CACHE is off")
        try:
            folder = _folder()
            folder.mkdir(parents=True, exist_ok=True)
        except (OSError, ImportError, RuntimeError) as error:
            return cls(None, False, f"its folder cannot be made: {error}")
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            return cls(folder, False, "its folder cannot be written")
        return cls(folder, True)

    @property
    def entries(self) -> int:
        """How many programs there are."""
        return sum(path.name.endswith("-cache") for path, _ in self._files())

    @property
    def size(self) -> int:
        """How many bytes they take, with what belongs to them."""
        return sum(stat.st_size for _, stat in self._files())

    def shrink(self, most: int = MOST_BYTES) -> None:
        """Remove the programs that were not used for longest, where all are too large."""
        files = sorted(self._files(), key=lambda pair: max(pair[1].st_atime, pair[1].st_mtime))
        total = sum(stat.st_size for _, stat in files)
        if total <= most:
            return
        for path, stat in files:
            if total <= 0.75 * most:
                break
            with suppress(OSError):
                path.unlink()
                total -= stat.st_size

    def _files(self) -> list[tuple[Path, os.stat_result]]:
        found = []
        for path in () if self.folder is None else self.folder.iterdir():
            with suppress(OSError):  # another process may just have removed it
                if path.name.endswith(("-cache", "-atime")) and path.is_file():
                    found.append((path, path.stat()))
        return found


def switch_on() -> None:
    """Let JAX keep what it compiles, from now on; what a user's environment says of the details stays."""
    if "://" in os.environ.get("JAX_COMPILATION_CACHE_DIR", ""):
        return  # no folder of this machine: JAX knows what to do
    kept = Kept.now()
    jax.config.update("jax_compilation_cache_dir", str(kept.folder) if kept.on else None)
    jax.config.update("jax_enable_compilation_cache", kept.on)
    if not kept.on:
        return
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        kept.shrink()  # a folder that the user named may be others' too
    warnings.filterwarnings("ignore", UNREADABLE)
    # Most programs are small and take tens of milliseconds each, but there are many.
    for name in ("jax_persistent_cache_min_compile_time_secs", "jax_persistent_cache_min_entry_size_bytes"):
        if name.upper() not in os.environ:
            jax.config.update(name, 0)


def _folder() -> Path:
    named = os.environ.get("JAX_COMPILATION_CACHE_DIR")
    if named:
        return Path(named)
    from tightgp.datasets.places import cache

    return cache() / "compiled"
