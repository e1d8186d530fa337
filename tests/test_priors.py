import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from tightgp import priors

X = np.array([1e-3, 0.2, 1.0, 3.7, 40.0])


@pytest.mark.parametrize(
    ("prior", "reference"),
    [
        (priors.Normal(), scipy.stats.norm()),
        (priors.Normal(-0.5, 2.0), scipy.stats.norm(-0.5, 2.0)),
        (priors.LogNormal(), scipy.stats.lognorm(s=1.0)),
        (priors.LogNormal(0.7, 0.4), scipy.stats.lognorm(s=0.4, scale=np.exp(0.7))),
        (priors.Gamma(1.0, 1.0), scipy.stats.gamma(1.0)),
        (priors.Gamma(2.5, 3.0), scipy.stats.gamma(2.5, scale=1 / 3.0)),
    ],
    ids=lambda value: repr(value) if isinstance(value, priors.Prior) else "",
)
def test_density_matches_scipy(prior, reference):
    np.testing.assert_allclose(prior.log_density(jnp.asarray(X)), reference.logpdf(X), rtol=1e-10)


def test_normal_density_of_negative_numbers():
    got = priors.Normal(1.0, 0.5).log_density(jnp.asarray(-X))
    np.testing.assert_allclose(got, scipy.stats.norm(1.0, 0.5).logpdf(-X), rtol=1e-12)


@pytest.mark.parametrize(
    ("prior", "mode"),
    [(priors.Normal(0.8, 0.3), 0.8), (priors.LogNormal(0.5, 0.6), np.exp(0.5 - 0.36)), (priors.Gamma(3.0, 2.0), 1.0)],
    ids=repr,
)
def test_gradient_is_zero_at_the_mode(prior, mode):
    slope = jax.grad(lambda x: jnp.sum(prior.log_density(x)))
    np.testing.assert_allclose(slope(jnp.asarray(mode)), 0.0, atol=1e-10)
    assert float(slope(jnp.asarray(0.5 * mode))) > 0


def test_densities_have_the_shape_and_dtype_of_the_value():
    value = jnp.ones((2, 3), jnp.float32)
    for prior in (priors.Normal(), priors.LogNormal(), priors.Gamma(2.0, 1.0)):
        density = prior.log_density(value)
        assert density.shape == (2, 3)
        assert density.dtype == jnp.float32


def test_priors_compare_by_value():
    """Priors are static in a model: equal ones must not cause another compilation."""
    assert priors.Gamma(2.0, 1.0) == priors.Gamma(2.0, 1.0)
    assert hash(priors.Gamma(2.0, 1.0)) == hash(priors.Gamma(2.0, 1.0))
    assert priors.Gamma(2.0, 1.0) != priors.Gamma(2.0, 1.5)
    assert priors.Normal() != priors.LogNormal()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: priors.Normal(sd=0.0), "sd must be positive and finite"),
        (lambda: priors.Normal(sd=-1.0), "sd must be positive and finite"),
        (lambda: priors.LogNormal(sd=-1.0), "sd must be positive and finite"),
        (lambda: priors.LogNormal(sd=np.inf), "sd must be one finite number"),
        (lambda: priors.Gamma(0.0, 1.0), "shape must be positive and finite"),
        (lambda: priors.Gamma(1.0, -2.0), "rate must be positive and finite"),
        (lambda: priors.Gamma(1.0, float("nan")), "rate must be one finite number"),
        (lambda: priors.Normal(mean=float("nan")), "mean"),
        (lambda: priors.LogNormal(mean=float("inf")), "mean"),
    ],
)
def test_invalid_arguments_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
