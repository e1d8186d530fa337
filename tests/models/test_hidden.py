"""Hidden layers of deep GPs."""

import jax
import numpy as np
import pytest

import tightgp as tgp
from tightgp.models.hidden import HiddenLayer, linear


def layer(count=2, **options):
    return HiddenLayer(options.pop("kernel", tgp.kernels.SquaredExponential()), np.eye(2), count, **options)


def test_a_layer_begins_as_its_mean_function(rng):
    X, slopes = rng.normal(size=(5, 2)), rng.normal(size=(2, 3))
    for one, expected in ((layer(), X), (layer(3, mean=linear(slopes)), X @ slopes)):
        mean, var = one.posterior().predict_f(X)
        np.testing.assert_allclose(mean, expected, rtol=1e-12)
        left = np.asarray(one.posterior().residual_variance(X))[:, None]
        np.testing.assert_allclose(var, np.broadcast_to(left, var.shape), atol=1e-9)


def test_v_scales_the_conditional_variance(rng):
    X = rng.normal(size=(5, 2))
    one = tgp.assign(layer(), {"v": np.array([0.2, 0.7])})
    plain, scaled = (np.asarray(one.posterior(scaled=s).predict_f(X)[1]) for s in (False, True))
    np.testing.assert_allclose(scaled, plain * [0.2, 0.7], rtol=1e-8)
    np.testing.assert_array_equal(layer(bound="standard").v, [1.0, 1.0])


def test_linear_means_stay_in_training():
    names = tgp.named_parameters(layer())
    assert names["mean.slope"].frozen
    assert names["mean.intercept"].frozen
    assert not names["Z"].frozen


def test_random_starts_take_inducing_inputs_from_the_rows(rng):
    X, one = rng.normal(size=(6, 2)), layer()
    other = one.random_start(jax.random.key(0), X)
    assert all(any(np.array_equal(z, x) for x in X) for z in np.asarray(other.Z))
    assert float(other.kernel.variance) != float(one.kernel.variance)
    held = tgp.freeze(one, "Z").random_start(jax.random.key(0), X)
    np.testing.assert_array_equal(held.Z, one.Z)


def test_sizes_and_repr():
    one = layer(1, mean=tgp.means.Zero(), covariance="diagonal")
    assert (one.num_inputs, one.num_functions) == (2, 1)
    assert repr(one).startswith("HiddenLayer, 2 → 1, bound spherical, M = 2, float64")
    assert "q.root" in repr(one)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: layer(3), r"mean is needed where 3 function\(s\) have 2 input\(s\).*slopes \(2, 3\)"),
        (lambda: layer(0), "num_functions must be a whole number"),
        (lambda: layer(bound="diagonal"), "bound must be one of 'spherical', 'standard'"),
        (lambda: layer(covariance="fixed"), "covariance must be one of 'full', 'diagonal'"),
        (lambda: layer(mean=tgp.means.Constant([1.0, 2.0, 3.0])), "mean gives 3 outputs for 2 function"),
        (lambda: layer(kernel="rbf"), "kernel must be one of"),
        (lambda: HiddenLayer(tgp.kernels.Matern32(), np.ones(3), 1), r"pass Z\[:, None\]"),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()
