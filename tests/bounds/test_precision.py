"""Mixed precision against full: float32 kernel values and products, float64 sums and factors."""

import equinox as eqx
import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tightgp as tgp
from tightgp import parameters
from tightgp.training.objective import Objective, evaluate

N, D, M = 300, 2, 30
EPS = float(np.finfo(np.float32).eps)
X = np.random.default_rng(0).normal(size=(N, D))
Y = np.sin(2 * X[:, 0]) * np.cos(X[:, 1]) + 0.1 * np.random.default_rng(1).normal(size=N)


def problem(bound, precision, kernel=None, shift=0.0):
    kernel = kernel or tgp.kernels.SquaredExponential(1.0, np.ones(D))
    model = tgp.SGPR(kernel, X[:M] + shift, 0.1, bound=bound, precision=precision)
    return Objective(*model.prepare(tgp.Dataset(X + shift, Y)))


STRUCTURES = {
    "diagonal": "diagonal",
    "pep": tgp.PowerEP(0.5),
    "block": tgp.Block(8),
}


@pytest.fixture(scope="module", params=STRUCTURES.values(), ids=STRUCTURES.keys())
def both(request):
    return problem(request.param, "full"), problem(request.param, "mixed")


def at(problem, lengthscale, noise):
    """The objective at these hyperparameters, and the condition number of Kuu as it was factorised."""
    values = {"kernel.lengthscale": np.full(D, lengthscale), "noise_variance": noise}
    model = tgp.assign(problem.model(problem.start), values)
    answer = problem.at_vector(problem.to_vector(eqx.filter(model, parameters.trainable(model))))
    Kuu = np.asarray(model.kernel(model.Z)) + answer.followed["jitter"] * np.eye(M)
    return answer, np.linalg.cond(Kuu)


@settings(max_examples=25, deadline=None)
@given(log_length=st.floats(-2.3, 2.3), log_noise=st.floats(np.log(1e-5), 0.0))
def test_objective_and_gradient_agree_within_the_stated_tolerance(both, log_length, log_noise):
    """Relative errors stay under ε₃₂ (20 + 20 √(κ(Kuu)/σ²) + 3/σ²) and under three tenths, and nothing fails."""
    noise = float(np.exp(log_noise))
    (full, condition), (mixed, _) = (at(one, float(np.exp(log_length)), noise) for one in both)
    assert full.finite
    assert mixed.finite
    tolerance = min(EPS * (20 + 20 * np.sqrt(condition / noise) + 3 / noise), 0.3)
    assert abs(mixed.value - full.value) <= tolerance * (N + abs(full.value))
    assert np.linalg.norm(mixed.gradient - full.gradient) <= tolerance * np.linalg.norm(full.gradient)


def test_it_is_the_shorter_precision(both):
    """The two differ, by rounding: otherwise the law above would say nothing."""
    full, mixed = (at(one, 1.0, 0.1)[0] for one in both)
    assert mixed.value != full.value
    assert mixed.gradient.dtype == full.gradient.dtype == np.float64


def test_inputs_far_from_the_origin_lose_nothing():
    """Stationary kernels see differences: these are taken before numbers are shortened."""
    near, far = (problem("diagonal", "mixed", shift=shift) for shift in (0.0, 2.0**20))
    values = [float(one.at_vector(one.to_vector(one.start)).value) for one in (near, far)]
    assert values[1] == pytest.approx(values[0], rel=1e-4)
    assert not (tgp.kernels.Linear() + tgp.kernels.Matern32()).stationary
    assert (tgp.kernels.Periodic() * tgp.kernels.Constant() + tgp.kernels.White()).stationary


def test_training_and_posterior():
    """It trains to the same place, and what follows from the trained model is in full precision."""
    data = tgp.Dataset(X, Y)
    start = tgp.freeze(tgp.SGPR(tgp.kernels.Matern32(1.0, 1.0), X[:M], 0.1), "Z")
    short = tgp.freeze(tgp.SGPR(start.kernel, X[:M], 0.1, precision="mixed"), "Z")
    full, mixed = (tgp.fit(model, data, progress=False) for model in (start, short))
    assert mixed.objective == pytest.approx(full.objective, abs=1e-5 * N)
    again = tgp.SGPR(mixed.model.kernel, X[:M], mixed.model.noise_variance)
    for mine, other in zip(
        mixed.model.posterior(data).predict_f(X[:5]), again.posterior(data).predict_f(X[:5]), strict=True
    ):
        np.testing.assert_allclose(mine, other, rtol=1e-12)
    assert mixed.model.precision == "mixed"


def test_an_unknown_precision_is_refused():
    with pytest.raises(ValueError, match="precision must be one of 'full', 'mixed'; got 'half'"):
        tgp.SGPR(tgp.kernels.Matern32(), X[:M], precision="half")


@pytest.mark.parametrize("model", ["collapsed", "mixed", "svgp"])
def test_accelerators_may_not_shorten_products(model):
    """Every product says "highest": an accelerator would otherwise round float32 operands to ten bits."""
    x, y = X.astype(np.float32), Y.astype(np.float32)
    kernel = tgp.kernels.Matern32(1.0, 1.0)
    if model == "mixed":
        one = problem("diagonal", "mixed", kernel)
    elif model == "collapsed":
        one = Objective(*tgp.SGPR(kernel, x[:M], 0.1).prepare(tgp.Dataset(x, y)))
    else:
        one = Objective(*tgp.SVGP(kernel, tgp.likelihoods.Gaussian(0.1), x[:M]).prepare(tgp.Dataset(x, y)))
    text = jax.jit(lambda point: evaluate(point, one.fixed, one.rows)[:2]).lower(one.start).as_text()
    products = [line for line in text.splitlines() if "dot_general" in line]
    assert len(products) > 5
    assert [line for line in products if "HIGHEST" not in line] == []
