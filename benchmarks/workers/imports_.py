"""What ``import`` costs: the wall time of a process that imports and ends, less that of one that only ends."""

import subprocess
import sys
import time


def probe() -> dict:
    return {"versions": {}, "device": ""}


def imported(module: str, repeats: int) -> dict:
    """Files are in the cache after the first."""
    bare = min(_run("pass") for _ in range(1 + repeats))
    first, *later = (_run(f"import {module}") - bare for _ in range(1 + repeats))
    return {"first": first, "seconds": later, "bare": bare}


def _run(source: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", source], check=True, capture_output=True)
    return time.perf_counter() - began


TASKS = {"imports": imported}
