"""The cache of compiled programs on disk, so that a second fit of a table of the same shape starts at once.

``TIGHTGP_COMPILATION_CACHE=0`` switches it off; ``JAX_COMPILATION_CACHE_DIR`` names another folder, which processes may
share, and users who trust each other. Without a folder that can be written, each command compiles again.
"""

import functools
import hashlib
import os
import platform
import warnings
from pathlib import Path
from typing import Any

import jax

from tightgp.datasets.download import cache_folder

#: JAX's warning if another process is writing the same compiled program; it is compiled again then.
CACHE_WARNING = "Error (reading|writing) persistent compilation cache"
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
    folder = Path(os.environ.get("JAX_COMPILATION_CACHE_DIR") or cache_folder() / "compiled" / processor())
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return None, f"its folder cannot be created: {error}"
    writable = os.access(folder, os.R_OK | os.W_OK | os.X_OK)
    return (folder, "") if writable else (None, f"{folder} cannot be written")


@functools.cache
def processor() -> str:
    """A short name for what this machine's processor can do: programs for another one might not run on it."""
    told = platform.machine() + platform.processor()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        told += "".join(sorted({line for line in lines if line.startswith(("flags", "Features", "model name"))}))
    except OSError:
        pass
    return hashlib.sha256(told.encode()).hexdigest()[:8]


@functools.cache
def switch_on_if_free() -> None:
    """`switch_on`, unless the program has settings of its own or there is no folder: for estimators in any program."""
    config: Any = jax.config
    if config.jax_compilation_cache_dir is None and config.jax_enable_compilation_cache and find_folder()[0]:
        switch_on()


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
