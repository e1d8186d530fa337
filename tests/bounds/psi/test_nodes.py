"""Rows with uncertain inputs as rows with known ones."""

import jax
import numpy as np
import pytest

from tightgp.bounds.psi.nodes import expanded
from tightgp.data.input_variance import InputVariance
from tightgp.data.rows import Rows

KEY = jax.random.key(0)


def rows_of(rng, variance):
    X = rng.normal(size=(3, 2))
    return Rows(X, rng.normal(size=(3, 1)), np.array([1.0, 2.0, 0.0]), rng.uniform(size=3), InputVariance.of(variance))


@pytest.mark.parametrize("columns", [1, 2])
def test_moments_of_the_inputs_are_kept(rng, columns):
    variance = rng.uniform(0.5, 1.0, size=(3, 2)) * (np.arange(2) < columns)
    rows = rows_of(rng, variance)
    many = expanded(rows, KEY)
    assert many.input_variance is None
    X, weight = np.asarray(many.X).reshape(3, -1, 2), np.asarray(many.weight).reshape(3, -1)
    np.testing.assert_allclose(weight.sum(axis=1), rows.weight)
    np.testing.assert_allclose(np.einsum("nk,nkd->nd", weight, X), rows.weight[:, None] * rows.X, atol=1e-12)
    np.testing.assert_array_equal(np.asarray(many.y).reshape(3, -1), np.broadcast_to(rows.y, weight.shape))
    if columns == 1:  # quadrature has the variance too
        square = np.einsum("nk,nkd->nd", weight[:2], (X - rows.X[:, None])[:2] ** 2)
        np.testing.assert_allclose(square, rows.weight[:2, None] * variance[:2], atol=1e-12)


def test_known_rows_stay_as_they_are(rng):
    rows = rows_of(rng, np.ones((3, 2)))._replace(input_variance=None)
    assert expanded(rows, KEY) is rows
