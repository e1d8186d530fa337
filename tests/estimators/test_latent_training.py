"""How `BayesianGPLVM` is started and trained."""

import numpy as np
import pytest

import tightgp as tgp
from tightgp.estimators import latent_training


def test_method_chosen_by_size():
    def plan(rows, size, missing):
        model = tgp.BayesianGPLVM(n_inducing=size)
        return latent_training.plan_training(model.check_parameters(), rows, size, missing)

    assert plan(20_000, 50, 0).method == "collapsed"
    assert plan(20_001, 50, 0).method == "minibatch"
    assert plan(4_000, 50, 3).method == "full"
    largest = plan(40_000, 50, 3)
    assert (largest.method, largest.batches, largest.amount) == ("minibatch", 40, 75)
    assert "with 50 inducing points is slow, and the collapsed bound needs every cell (3 missing)" in largest.reason


@pytest.mark.parametrize(
    ("rows", "size", "method", "count"),
    [(999, 50, "collapsed", 0), (1000, 50, "collapsed", 500), (999, 50, "minibatch", 500), (9999, 200, "full", 1000)],
)
def test_number_of_rows_trained_first(rows, size, method, count):
    assert latent_training.num_first_rows(rows, size, method) == count


def test_a_named_kernel_starts_from_the_default_scales():
    """Its variance and lengthscales are those of the squared exponential."""
    Y = np.random.default_rng(0).normal(size=(12, 3)) * [3.0, 1.0, 0.1]
    data = tgp.Dataset.latent(Y, 2)

    def start(kernel):
        estimator = tgp.BayesianGPLVM(n_inducing=4, kernel=kernel)
        plan = latent_training.plan_training(estimator.check_parameters(), 12, 4, 0)
        recipe = latent_training.LatentRecipe(plan, estimator.check_parameters(), kernel, "diagonal", None)
        return recipe.start(data, 4, collapsed=True).model.kernel

    default, named = start(None), start("matern52")
    assert type(named) is tgp.kernels.Matern52
    np.testing.assert_allclose(named.variance, default.variance)
    np.testing.assert_allclose(named.lengthscale, default.lengthscale)


@pytest.mark.parametrize(("kernel", "n_components"), [("matern32", 4), (tgp.kernels.SquaredExponential(1.0, [1.0]), 2)])
def test_kernels_that_do_not_fit_the_latent_inputs_are_refused(kernel, n_components):
    with pytest.raises(ValueError, match=f"kernel does not go with n_components={n_components}"):
        latent_training.check_kernel(kernel, n_components)
