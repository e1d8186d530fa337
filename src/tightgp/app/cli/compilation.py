"""The cache of compiled programs on disk, so that a second fit starts at once.

``TIGHTGP_COMPILATION_CACHE=0`` switches it off; ``JAX_COMPILATION_CACHE_DIR`` names another folder, which processes may
share, and users who trust each other. Without a folder that can be written, each command compiles again.
"""

import os
import warnings
from dataclasses import dataclass
from pathlib import Path

import jax

from tightgp.app.cli.terminal import CACHE_WARNING
from tightgp.datasets.download import cache_folder

#: JAX removes the programs that were not used for longest from our own folder when it is larger than this. It looks at
#: every file whenever it adds one, so a large folder is slow: 0.1 s a program at this size.
MOST_BYTES = 64 << 20


@dataclass(frozen=True)
class CompilationCache:
    """The folder of compiled programs, or the reason why none is used."""

    folder: Path | None
    reason: str = ""

    @classmethod
    def find(cls) -> "CompilationCache":
        """The folder that the environment names, or our own; it is created if it does not exist."""
        for name in ("TIGHTGP_COMPILATION_CACHE", "JAX_ENABLE_COMPILATION_CACHE"):
            if os.environ.get(name, "").lower() in ("0", "false"):
                return cls(None, f"{name}={os.environ[name]}")
        folder = Path(os.environ.get("JAX_COMPILATION_CACHE_DIR") or cache_folder() / "compiled")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            return cls(None, f"its folder cannot be created: {error}")
        writable = os.access(folder, os.R_OK | os.W_OK | os.X_OK)
        return cls(folder) if writable else cls(None, f"{folder} cannot be written")

    def sizes(self) -> list[int]:
        """The size in bytes of each program."""
        return [] if self.folder is None else [path.stat().st_size for path in self.folder.glob("*-cache")]


def switch_on() -> None:
    """Let JAX keep compiled programs, from now on; its own environment variables take precedence."""
    if "://" in os.environ.get("JAX_COMPILATION_CACHE_DIR", ""):
        return  # not a folder of this machine: JAX knows what to do
    cache = CompilationCache.find()
    warnings.filterwarnings("ignore", CACHE_WARNING)
    settings = {
        "jax_enable_compilation_cache": not cache.reason,
        "jax_compilation_cache_dir": None if cache.folder is None else str(cache.folder),
        # Most programs are small and compile in tens of milliseconds, but there are many.
        "jax_persistent_cache_min_compile_time_secs": 0,
        "jax_persistent_cache_min_entry_size_bytes": 0,
    }
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        settings["jax_compilation_cache_max_size"] = MOST_BYTES
    for name, value in settings.items():
        if name.upper() not in os.environ:
            jax.config.update(name, value)
