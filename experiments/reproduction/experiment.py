"""An experiment: its runs, how one is trained, and the page that shows them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from experiments.reproduction.page import Page
from experiments.reproduction.paper import SPLITS
from experiments.reproduction.store import Run, Store


@dataclass(frozen=True)
class Choice:
    """Which runs of an experiment to do; None stands for all."""

    quick: bool = False
    sets: tuple[str, ...] | None = None
    methods: tuple[str, ...] | None = None
    splits: tuple[int, ...] | None = None
    inducing: tuple[int, ...] | None = None

    def split_numbers(self, count: int = SPLITS, quick: int = 2) -> range:
        return range(quick if self.quick else count)

    def among(self, runs: Iterable[Run]) -> list[Run]:
        """The chosen runs, by split."""
        wanted = [
            run
            for run in runs
            if (self.sets is None or run.set in self.sets)
            and (self.methods is None or run.method in self.methods)
            and (self.splits is None or run.split in self.splits)
            and (self.inducing is None or run.inducing in self.inducing or run.inducing is None)
        ]
        return sorted(wanted, key=lambda run: run.split)


@dataclass(frozen=True)
class Experiment:
    """An experiment.

    ``module`` has ``train(run, work)``, which may be called in a process of its own; ``runs`` lists the chosen runs;
    ``page`` makes the page from all results, full or quick, and writes its figures to a folder.
    """

    name: str
    about: str
    module: str
    runs: Callable[[Choice], list[Run]]
    page: Callable[[Store, bool, Path], Page]
