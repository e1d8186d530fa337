"""The collapsed bound by L-BFGS, and an explicit q(u) by natural gradients."""

import jax.numpy as jnp
import numpy as np
import pytest

import tightgp as tgp
from tightgp.estimators import plan as plans
from tightgp.estimators import recipes
from tightgp.parameters import named_parameters


def standardised(table):
    return (table.X - table.X.mean(axis=0)) / table.X.std(axis=0)


def test_more_points_leave_a_trained_model_as_it_is(table):
    """q(f) is the same before and after: training goes on from where it was."""
    X, plan = standardised(table), plans.Plan("full", 5, 1, "")
    kernel, likelihood = tgp.kernels.Matern32(1.3, [0.8, 2.0]), tgp.likelihoods.Poisson()
    recipe = recipes.Variational(kernel, likelihood, None, plan, tgp.means.Constant(0.4))
    data = tgp.Dataset(X, np.minimum(table.counts, 20))
    trained = tgp.assign(tgp.fit(recipe.start(X[:8]), data, "natural", steps=5, progress=False).model, {"v": [0.7]})
    larger = recipe.extended(trained, X[20:23])
    assert len(larger.Z) == 11
    assert float(trained.v[0]) != 1
    for got, expected in zip(
        larger.posterior(scaled=True).predict_f(X), trained.posterior(scaled=True).predict_f(X), strict=True
    ):
        np.testing.assert_allclose(got, expected, atol=1e-5)
    np.testing.assert_array_equal(larger.v, trained.v)


def test_a_larger_collapsed_model_begins_where_the_smaller_ended(regressor, table):
    recipe = recipes.Collapsed(tgp.kernels.Matern32(), "standard", plans.Plan("collapsed", 1, 1, ""))
    data = tgp.Dataset(regressor.encoding_.transform(table.X), (table.y - table.y.mean()) / table.y.std())
    model = regressor.model_
    larger = recipe.extended(model, data.X[:4])
    assert float(larger.noise_variance) == float(model.noise_variance)
    # The standard bound rises with every inducing point; tighter ones need not, before they are trained.
    before = tgp.SGPR(model.kernel, model.Z, float(model.noise_variance), "standard").elbo(data)
    assert float(larger.elbo(data)) > float(before)


def test_learning_rates_stay_and_then_fall():
    rate = recipes.Decay(0.2, 100)
    assert rate == recipes.Decay(0.2, 100)
    assert hash(rate) == hash(recipes.Decay(0.2, 100))
    assert np.allclose([rate(jnp.asarray(s)) for s in (0, 50, 75, 100, 200)], [0.2, 0.2, 0.101, 0.002, 0.002])


@pytest.mark.parametrize("bound", ["standard", "spherical", "diagonal"])
def test_scales_from_what_each_process_knows(table, bound):
    data = tgp.Dataset(table.X, table.y / 300)
    model = tgp.SGPR(tgp.kernels.Matern32(1.0, [1.0, 5.0]), table.X[:8].copy(), 0.1, bound)
    posterior = model.posterior(data)
    found = recipes.row_scales(posterior, model.bound, data)
    np.testing.assert_allclose(found, posterior.scales, rtol=1e-8)
    assert recipes.row_scales(posterior, tgp.PowerEP(0.5), data) is None


@pytest.mark.parametrize(
    ("options", "frozen"), [({}, True), ({"n_inducing": 8}, False), ({"bound": "diagonal"}, False)]
)
def test_inducing_inputs_of_many_features_are_not_trained_where_they_would_fit_the_noise(options, frozen):
    """64 points of two features are more numbers than 70 rows. A bound can only come nearer to the evidence by them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(70, 2))
    model = tgp.SparseGPRegressor(method="collapsed", max_iter=1, neighbours=8, **options).fit(X, X[:, 0])
    assert named_parameters(model.model_)["Z"].frozen == frozen
