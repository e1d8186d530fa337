"""``tightgp info``: what a bug report needs."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import jax
import jax.numpy as jnp

import tightgp
from tightgp.cli import compilation
from tightgp.cli.terminal import Terminal
from tightgp.datasets.places import cache

PACKAGES = ("jax", "equinox", "optax", "numpy", "scipy", "scikit-learn", "pandas", "pyarrow", "safetensors")


def about(terminal: Terminal) -> None:
    """Say what runs where."""
    devices = [f"{device.device_kind} ({device.platform}, process {device.process_index})" for device in jax.devices()]
    kept = compilation.Kept.now()
    facts: dict[str, Any] = {
        "tightgp": tightgp.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "devices": devices,
        "processes": jax.process_count(),
        "precision": "float64" if jnp.zeros(()).dtype == jnp.float64 else "float32 (TIGHTGP_X64=0)",
        "packages": {name: _version(name) for name in PACKAGES},
        "TIGHTGP_DATA": os.environ.get("TIGHTGP_DATA", "not set"),
        "cache": str(cache()),
        "compiled": {
            "on": kept.on,
            "folder": None if kept.folder is None else str(kept.folder),
            "entries": kept.entries,
            "bytes": kept.size,
            "why": kept.why,
        },
    }
    shown = {**facts, "compiled": _compiled(kept)}
    for name, value in shown.items():
        if isinstance(value, dict):
            value = ", ".join(f"{key} {one}" for key, one in value.items())
        terminal.show(f"{name:<13} {', '.join(value) if isinstance(value, list) else value}")
    terminal.result(facts)


def _compiled(kept: compilation.Kept) -> str:
    """Whether compiled programs are kept, where, and how many."""
    if not kept.on:
        return f"not kept: {kept.why}"
    return f"{kept.entries} programs, {kept.size / 1e6:.1f} MB, kept in {kept.folder}"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
