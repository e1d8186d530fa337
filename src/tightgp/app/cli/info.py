"""``tightgp info``: what a bug report needs."""

import os
import platform
from importlib.metadata import version
from typing import Any

import jax
import jax.numpy as jnp

import tightgp
from tightgp.app.cli.terminal import Terminal
from tightgp.datasets.download import cache_folder
from tightgp.estimators.compilation import find_folder

PACKAGES = ("jax", "equinox", "optax", "numpy", "scipy", "scikit-learn", "pandas", "pyarrow", "safetensors")


def show_info(terminal: Terminal) -> None:
    """Show versions, devices, precision and folders."""
    folder, reason = find_folder()
    sizes = [] if folder is None else [path.stat().st_size for path in folder.glob("*-cache")]
    facts: dict[str, Any] = {
        "tightgp": tightgp.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "devices": [f"{one.device_kind} ({one.platform}, process {one.process_index})" for one in jax.devices()],
        "processes": jax.process_count(),
        "precision": "float64" if jnp.zeros(()).dtype == jnp.float64 else "float32 (TIGHTGP_X64=0)",
        "packages": {name: version(name) for name in PACKAGES},
        "TIGHTGP_DATA": os.environ.get("TIGHTGP_DATA", "not set"),
        "cache": str(cache_folder()),
    }
    used = {"entries": len(sizes), "bytes": sum(sizes)}
    facts["compiled"] = {"on": not reason, "folder": folder and str(folder), **used, "reason": reason}
    compiled = f"{len(sizes)} programs, {sum(sizes) / 1e6:.1f} MB, in {folder}"
    for name, value in {**facts, "compiled": f"no cache: {reason}" if reason else compiled}.items():
        if isinstance(value, dict):
            value = [f"{key} {one}" for key, one in value.items()]
        terminal.print(f"{name:<13} {', '.join(value) if isinstance(value, list) else value}")
    terminal.result(facts)
