"""Time ``import``: the wall time of a process that imports a module, less that of an empty one."""

import subprocess
import sys
import time


def probe() -> dict:
    return {"versions": {}, "device": ""}


def imported(module: str, repeats: int) -> dict:
    """Seconds of each repeat; after the first, files are in the cache."""
    bare = min(_run("pass") for _ in range(1 + repeats))
    first, *later = (_run(f"import {module}") - bare for _ in range(1 + repeats))
    return {"first": first, "seconds": later, "bare": bare}


def _run(source: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", source], check=True, capture_output=True)
    return time.perf_counter() - began


TASKS = {"imports": imported}
