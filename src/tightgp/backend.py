"""What depends on the kind of device that computes."""

from collections.abc import Mapping

import jax


def on_cpu() -> bool:
    """Whether a CPU computes, not an accelerator."""
    return jax.default_backend() == "cpu"


def of_backend(values: Mapping[str, int]) -> int:
    """The value, of those for ``"cpu"`` and ``"gpu"``, that belongs to the backend at hand."""
    return values["cpu" if on_cpu() else "gpu"]
