"""Run the code blocks of one page, in its own process, and write what they print and draw.

python -m website.run_page PAGE FOLDER
"""

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from docs.figures import style
from website.pages import DOCS, Block, blocks, key_of

#: What a page outside of the tutorials may use without saying where it comes from.
PREAMBLE = """
import numpy as np
import tightgp as tgp
rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, size=(60, 2))
y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=60)
X_new, y_new = X[:5] + 0.1, y[:5]
data = tgp.Dataset(X, y)
kernel = tgp.kernels.Matern52(1.0, [1.0, 1.0])
Z = tgp.inducing.kmeans(X, 10, seed=0)
model = tgp.SGPR(kernel, Z, noise_variance=0.1)
result = tgp.fit(model, data, steps=5, progress=False)
"""
#: What the README's commands find in their folder.
TABLES = """
import tightgp as tgp
tgp.datasets.mixed_table(120, seed=0).to_csv("flats.csv", index=False)
tgp.datasets.mixed_table(5, seed=1).drop(columns="rent").to_csv("new.csv", index=False)
"""
SECONDS = 900
#: Titles of blocks that run here: those of other libraries run in their own environment (`website/migration.py`).
_OURS = ("tightgp",)
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def run(page: Path, folder: Path) -> dict[str, Any]:
    """The outputs of a page's blocks, and the seconds that they took; figures go to ``folder``."""
    names: dict[str, Any] = {"__name__": "__main__"}
    text = page.read_text(encoding="utf-8")
    if page.is_relative_to(DOCS) and "tutorials" not in page.parts and "import tightgp" not in text:
        exec(compile(PREAMBLE, "preamble", "exec"), names)
    outputs, start, cpu = [], time.perf_counter(), _cpu()
    folder.mkdir(parents=True, exist_ok=True)
    style.use()
    with tempfile.TemporaryDirectory() as work, contextlib.chdir(work):
        warnings.filterwarnings(
            "error", category=DeprecationWarning, module="__main__|tightgp"
        )  # not other libraries' own
        if page.name == "README.md":
            exec(compile(TABLES, "tables", "exec"), {})
        for number, block in enumerate(blocks(text)):
            output = {"text": "", "figures": []}
            if block.runs and block.options.get("title", "tightgp") in _OURS:
                output["text"] = _python(block, names) if block.language == "python" else _bash(block)
                output["figures"] = _figures(block, folder, f"{key_of(page)}-{number}")
            outputs.append(output)
    return {"outputs": outputs, "seconds": time.perf_counter() - start, "cpu": _cpu() - cpu}


def _cpu() -> float:
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def _python(block: Block, names: dict[str, Any]) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            exec(compile(block.code, "block", "exec"), names)
        except BaseException:
            printed.write(traceback.format_exc())
            raise SystemExit(f"{block.code}\n{printed.getvalue()}") from None
    return printed.getvalue()


def _bash(block: Block) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": "92", "NO_COLOR": "1", "TERM": "dumb"}
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.code],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
    )
    allowed = int(block.options.get("exit", "0"))
    if ran.returncode != allowed:
        raise SystemExit(f"exit code {ran.returncode}, not {allowed}, of\n{block.code}\n{ran.stdout}")
    return _ESCAPES.sub("", ran.stdout).replace(os.getcwd() + "/", "")


def _figures(block: Block, folder: Path, name: str) -> list[str]:
    import matplotlib.pyplot as plt

    written = []
    for number in plt.get_fignums():
        if "figure" not in block.options:
            raise SystemExit(f'a block that draws says what it shows, as ```python figure="..."\n{block.code}')
        file = f"{name}-{number}.png"
        plt.figure(number).savefig(folder / file)
        plt.close(number)
        written.append(file)
    return written


def main() -> None:
    """Run a page, and write ``FOLDER/KEY.json``."""
    page, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    result = run(page, folder)
    (folder / f"{key_of(page)}.json").write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
