"""New rows of a GP-LVM: each row's objective by itself."""

import jax
import numpy as np
import pytest

import tightgp as tgp
from tightgp.bounds.structures import DIAGONAL
from tightgp.models.latent_inputs import LatentInputs
from tightgp.models.new_rows import NewRows, row_objectives


@pytest.fixture
def new(rng):
    """A posterior of two functions of two latent inputs, three new rows, and q of their inputs."""
    kernel, inputs = tgp.kernels.SquaredExponential(1.2, [0.8, 1.5]), rng.normal(size=(12, 2))
    posterior = tgp.SGPR(kernel, inputs[:4], 0.1).posterior(tgp.Dataset(inputs, np.sin(inputs)))
    q = LatentInputs(rng.normal(size=(3, 2)), rng.uniform(0.1, 0.5, size=(3, 2)))
    return NewRows(posterior.without_rows(), q, None, DIAGONAL), tgp.Dataset.latent(rng.normal(size=(3, 2)), 2)


def test_rows_add_up_to_the_whole(new):
    model, data = new
    prepared, rows = model.prepare(data)
    each = row_objectives(prepared, rows)
    assert each.shape == (3,)
    assert float(np.sum(each)) == pytest.approx(float(prepared.objective(rows)[0]), rel=1e-10)


def test_a_row_does_not_depend_on_the_others(new):
    model, data = new
    whole = row_objectives(*model.prepare(data))
    part = NewRows(model.posterior, model.inputs.take(np.array([1])), None, DIAGONAL)
    assert float(row_objectives(*part.prepare(data.take([1])))[0]) == pytest.approx(float(whole[1]), rel=1e-10)


def test_a_lower_bound_on_the_density_of_the_row(new, rng):
    """Against an average of densities over draws from the prior of the latent inputs."""
    model, data = new
    X = rng.normal(size=(20_000, 2))
    mean, var = model.posterior.predict_y(X)
    for bound, y in zip(row_objectives(*model.prepare(data)), data.y, strict=True):
        densities = np.prod(np.exp(-0.5 * (y - mean) ** 2 / var) / np.sqrt(2 * np.pi * var), axis=1)
        assert float(bound) < np.log(np.mean(densities)) + 0.05


def test_another_start_moves_the_inputs_alone(new):
    model, data = new
    other = model.random_start(jax.random.key(0), model.prepare(data)[1])
    assert not np.array_equal(other.inputs.mean, model.inputs.mean)
    np.testing.assert_array_equal(other.posterior.latents[0].Z, model.posterior.latents[0].Z)
