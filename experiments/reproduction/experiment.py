"""What an experiment is: the runs it is made of, how one is trained, and the page that shows them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from experiments.reproduction.page import Page
from experiments.reproduction.paper import SPLITS
from experiments.reproduction.store import Run, Store


@dataclass(frozen=True)
class Choice:
    """Which of an experiment's runs: None is all of them."""

    quick: bool = False
    sets: tuple[str, ...] | None = None
    methods: tuple[str, ...] | None = None
    splits: tuple[int, ...] | None = None
    inducing: tuple[int, ...] | None = None

    def split_numbers(self, count: int = SPLITS, quick: int = 2) -> range:
        return range(quick if self.quick else count)

    def among(self, runs: Iterable[Run]) -> list[Run]:
        """The runs that are wanted, those of the first split first."""
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
    """``module`` has ``train(run, work)``, which a process of its own may be asked for; ``runs`` gives those that
    are chosen, and ``page`` what all of them found, in full or in the quick version, with its pictures in a
    folder."""

    name: str
    about: str
    module: str
    runs: Callable[[Choice], list[Run]]
    page: Callable[[Store, bool, Path], Page]
