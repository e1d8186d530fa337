"""Results, one file a run: what is there is not done again."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tightgp.files import written_whole

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
        with written_whole(self.path(run)) as temporary:
            temporary.write_text(json.dumps({"run": asdict(run), **record}, separators=(",", ":")) + "\n")

    def read(self, run: Run) -> Record:
        """The result of a run that is done."""
        try:
            return json.loads(self.path(run).read_text())
        except json.JSONDecodeError as wrong:
            raise SystemExit(f"{self.path(run)} is no JSON ({wrong}); remove it, and the run is done again") from None

    def done(self, runs: Iterable[Run]) -> dict[Run, Record]:
        """The results of those runs that are done."""
        return {run: self.read(run) for run in runs if self.holds(run)}
