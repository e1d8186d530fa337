"""The rows that an experiment trains and tests on, and where its inducing points start."""

from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

import tightgp as tgp
from experiments.reproduction import paper
from tightgp import datasets
from tightgp.io.files import atomic_write

#: The quick version of every set: numbers of training and test rows, and of inputs where rows are synthetic.
QUICK_TRAIN, QUICK_TEST, QUICK_INPUTS = 600, 300, 4


class Parts(NamedTuple):
    """Standardised rows for training, validation and test.

    ``made_up`` says that they are synthetic, because the set's file is missing.
    """

    train: tgp.Dataset
    validation: tgp.Dataset
    test: tgp.Dataset
    made_up: bool = False


def parts(name: str, split: int, quick: bool) -> Parts:
    """The paper's split of a set. Quick: few rows, synthetic ones if the file is missing."""
    if quick and datasets.locate(name) is None:
        return made_up(split)
    made = datasets.split(loaded(name), split)
    # The split's seed shuffles each part, so its first rows are a random sample.
    cut = slice(paper.BIKE_ROWS if name == "bike" else None)
    found = Parts(made.train.take(cut), made.validation, made.test)
    if not quick:
        return found
    few = slice(QUICK_TEST)
    return Parts(found.train.take(slice(QUICK_TRAIN)), found.validation.take(few), found.test.take(few))


@lru_cache(maxsize=1)
def loaded(name: str) -> datasets.Loaded:
    return datasets.load(name)


def made_up(split: int) -> Parts:
    """Synthetic rows: a smooth function of some inputs, with noise."""
    rng = np.random.default_rng(split)
    X = rng.normal(size=(QUICK_TRAIN + 2 * QUICK_TEST, QUICK_INPUTS))
    y = np.sin(2 * X[:, 0]) + 0.5 * np.cos(X[:, 1] * X[:, 2]) + 0.1 * rng.normal(size=len(X))
    y = (y - y.mean()) / y.std()
    whole, ends = tgp.Dataset(X, y), (0, QUICK_TRAIN, QUICK_TRAIN + QUICK_TEST, len(X))
    train, validation, test = (whole.take(slice(*part)) for part in pairwise(ends))
    return Parts(train, validation, test, made_up=True)


def centres(X, count: int, seed: int, file: Path) -> np.ndarray:
    """Inducing points by k-means, as in the paper; kept in ``file``, since it takes longer than some trainings."""
    if file.exists():
        kept = np.load(file, allow_pickle=False)
        if kept.shape[1] == X.shape[1]:
            return kept
    made = tgp.inducing.kmeans(X, count, seed=seed)
    with atomic_write(file) as temporary, temporary.open("wb") as stream:
        np.save(stream, made)
    return made
