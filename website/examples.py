"""Run every code block of the README and of the site's pages that is marked to run; fail if one fails.

python -m website.examples [PAGE ...]      # all pages whose text, or whose program, changed since they last ran

Two pages run at a time, each in its own process with one BLAS thread. Outputs and figures go to .docs/.
"""

import hashlib
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from website.pages import RESULTS, ROOT, key_of, with_blocks
from website.run_page import SECONDS


def program() -> str:
    """A fingerprint of the code that the examples run."""
    digest = hashlib.sha256()
    for path in [*sorted((ROOT / "src").rglob("*.py")), ROOT / "website/run_page.py", ROOT / "docs/figures/style.py"]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def run(page: Path, code: str) -> str:
    """Run a page unless it has run as it is, and say how that went; an empty text if it failed."""
    result = RESULTS / f"{key_of(page)}.json"
    fingerprint = hashlib.sha256(page.read_bytes() + code.encode()).hexdigest()
    name = page.relative_to(ROOT)
    if result.exists() and json.loads(result.read_text()).get("fingerprint") == fingerprint:
        return f"{name}: as before"
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "JAX_PLATFORMS": os.environ.get("JAX_PLATFORMS", "cpu")}
    command = [sys.executable, "-m", "website.run_page", str(page), str(RESULTS)]
    try:
        ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=2 * SECONDS)
    except subprocess.TimeoutExpired:
        print(f"{name}: took longer than {2 * SECONDS} s", file=sys.stderr)
        return ""
    if ran.returncode:
        print(f"{name}:\n{ran.stderr[-6000:]}", file=sys.stderr)
        return ""
    found = json.loads(result.read_text())
    result.write_text(json.dumps(found | {"fingerprint": fingerprint}), encoding="utf-8")
    return f"{name}: {found['seconds']:.0f} s, {found['cpu']:.0f} s of CPU time"


def main() -> None:
    """Run the pages that are named, or all; exit with 1 if one fails."""
    pages = [Path(name).resolve() for name in sys.argv[1:]] or with_blocks()
    code, start = program(), time.perf_counter()
    with ThreadPoolExecutor(max_workers=2) as pool:
        said = []
        for line in pool.map(lambda page: run(page, code), pages):
            said.append(line)
            if line:
                print(line, flush=True)
    failed = [str(page.relative_to(ROOT)) for page, line in zip(pages, said, strict=True) if not line]
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")
    print(f"{len(pages)} pages in {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
