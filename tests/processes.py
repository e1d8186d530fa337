"""Run Python processes side by side on this machine, and wait for all of them."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
TIMEOUT_SECONDS = 180
#: If JAX has a folder for compiled programs, store all of them there.
CACHE_ALL = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0"}


class Completed:
    """The exit code and the output of a process."""

    def __init__(self, process, out, err):
        self.code, self.out, self.err = process.returncode, out, err


def environment(**more) -> dict[str, str]:
    """The environment of this process without the variables of pytest and JAX, with ``more`` added.

    XLA's flags stay: under those of ``make test`` compilation takes a quarter of the time.
    """
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "JAX_", "TIGHTGP_", "SLURM"))}
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), inherited.get("PYTHONPATH", "")])
    added = {"PYTHONPATH": path, "JAX_PLATFORMS": "cpu", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    # Arrays are small, so that compilation takes most of the time.
    return {
        **inherited,
        **added,
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
        **CACHE_ALL,
        **{k: str(v) for k, v in more.items()},
    }


def port() -> int:
    """A free port."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def run(commands: list[list], **more) -> list[Completed]:
    """Run Python with each of these lists of arguments at the same time; ``more`` are environment variables."""
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
    deadline = time.monotonic() + TIMEOUT_SECONDS
    try:
        return [Completed(p, *p.communicate(timeout=max(1, deadline - time.monotonic()))) for p in started]
    finally:
        for process in started:
            if process.poll() is None:
                process.kill()
                process.communicate()
