"""q(X): its divergence from the prior, and where it goes among the inputs."""

import jax
import numpy as np
import pytest

import tightgp as tgp
from tightgp.data.rows import Rows
from tightgp.models.latent_inputs import LatentInputs

N = 4


@pytest.fixture
def case(rng):
    """Rows of which column 1 of 2 is uncertain, and q of that column."""
    S = np.stack([np.zeros(N), rng.uniform(0.5, 2.0, size=N)], axis=1)
    data = tgp.Dataset(rng.normal(size=(N, 2)), rng.normal(size=N), input_variance=S)
    return LatentInputs(rng.normal(size=(N, 1)), rng.uniform(0.1, 1.0, size=(N, 1))), data


def test_divergence_is_an_average_over_draws(case, rng):
    q, data = case
    weight = np.array([1.0, 2.0, 0.0, 0.5])
    rows: Rows = data.rows()._replace(weight=weight)
    mean, variance = np.asarray(q.mean)[:, 0], np.asarray(q.variance)[:, 0]
    prior = data.input_variance[:, 1]
    expected = 0.0
    for i in range(N):
        x = mean[i] + np.sqrt(variance[i]) * rng.normal(size=200_000)
        ratio = [
            -0.5 * np.log(v) - 0.5 * (x - m) ** 2 / v for m, v in ((mean[i], variance[i]), (data.X[i, 1], prior[i]))
        ]
        expected += weight[i] * np.mean(ratio[0] - ratio[1])
    assert float(q.divergence(rows)) == pytest.approx(expected, abs=0.03)


def test_divergence_from_itself_is_zero(case):
    _, data = case
    q = LatentInputs(data.X[:, 1:], data.input_variance[:, 1:])
    assert float(q.divergence(data.rows())) == pytest.approx(0.0, abs=1e-12)


def test_placed_rows_have_q_in_the_uncertain_columns_alone(case):
    q, data = case
    rows = q.placed(data.rows())
    np.testing.assert_array_equal(rows.X[:, 0], data.X[:, 0])
    np.testing.assert_array_equal(rows.X[:, 1:], q.mean)
    np.testing.assert_array_equal(rows.input_variance.full(2)[:, 1:], q.variance)
    np.testing.assert_array_equal(q.take(np.array([2, 0])).mean, np.asarray(q.mean)[[2, 0]])


def test_another_start_moves_the_means_a_little(case):
    q, _ = case
    moved = q.perturbed(jax.random.key(0))
    step = np.abs(np.asarray(moved.mean - q.mean))
    assert np.all((step > 0) & (step < 0.5 * np.std(q.mean)))
    np.testing.assert_array_equal(moved.variance, q.variance)
    frozen = tgp.freeze(q, "mean")
    np.testing.assert_array_equal(frozen.perturbed(jax.random.key(0)).mean, q.mean)


def test_other_data_are_refused(case):
    q, data = case
    with pytest.raises(ValueError, match=r"data must be a tightgp\.Dataset such as"):
        q.check(data.X)
    with pytest.raises(ValueError, match=r"3 row\(s\) but the model has latent inputs of 4"):
        q.check(data.take(slice(0, 3)))
    with pytest.raises(ValueError, match="all inputs are known"):
        q.check(tgp.Dataset(data.X, data.y))
    with pytest.raises(ValueError, match=r"2 uncertain input column\(s\) but the model has 1"):
        q.check(tgp.Dataset(data.X, data.y, input_variance=1.0))
