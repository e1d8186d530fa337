"""Results, one file for each run; finished runs are not repeated."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tightgp.io.files import atomic_write

Record = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """One training: set, method, number of inducing points (None: not sparse) and split."""

    folder: str
    set: str
    method: str
    inducing: int | None
    split: int

    @property
    def name(self) -> str:
        """Its name, unique in its folder."""
        size = [] if self.inducing is None else [str(self.inducing)]
        return "-".join([self.set, self.method, *size, f"split{self.split}"])


class Found(dict[Run, Record]):
    """The results of finished runs."""

    def of(self, **wanted) -> list[Record]:
        """The results of runs with these fields: ``found.of(set="pol", method="sgpr", inducing=1024)``."""
        return [r for run, r in self.items() if all(getattr(run, name) == value for name, value in wanted.items())]

    def shared(self, methods: Iterable[str], **wanted) -> "Found":
        """The results of these methods on the splits that all of them have, to be compared split by split."""
        mine = {run: r for run, r in self.items() if all(getattr(run, name) == value for name, value in wanted.items())}
        splits = [{run.split for run in mine if run.method == method} for method in methods]
        return Found({run: r for run, r in mine.items() if run.split in set.intersection(*splits)})

    def scores(self, key: str, neighbours: int | None = None, **wanted) -> tuple[float, ...]:
        """A test score of each of them; ``neighbours`` None is prediction from the inducing points alone."""
        return tuple(
            score[key]
            for record in self.of(**wanted)
            for score in record["scores"]
            if score["neighbours"] == neighbours and "error" not in score
        )

    def by_split(self, key: str, neighbours: int | None = None, **wanted) -> dict[int, float]:
        """The same by split, for fields that select one method."""
        splits = (run.split for run in self if all(getattr(run, name) == value for name, value in wanted.items()))
        found = {split: self.scores(key, neighbours, **wanted, split=split) for split in splits}
        return {split: one for split, scores in found.items() for one in scores}


def gains(ours: dict[int, float], theirs: dict[int, float]) -> tuple[float, ...]:
    """Differences between the scores of two methods, on the splits that both have."""
    return tuple(score - theirs[split] for split, score in ours.items() if split in theirs)


class Store:
    """A folder of results: ``<folder>/<name>.json`` for each run."""

    def __init__(self, folder: Path):
        self.folder = Path(folder)

    def path(self, run: Run, ending: str = "json") -> Path:
        """The file of a run's result, or another file of the run."""
        return self.folder / run.folder / f"{run.name}.{ending}"

    def holds(self, run: Run) -> bool:
        """Whether the run is finished."""
        return self.path(run).exists()

    def write(self, run: Run, record: Record) -> None:
        """Write a result, whole or not at all."""
        with atomic_write(self.path(run)) as temporary:
            temporary.write_text(json.dumps({"run": asdict(run), **record}, separators=(",", ":")) + "\n")

    def read(self, run: Run) -> Record:
        """The result of a finished run."""
        try:
            return json.loads(self.path(run).read_text())
        except json.JSONDecodeError as wrong:
            raise SystemExit(f"{self.path(run)} is not JSON ({wrong}); remove it to repeat the run") from None

    def done(self, runs: Iterable[Run]) -> Found:
        """The results of those runs that are finished."""
        return Found({run: self.read(run) for run in runs if self.holds(run)})
