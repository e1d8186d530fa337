"""The kind of device that computes, and settings that depend on it."""

from collections.abc import Mapping

import jax


def on_cpu() -> bool:
    """Whether JAX computes on a CPU rather than an accelerator."""
    return jax.default_backend() == "cpu"


def per_backend(settings: Mapping[str, int]) -> int:
    """Pick the setting for the current backend from ``{"cpu": ..., "gpu": ...}``.

    >>> per_backend({"cpu": 1, "gpu": 2}) in (1, 2)
    True
    """
    return settings["cpu" if on_cpu() else "gpu"]
