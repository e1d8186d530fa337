"""Run one measurement: ``python -m benchmarks.workers LIBRARY TASK SIZES`` prints a line of JSON.

``TASK`` is "probe" (versions, device, variants), or one of the library's; ``SIZES`` are its arguments as JSON.
"""

import importlib
import json
import sys


def main(library: str, task: str, sizes: dict) -> dict:
    try:
        worker = importlib.import_module(f"benchmarks.workers.{library}_")
    except ImportError as error:
        return {"missing": f"not installed ({error})"}
    return worker.probe() if task == "probe" else worker.TASKS[task](**sizes)


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))))
