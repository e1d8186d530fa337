"""A process that was forked after JAX started its threads: it has none of them, and would wait for them for ever."""

import os
import sys

_state = {"forked": False}


class ForkedProcessError(RuntimeError):
    """This process cannot compute, because it is the copy of one in which JAX was already running."""


def _after_fork() -> None:
    bridge = sys.modules.get("jax._src.xla_bridge")
    started = getattr(bridge, "backends_are_initialized", lambda: True)
    _state["forked"] = _state["forked"] or (bridge is not None and started())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def check_not_forked() -> None:
    """Raise an error in a forked process that could only hang."""
    if _state["forked"]:
        raise ForkedProcessError(
            "this process was forked from one in which JAX was already running, and would wait for its threads for "
            "ever; start processes with multiprocessing.get_context('spawn') (or joblib's default), or fork before the "
            "first use of tightgp or JAX"
        )
