"""The cache of compiled programs on disk, so that a second fit starts at once.

``TIGHTGP_COMPILATION_CACHE=0`` switches it off; ``JAX_COMPILATION_CACHE_DIR`` names another folder, which processes may
share, and users who trust each other. Without a folder that can be written, each command compiles again.
"""

import os
import warnings
from pathlib import Path

import jax

from tightgp.app.cli.terminal import CACHE_WARNING
from tightgp.datasets.download import cache_folder

#: JAX removes the programs that were not used for longest from our own folder when it is larger than this. It looks at
#: every file whenever it adds one, so a large folder is slow: 0.1 s a program at this size.
MOST_BYTES = 64 << 20


def find_folder() -> tuple[Path | None, str]:
    """The folder of compiled programs, or None and the reason why none is used.

    It is the folder that the environment names, or our own, and is created if it does not exist.
    """
    for name in ("TIGHTGP_COMPILATION_CACHE", "JAX_ENABLE_COMPILATION_CACHE"):
        if os.environ.get(name, "").lower() in ("0", "false"):
            return None, f"{name}={os.environ[name]}"
    folder = Path(os.environ.get("JAX_COMPILATION_CACHE_DIR") or cache_folder() / "compiled")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return None, f"its folder cannot be created: {error}"
    writable = os.access(folder, os.R_OK | os.W_OK | os.X_OK)
    return (folder, "") if writable else (None, f"{folder} cannot be written")


def switch_on() -> None:
    """Let JAX keep compiled programs, from now on; its own environment variables take precedence."""
    if "://" in os.environ.get("JAX_COMPILATION_CACHE_DIR", ""):
        return  # not a folder of this machine: JAX knows what to do
    folder, _ = find_folder()
    warnings.filterwarnings("ignore", CACHE_WARNING)
    settings = {
        "jax_enable_compilation_cache": folder is not None,
        "jax_compilation_cache_dir": folder and str(folder),
        # Most programs are small and compile in tens of milliseconds, but there are many.
        "jax_persistent_cache_min_compile_time_secs": 0,
        "jax_persistent_cache_min_entry_size_bytes": 0,
    }
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        settings["jax_compilation_cache_max_size"] = MOST_BYTES
    for name, value in settings.items():
        if name.upper() not in os.environ:
            jax.config.update(name, value)
