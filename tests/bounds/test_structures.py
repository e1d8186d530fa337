"""Blocks that are given earlier rows (maths §11): laws over random problems."""

import numpy as np
import pytest
from hypothesis import given

import tightgp as tgp
from tests.bounds.test_laws import N, build, laws, problems


def value(problem, bound):
    kernel, data, Z, noise = build(problem)
    return float(tgp.SGPR(kernel, Z, noise, bound=bound).elbo(data))


@laws
@given(problems(("matern12", "sum", "product")))
def test_neighbours_are_between_blocks_and_the_evidence(problem):
    """diagonal ≤ neighbours of single rows, block ≤ neighbours of blocks, more neighbours never lower, ≤ evidence."""
    kernel, data, _, noise = build(problem)
    evidence = float(tgp.ExactGP(kernel, noise).log_evidence(data))
    for first, block in (("diagonal", 1), (tgp.Block(4), 4)):
        ladder = [first, *(tgp.Neighbours(count, block=block) for count in (2, N))]
        values = [*(value(problem, bound) for bound in ladder), evidence]
        assert np.all(np.diff(values) >= -1e-9 * np.abs(values).max()), values


@laws
@given(problems(("matern12", "sum", "product")))
def test_given_all_earlier_rows_vecchia_is_the_evidence(problem):
    """At any inducing inputs: what they miss, the neighbours know."""
    kernel, data, _, noise = build(problem)
    evidence = float(tgp.ExactGP(kernel, noise).log_evidence(data))
    for block in (1, 4):
        assert value(problem, tgp.Vecchia(N, block=block)) == pytest.approx(evidence, rel=1e-8, abs=1e-6)


@laws
@given(problems(("matern12", "sum")))
def test_one_code_path(problem):
    """Without neighbours there are blocks; one block of all rows needs none; the order of the data does not matter."""
    assert value(problem, tgp.Neighbours(3, block=N)) == pytest.approx(value(problem, tgp.Block(N)), rel=1e-10)
    assert value(problem, tgp.Vecchia(3, block=N)) == pytest.approx(
        value(problem, tgp.PowerEP(1.0, block=N)), rel=1e-10
    )
    assert value(problem, tgp.PowerEP(1.0, block=4, neighbours=5)) == value(problem, tgp.Vecchia(5, block=4))


def test_rows_in_another_order_make_the_same_model(rng):
    """Blocks are those of a tree on the inputs, so a shuffled table has the same blocks and the same value."""
    X, y = rng.normal(size=(64, 2)), rng.normal(size=64)
    shuffled = rng.permutation(64)
    for bound in (tgp.Neighbours(8, block=4), tgp.Vecchia(8, block=4)):
        model = tgp.SGPR(tgp.kernels.Matern32(), X[:5], 0.1, bound=bound)
        there = float(model.elbo(tgp.Dataset(X[shuffled], y[shuffled])))
        assert float(model.elbo(tgp.Dataset(X, y))) == pytest.approx(there, rel=1e-10)


def test_equal_rows_rows_at_inducing_points_and_almost_no_noise(rng):
    """Duplicates and the smallest noise: finite, and still a ladder."""
    X = np.repeat(rng.normal(size=(12, 2)), 4, axis=0)
    data = tgp.Dataset(X, np.sin(X[:, 0]))
    kernel = tgp.kernels.Matern52()
    values = [
        float(tgp.SGPR(kernel, X[::4], 2e-6, bound=bound).elbo(data))
        for bound in ("diagonal", tgp.Block(4), tgp.Neighbours(8, block=4), tgp.Neighbours(16, block=4))
    ]
    assert np.all(np.isfinite(values))
    assert np.all(np.diff(values) >= -1e-6 * np.abs(values[-1])), values
    assert np.isfinite(float(tgp.SGPR(kernel, X[::4], 2e-6, bound=tgp.Vecchia(8, block=4)).elbo(data)))


@pytest.mark.parametrize("count", [1, 3, 16, 17])
def test_fewer_rows_than_neighbours(rng, count):
    X = rng.normal(size=(count, 2))
    data = tgp.Dataset(X, X[:, 0])
    kernel = tgp.kernels.Matern32()
    model = tgp.SGPR(kernel, X[:1], 0.1, bound=tgp.Vecchia(32))
    evidence = float(tgp.ExactGP(kernel, 0.1).log_evidence(data))
    assert float(model.elbo(data)) == pytest.approx(evidence, rel=1e-6)


def test_names_and_kinds():
    assert tgp.Neighbours(8).name == "neighbours"
    assert tgp.Vecchia(8).name == "vecchia"
    assert tgp.PowerEP(0.5, block=4, neighbours=8).name == "PowerEP(0.5, block=4, neighbours=8)"
    assert tgp.Neighbours(8).is_bound
    assert not tgp.Vecchia(8).is_bound
    assert "no bound" in repr(tgp.SGPR(tgp.kernels.Matern32(), np.zeros((1, 1)), bound="vecchia"))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tgp.Neighbours(0), "neighbours must be"),
        (lambda: tgp.Vecchia(4, block=0), "block must be"),
        (lambda: tgp.Vecchia(4, seed=-1), "seed must be"),
        (lambda: tgp.PowerEP(0.5, neighbours=-1), "neighbours must be"),
        (
            lambda: tgp.PowerEP(0.5, block=4, partition="rows", neighbours=2),
            "neighbours goes with partition='locality'",
        ),
    ],
)
def test_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()
