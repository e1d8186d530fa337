"""Real processes that train together on this machine: started, waited for, and never left behind."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
SECONDS = 180
#: Where a folder is named for compiled programs, all go there.
KEPT = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0"}


class Ended:
    """What a process left: its exit code, and what it said on either stream."""

    def __init__(self, process, out, err):
        self.code, self.out, self.err = process.returncode, out, err


def environment(**more) -> dict[str, str]:
    """This process's environment without what pytest or a user's JAX put there."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "JAX_", "XLA_", "TIGHTGP_", "SLURM"))}
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), kept.get("PYTHONPATH", "")])
    own = {"PYTHONPATH": path, "JAX_PLATFORMS": "cpu", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    # Arrays are small: compiling takes most of the time.
    return {**kept, **own, "JAX_DISABLE_MOST_OPTIMIZATIONS": "1", **KEPT, **{k: str(v) for k, v in more.items()}}


def port() -> int:
    """A port that is free now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def run(commands: list[list], **more) -> list[Ended]:
    """Run Python with each of these arguments, all at once, and wait for all of them."""
    started = [
        subprocess.Popen(
            [sys.executable, *map(str, command)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(**more),
        )
        for command in commands
    ]
    deadline = time.monotonic() + SECONDS
    try:
        return [Ended(one, *one.communicate(timeout=max(1, deadline - time.monotonic()))) for one in started]
    finally:
        for one in started:
            if one.poll() is None:
                one.kill()
                one.communicate()
