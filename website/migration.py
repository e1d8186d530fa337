"""The guides for users of other libraries: the same task twice, run by both, and the numbers compared.

python -m website.migration --peers PYTHON [GUIDE ...]

A guide in docs/how-to/ has pairs of blocks: one with ``title="GPflow"`` (or another library), one with
``title="tightgp" same="names" within="1e-6"``. The blocks of a library are one program, run by the peers' interpreter;
those of tightgp are another. The variables named in ``same`` must then be equal in both, to within ``within`` relative
to the largest of them. Results are kept in benchmarks/results/migration.json; the site shows how far they agree.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tightgp.io.files import atomic_write
from website.pages import DOCS, ROOT, Block, blocks

STORED = ROOT / "benchmarks" / "results" / "migration.json"
#: Runs a file of blocks and keeps the named variables after each; NumPy alone is needed in the peers' environment.
_DRIVER = """
import json, sys
import numpy as np
names, kept = {}, []
for block in json.load(open(sys.argv[1])):
    exec(compile(block["code"], "guide", "exec"), names)
    kept.append({name: np.asarray(names[name], dtype=float).tolist() for name in block["same"]})
json.dump(kept, open(sys.argv[2], "w"))
"""


def pairs(page: Path) -> list[tuple[Block, Block]]:
    """The blocks of the other library and of tightgp, two by two; what both share stands first, without a title."""
    found = [block for block in blocks(page.read_text(encoding="utf-8")) if block.language == "python"]
    titled = [block for block in found if "title" in block.options]
    theirs = [block for block in titled if block.options["title"] != "tightgp"]
    ours = [block for block in titled if block.options["title"] == "tightgp"]
    if len(theirs) != len(ours):
        raise SystemExit(f"{page.name}: {len(theirs)} blocks of the other library and {len(ours)} of tightgp")
    return list(zip(theirs, ours, strict=True))


def shared(page: Path) -> str:
    """The code that both programs begin with."""
    found = blocks(page.read_text(encoding="utf-8"))
    return "".join(b.code for b in found if b.language == "python" and "title" not in b.options)


def run(python: str, page: Path, which: int) -> list[dict[str, Any]]:
    """The compared variables after each block of one side of a guide."""
    program = [{"code": shared(page), "same": []}]
    for pair in pairs(page):
        program.append({"code": pair[which].code, "same": pair[1].options.get("same", "").split(",")})
    for part in program:
        part["same"] = [name for name in part["same"] if name]
    with tempfile.TemporaryDirectory() as folder:
        code, out, driver = (Path(folder) / name for name in ("code.json", "out.json", "driver.py"))
        code.write_text(json.dumps(program))
        driver.write_text(_DRIVER)
        quiet = {
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "TF_USE_LEGACY_KERAS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
        }
        path = str(ROOT / "src") if which else ""
        environment = {**os.environ, **quiet, "PYTHONPATH": os.environ.get("PYTHONPATH", path) if which else path}
        command = [python, str(driver), str(code), str(out)]
        ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=1800)
        if ran.returncode:
            raise SystemExit(f"{page.name}: {python}\n{ran.stdout}\n{ran.stderr[-4000:]}")
        return json.loads(out.read_text())[1:]


def compare(page: Path, peers: str) -> list[dict[str, Any]]:
    """For each pair how far its variables differ, relative to the largest of them; raises where that is too far."""
    theirs, ours = run(peers, page, 0), run(sys.executable, page, 1)
    compared = []
    for number, ((_, block), a, b) in enumerate(zip(pairs(page), theirs, ours, strict=True), start=1):
        within = float(block.options.get("within", "0"))
        differences = {}
        for name in a:
            x, y = np.asarray(a[name]), np.asarray(b[name])
            if x.shape != y.shape:
                raise SystemExit(f"{page.name}, pair {number}: {name} has shape {x.shape} there and {y.shape} here")
            differences[name] = float(np.max(np.abs(x - y)) / max(np.max(np.abs(x)), 1e-300))
            if not differences[name] <= within:
                raise SystemExit(f"{page.name}, pair {number}: {name} differs by {differences[name]:.2g}\n{x}\n{y}")
        compared.append({"within": within, "differences": differences})
        print(f"{page.stem}, pair {number}: {differences}")
    return compared


def side_by_side(markdown: str, name: str) -> str:
    """A guide with its pairs in two columns, and below each how far their numbers agree."""
    stored = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}
    results = stored.get(Path(name).stem, [])
    parts, end, number, open_pair = [], 0, 0, False
    for block in blocks(markdown):
        if block.language != "python" or "title" not in block.options:
            continue
        code = f'```python title="{block.options["title"]}"\n{block.code.rstrip()}\n```\n'
        between = markdown[end : block.start]
        if not open_pair:
            parts.append(f'{between}<div class="columns" markdown>\n\n{code}\n')
        else:
            parts.append(f"{code}\n</div>\n{_agreement(results, number)}")
            number += 1
        open_pair, end = not open_pair, block.end
    return "".join([*parts, markdown[end:]])


def _agreement(results: list[dict[str, Any]], number: int) -> str:
    found = results[number]["differences"] if number < len(results) else {}
    if not found:
        return ""
    said = "; ".join(f"`{name}` to {difference:.1g}" for name, difference in found.items())
    return f"\n*Both were run and agree: {said} (relative).*\n"


def main() -> None:
    """Run the guides and store how far they agree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", required=True, help="the interpreter that has the other libraries")
    parser.add_argument("guides", nargs="*", help="names such as from-gpflow; all by default")
    arguments = parser.parse_args()
    peers = os.path.abspath(arguments.peers)  # the guides run in other folders; a link to another Python stays one
    for page in sorted((DOCS / "how-to").glob("from-*.md")):
        if not arguments.guides or page.stem in arguments.guides:
            compared = compare(page, peers)
            stored = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}
            with atomic_write(STORED) as temporary:
                temporary.write_text(json.dumps(stored | {page.stem: compared}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
