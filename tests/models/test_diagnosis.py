"""A failed factorisation says which input caused it."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import tightgp as tgp
from tightgp.data.placement import OnDevice
from tightgp.data.rows import Rows


def rows_of(X, y):
    return OnDevice(Rows(jnp.asarray(X), jnp.asarray(y)[:, None], jnp.ones(len(X))))


@pytest.fixture
def model(problem):
    _, Z, kernel = problem
    return tgp.SGPR(kernel, Z, 0.2)


def test_rows_that_are_not_finite(problem, model):
    data, _, _ = problem
    X, y = data.X.copy(), data.y.copy()
    X[3, 1], X[8, 0], y[5] = np.nan, np.inf, np.nan
    text = model.explain(rows_of(X, y))
    assert "X has NaN or infinite values in rows 3, 8" in text
    assert "y has NaN or infinite values in rows 5" in text


def test_a_variance_that_ran_away(problem):
    data, Z, _ = problem
    model = tgp.SGPR(tgp.kernels.Polynomial(3, variance=1e150), Z, 0.2)
    with pytest.raises(
        tgp.NumericalError, match=r"(?s)kernel.variance ran away to 1e\+150.*Kuu itself has NaN or inf"
    ) as e:
        model.elbo(data)
    assert "could not be factorised" in str(e.value)


def test_a_lengthscale_that_ran_away(problem):
    data, Z, _ = problem
    model = tgp.SGPR(tgp.kernels.SquaredExponential(1.0, 1e30), Z, 0.2)
    assert "kernel.lengthscale ran away to 1e+30" in model.explain(rows_of(data.X, data.y))


def test_duplicate_inducing_points(problem):
    data, Z, kernel = problem
    Z = Z.copy()
    Z[4] = Z[1]
    model = tgp.SGPR(kernel, Z, 0.2)
    assert "Z has 1 duplicate row(s), e.g. rows 1 and 4" in model.explain(rows_of(data.X, data.y))


def test_nothing_found_gives_advice(problem, model):
    data, _, _ = problem
    assert "try float64" in model.explain(rows_of(data.X, data.y))


def test_exact_gp_and_posteriors_raise_too(problem):
    data, Z, _ = problem
    kernel = tgp.kernels.Polynomial(3, variance=1e150)
    for attempt in (
        lambda: tgp.ExactGP(kernel, 0.2).log_evidence(data),
        lambda: tgp.ExactGP(kernel, 0.2).posterior(data),
        lambda: tgp.SGPR(kernel, Z, 0.2).posterior(data),
        lambda: tgp.SGPR(kernel, Z, 0.2).upper_bound(data),
        lambda: tgp.fit(tgp.SGPR(kernel, Z, 0.2), data, progress=False),
    ):
        with pytest.raises(tgp.NumericalError, match="ran away"):
            attempt()


KERNELS = (tgp.kernels.SquaredExponential, tgp.kernels.Matern12, tgp.kernels.Matern52, tgp.kernels.RationalQuadratic)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e160])
def test_a_kernel_never_turns_bad_numbers_into_good_ones(kernel, columns, bad):
    X = np.ones((3, columns))
    X[0, 0], X[1, 0] = bad, 2.0
    assert not np.any(np.asarray(kernel()(X, np.ones((2, columns))))[0] > 1e-300)


def test_nan_in_a_parameter_or_in_Z_is_an_error(problem, model):
    data, _, _ = problem
    for where in (lambda m: m.kernel._lengthscale.raw, lambda m: m._Z.raw, lambda m: m._noise_variance.raw):
        broken = eqx.tree_at(where, model, where(model) * np.nan)
        with pytest.raises(tgp.NumericalError, match=r"not finite|NaN"):
            broken.elbo(data)
        with pytest.raises(tgp.NumericalError):
            broken.posterior(data)


def test_a_prior_that_does_not_fit_its_parameter(problem):
    data, Z, kernel = problem
    model = tgp.SGPR(kernel, Z, 0.2, mean=tgp.means.Constant(-1.0))
    model = tgp.with_priors(model, {"mean.level": tgp.priors.LogNormal()})
    with pytest.raises(tgp.NumericalError, match=r"the prior LogNormal.* gives no density to mean.level"):
        tgp.fit(model, data, progress=False)
