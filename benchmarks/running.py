"""Run workers, each in a fresh process, round after round, and save every number at once."""

import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.rows import COLUMNS, Case
from tightgp.io.files import atomic_write

ROOT = Path(__file__).resolve().parents[1]

Answer = dict[str, Any]


def ask(python: str, library: str, task: str, arguments: dict[str, Any], timeout: float) -> Answer:
    """The answer of one worker; if it fails, ``error`` is the last line of its standard error."""
    kept = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}  # always compile
    env = {**kept, "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [python, "-m", "benchmarks.workers", library, task, json.dumps(arguments)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=ROOT, timeout=timeout)
    except subprocess.TimeoutExpired:
        return {"error": f"not done after {timeout:.0f} s"}
    except OSError as error:
        return {"error": str(error)}
    if done.returncode < 0:
        return {"error": f"ended by signal {-done.returncode}" + (" (out of memory?)" if done.returncode == -9 else "")}
    try:
        if done.returncode == 0:
            return json.loads(done.stdout.strip().splitlines()[-1])
    except (ValueError, IndexError):
        return {"error": f"no answer, but {done.stdout[-200:]!r}"}
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return {"error": lines[-1][-300:] if lines else f"ended with status {done.returncode}"}


def one_side(python: str | None, module: str, *arguments: str) -> Answer:
    """One side of a comparison, in a process of its own: the JSON that it prints as its last line.

    tightgp's side is ``benchmarks.MODULE --own``; the peers' is ``MODULE_peer.py``, run by their ``python``.
    """
    ours = [sys.executable, "-m", f"benchmarks.{module}", "--own"]
    command = ours if python is None else [python, str(Path(__file__).with_name(f"{module}_peer.py"))]
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    if python is not None:
        env.pop("PYTHONPATH", None)
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, env=env, cwd=ROOT)
    if done.returncode:
        raise SystemExit(f"{'tightgp' if python is None else 'the peer'} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def machine() -> dict[str, Any]:
    """The machine, and its load before the run."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"processor": name, "cores": cores, "system": platform.platform(), "load_before": os.getloadavg()[0]}


class Suite:
    """All cases in all libraries. ``record`` holds the results so far, as they are written to the file."""

    def __init__(self, pythons: dict[str, str | None], settings: dict[str, Any], out: Path | None):
        self._pythons, self._out = pythons, out
        self._timeout = settings["timeout"]
        self.record: dict[str, Any] = {
            "when": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
            "machine": machine(),
            "settings": settings,
            "libraries": {},
            "cases": [],
        }

    def probe(self) -> dict[str, Any]:
        """Versions and devices of each library, and the variants to try."""
        for library, python in self._pythons.items():
            if python is None:
                answer: Answer = {"missing": "not installed (no interpreter was given)"}
            else:
                answer = ask(python, library, "probe", {}, self._timeout)
            if "error" in answer:
                answer = {"missing": answer["error"]}
            self.record["libraries"][library] = answer
        self._save()
        return self.record["libraries"]

    def run(self, cases: list[Case], rounds: int, console) -> None:
        """Run all cases in each round, so that a change in the machine's speed affects all of them."""
        kept = [self._entry(case) for case in cases]
        self.record["cases"] = kept
        total = sum(len(case.columns) * (1 if case.once else rounds) for case in cases)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task("", total=total)
            for number in range(rounds):
                for case, entry in zip(cases, kept, strict=True):
                    for column in case.columns if number == 0 or not case.once else ():
                        words = f"round {number + 1}: {case.row}, {case.title}, {COLUMNS[column].title}"
                        bar.update(task, description=words)
                        self._measure(case, column, entry)
                        bar.advance(task)
                        self._save()

    def _entry(self, case: Case) -> dict[str, Any]:
        fields = case._asdict()
        return {**fields, "answers": {column: [] for column in case.columns}, "variants": {}}

    def _measure(self, case: Case, column: str, entry: dict[str, Any]) -> None:
        """Add an answer. The first round tries every variant, and the fastest is kept."""
        library, answers = COLUMNS[column].library, entry["answers"][column]
        about = self.record["libraries"][library]
        if "missing" in about or any("error" in answer for answer in answers):
            return
        variants = about.get("variants", {}).get(case.task, [])
        if self.record["settings"]["quick"] and case.row != "svgp":
            variants = variants[:1]
        if answers and variants:
            variants = [answers[0]["variant"]]
        found = {variant: self._answer(case, column, variant) for variant in variants or [None]}
        good = {variant: answer for variant, answer in found.items() if "seconds" in answer}
        if not good:
            answers.append(next(iter(found.values())))
            return
        best = min(good, key=lambda variant: min(good[variant]["seconds"]))
        answers.append(good[best])
        if len(found) > 1:
            entry["variants"][column] = {
                variant: min(answer["seconds"]) if "seconds" in answer else answer for variant, answer in found.items()
            }

    def _answer(self, case: Case, column: str, variant: str | None) -> Answer:
        python = self._pythons[COLUMNS[column].library]
        arguments = case.arguments(column) | ({} if variant is None else {"variant": variant})
        answer = ask(str(python), case.worker(column), case.task, arguments, self._timeout)
        return answer if variant is None else {**answer, "variant": variant}

    def _save(self) -> None:
        if self._out is not None:
            with atomic_write(self._out) as temporary:
                temporary.write_text(json.dumps(self.record, indent=1, ensure_ascii=False) + "\n")
