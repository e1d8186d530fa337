"""``tightgp info``: what a bug report needs."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version

import jax
import jax.numpy as jnp

import tightgp
from tightgp.cli.terminal import Terminal
from tightgp.datasets.places import cache

PACKAGES = ("jax", "equinox", "optax", "numpy", "scipy", "scikit-learn", "pandas", "pyarrow", "safetensors")


def about(terminal: Terminal) -> None:
    """Say what runs where."""
    devices = [f"{device.device_kind} ({device.platform})" for device in jax.devices()]
    facts = {
        "tightgp": tightgp.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "devices": devices,
        "precision": "float64" if jnp.zeros(()).dtype == jnp.float64 else "float32 (TIGHTGP_X64=0)",
        "packages": {name: _version(name) for name in PACKAGES},
        "TIGHTGP_DATA": os.environ.get("TIGHTGP_DATA", "not set"),
        "cache": str(cache()),
    }
    for name, value in facts.items():
        if isinstance(value, dict):
            value = ", ".join(f"{key} {one}" for key, one in value.items())
        terminal.show(f"{name:<13} {', '.join(value) if isinstance(value, list) else value}")
    terminal.result(facts)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
