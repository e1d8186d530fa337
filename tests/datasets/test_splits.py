"""Splits have the paper's sizes and the rows of their seed, and are standardised by the training rows."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tightgp import datasets
from tightgp.datasets import Loaded, Source

# "N" in the paper's tables.
TRAINING_ROWS = {
    "pol": 9600,
    "bike": 11122,
    "elevators": 10623,
    "kin40k": 25600,
    "protein": 29267,
    "keggdirected": 31248,
    "keggundirected": 40708,
    "3droad": 278319,
    "song": 329820,
    "buzz": 373280,
    "houseelectric": 1311539,
}


def loaded(X, y, task="regression"):
    names = tuple(f"x{i}" for i in range(X.shape[1]))
    return Loaded(X, y, Source("mine", "", "mine.csv", rows=len(y), inputs=names, target="y", task=task))


@pytest.fixture
def data(rng):
    return loaded(3 + 5 * rng.normal(size=(501, 8)), 100 + 7 * rng.normal(size=501))


@pytest.mark.parametrize("name", TRAINING_ROWS)
def test_numbers_of_training_rows_are_those_of_the_paper(name):
    rows = datasets.describe(name).rows
    parts = datasets.split(loaded(np.zeros((rows, 1)), np.zeros(rows)))
    assert parts.train.num_data == TRAINING_ROWS[name]


@pytest.mark.parametrize("seed", [0, 3])
def test_split_equals_that_of_the_published_results(data, seed):
    """Bit for bit."""
    table = np.column_stack([data.X, data.y])
    order = np.random.default_rng(seed).permutation(len(table))
    rest, test = order[: int(0.8 * len(table))], order[int(0.8 * len(table)) :]
    train, validation = rest[: int(0.8 * len(rest))], rest[int(0.8 * len(rest)) :]
    table = (table - table[train].mean(axis=0)) / table[train].std(axis=0)
    parts = datasets.split(data, seed)
    for part, rows in ((parts.train, train), (parts.validation, validation), (parts.test, test)):
        np.testing.assert_array_equal(part.X, table[rows, :-1])
        np.testing.assert_array_equal(part.y, table[rows, -1])
    for found, rows in zip(parts.rows, (train, validation, test), strict=True):
        np.testing.assert_array_equal(found, rows)


@given(
    st.integers(2, 300),
    st.integers(0, 2**32),
    st.floats(0.01, 0.9),
    st.floats(0, 0.9),
)
def test_every_row_is_in_exactly_one_part(count, seed, test, validation):
    first = int((1 - test) * count)
    if not int((1 - validation) * first):
        return
    parts = datasets.split(
        loaded(np.arange(count)[:, None] + 0.0, np.zeros(count)), seed, test=test, validation=validation
    )
    assert sorted(np.concatenate(parts.rows)) == list(range(count))
    assert len(parts.rows[2]) == count - first
    assert (parts.validation is None) == (len(parts.rows[1]) == 0)


def test_seed_decides_the_split(data):
    assert np.array_equal(datasets.split(data, 1).train.X, datasets.split(data, 1).train.X)
    assert not np.array_equal(datasets.split(data, 1).rows[0], datasets.split(data, 2).rows[0])


def test_training_rows_are_standardised_and_can_be_converted_back(data):
    parts = datasets.split(data, 4)
    np.testing.assert_allclose(parts.train.X.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(parts.train.X.std(axis=0), 1)
    np.testing.assert_allclose([parts.train.y.mean(), parts.train.y.std()], [0, 1], atol=1e-12)
    assert abs(parts.test.y.mean()) > 1e-3
    rows = parts.rows[2]
    np.testing.assert_array_equal(parts.inputs(data.X[rows]), parts.test.X)
    np.testing.assert_allclose(parts.in_units(parts.test.y), data.y[rows])
    np.testing.assert_allclose(parts.input_shift + parts.input_scale * parts.test.X, data.X[rows])
    assert repr(parts) == "Split('mine', seed=4, rows=320/80/101)"


def test_variances_and_densities_in_units(data):
    from scipy.stats import norm

    parts = datasets.split(data)
    mean, var = parts.in_units(np.array([0.3]), np.array([0.5]))
    standard = norm.logpdf(parts.test.y[0], 0.3, np.sqrt(0.5))
    in_units = norm.logpdf(data.y[parts.rows[2][0]], mean[0], np.sqrt(var[0]))
    np.testing.assert_allclose(parts.log_density_in_units(standard), in_units)


def test_constant_input_is_centred_and_not_scaled(data):
    X = data.X.copy()
    X[:, 2] = 0.1  # its mean is not 0.1 in floating point, so its deviation is not zero
    parts = datasets.split(replace(data, X=X))
    assert np.std(X[parts.rows[0], 2]) > 0
    assert (parts.input_shift[2], parts.input_scale[2]) == (0.1, 1.0)
    assert not np.any(parts.train.X[:, 2])
    assert not np.any(parts.test.X[:, 2])


@pytest.mark.parametrize("task", ["counts", "classes"])
def test_counts_and_classes_are_not_standardised(data, task):
    labelled = loaded(data.X, np.arange(501) % 3 + 0.0, task)
    parts = datasets.split(labelled)
    assert set(parts.train.y) == {0, 1, 2}
    assert (parts.target_shift, parts.target_scale) == (0, 1)
    np.testing.assert_allclose(parts.train.X.std(axis=0), 1)
    standardised = datasets.split(labelled, standardise_targets=True)
    np.testing.assert_allclose(standardised.train.y.std(), 1)


def test_no_validation(data):
    parts = datasets.split(data, test=0.1, validation=0)
    assert parts.validation is None
    assert (parts.train.num_data, parts.test.num_data) == (450, 51)


def test_name_is_loaded(data_folder):
    (data_folder / "snelson.csv").write_text("x,y\n" + "".join(f"{i},{i * i}\n" for i in range(200)))
    parts = datasets.split("snelson", seed=1)
    assert (parts.train.num_data, parts.validation.num_data, parts.test.num_data) == (128, 32, 40)
    assert parts.source.name == "snelson"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seed": -1}, "seed must be a whole number of at least 0"),
        ({"test": 1.0}, "test must be at least 0 and below 1"),
        ({"validation": -0.1}, "validation must be at least 0 and below 1"),
        ({"test": np.nan}, "test must be one finite number"),
        ({"test": 0.0}, "leave no row to train or to test"),
        ({"test": 0.9999}, "leave no row to train or to test"),
    ],
)
def test_arguments_are_checked(data, arguments, message):
    with pytest.raises(ValueError, match=message):
        datasets.split(data, **arguments)


def test_new_inputs_are_checked(data):
    with pytest.raises(ValueError, match="X has 2 column"):
        datasets.split(data).inputs(np.zeros((3, 2)))
