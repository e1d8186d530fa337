"""Results, one file a run: what is there is not done again."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tightgp.io.files import atomic_write

Record = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """One training: on which split of which set, by which method, with how many inducing points (None: not sparse)."""

    folder: str
    set: str
    method: str
    inducing: int | None
    split: int

    @property
    def name(self) -> str:
        """What tells it from the others in its folder."""
        size = [] if self.inducing is None else [str(self.inducing)]
        return "-".join([self.set, self.method, *size, f"split{self.split}"])


class Found(dict[Run, Record]):
    """The results of runs that are done."""

    def of(self, **wanted) -> list[Record]:
        """Those whose run has these fields: ``found.of(set="pol", method="sgpr", inducing=1024)``."""
        return [r for run, r in self.items() if all(getattr(run, name) == value for name, value in wanted.items())]

    def shared(self, methods: Iterable[str], **wanted) -> "Found":
        """Those of these methods, on the splits that each of them has: what can be compared one by one."""
        mine = {run: r for run, r in self.items() if all(getattr(run, name) == value for name, value in wanted.items())}
        splits = [{run.split for run in mine if run.method == method} for method in methods]
        return Found({run: r for run, r in mine.items() if run.split in set.intersection(*splits)})

    def scores(self, key: str, neighbours: int | None = None, **wanted) -> tuple[float, ...]:
        """A test score of each of them, by global prediction or from so many nearest training rows."""
        return tuple(
            score[key]
            for record in self.of(**wanted)
            for score in record["scores"]
            if score["neighbours"] == neighbours and "error" not in score
        )

    def by_split(self, key: str, neighbours: int | None = None, **wanted) -> dict[int, float]:
        """The same by split, where the fields tell one method from all others."""
        splits = (run.split for run in self if all(getattr(run, name) == value for name, value in wanted.items()))
        found = {split: self.scores(key, neighbours, **wanted, split=split) for split in splits}
        return {split: one for split, scores in found.items() for one in scores}


def gains(ours: dict[int, float], theirs: dict[int, float]) -> tuple[float, ...]:
    """By how much one method's scores are above another's, on the splits that both have."""
    return tuple(score - theirs[split] for split, score in ours.items() if split in theirs)


class Store:
    """A folder of results: ``<folder>/<name>.json`` for each run."""

    def __init__(self, folder: Path):
        self.folder = Path(folder)

    def path(self, run: Run, ending: str = "json") -> Path:
        """Where a run's result, or another file of it, is kept."""
        return self.folder / run.folder / f"{run.name}.{ending}"

    def holds(self, run: Run) -> bool:
        """Whether the run is done."""
        return self.path(run).exists()

    def write(self, run: Run, record: Record) -> None:
        """Keep a result, whole or not at all."""
        with atomic_write(self.path(run)) as temporary:
            temporary.write_text(json.dumps({"run": asdict(run), **record}, separators=(",", ":")) + "\n")

    def read(self, run: Run) -> Record:
        """The result of a run that is done."""
        try:
            return json.loads(self.path(run).read_text())
        except json.JSONDecodeError as wrong:
            raise SystemExit(f"{self.path(run)} is no JSON ({wrong}); remove it, and the run is done again") from None

    def done(self, runs: Iterable[Run]) -> Found:
        """The results of those runs that are done."""
        return Found({run: self.read(run) for run in runs if self.holds(run)})
