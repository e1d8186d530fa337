"""Regression and classification on inputs that are known up to a variance."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp, ndtr

import tightgp as tgp
from tests.reference import Averaged, Dense, log_normal
from tightgp.models.sgpr import _elbo

BOUNDS = ("standard", "spherical", "diagonal")
N, M = 20, 5
KERNELS = {
    "se": lambda v, ls: tgp.kernels.SquaredExponential(v, ls),
    "sum": lambda v, ls: tgp.kernels.SquaredExponential(v, ls) + tgp.kernels.Linear(0.3),
}
laws = settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


def build(seed, kernel="se", outputs=2, known=True, log_variance=0.0, log_noise=-1.0):
    """A kernel, data with uncertain inputs, inducing inputs and a noise variance."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 2))
    noise = rng.uniform(0.01, 0.5, size=N) if known else None
    y = rng.normal(size=(N, outputs)) if outputs else rng.normal(size=N)
    data = tgp.Dataset(X, y, noise, input_variance=rng.uniform(0, 0.4, size=(N, 2)))
    return KERNELS[kernel](10**log_variance, 10 ** rng.uniform(-0.3, 0.5, size=2)), data, X[:M] + 0.1, 10**log_noise


@pytest.fixture(scope="module")
def problem():
    return build(0)


def sgpr(problem, bound="diagonal", **options):
    kernel, _, Z, noise = problem
    return tgp.SGPR(kernel, Z, noise, bound=bound, **options)


def known(data):
    return tgp.Dataset(data.X, data.y, data.noise_variance)


@laws
@given(st.integers(0, 2**32 - 1), st.sampled_from(tuple(KERNELS)), st.floats(-1, 1), st.floats(-2, 0.5))
def test_bounds_are_the_dense_ones_in_order(seed, kernel, log_variance, log_noise):
    problem = build(seed, kernel, 2, True, log_variance, log_noise)
    kernel, data, Z, noise = problem
    reference = Averaged(kernel, data.X, data.input_variance, data.y, Z, noise, known=data.noise_variance)
    values = [float(sgpr(problem, bound).elbo(data)) for bound in BOUNDS]
    np.testing.assert_allclose(values, [reference.bound(bound) for bound in BOUNDS], rtol=1e-6)
    assert values[0] <= values[1] + 1e-8
    assert values[1] <= values[2] + 1e-8


@laws
@given(st.integers(0, 2**32 - 1), st.floats(-1, 1), st.floats(-2, 0.5))
def test_no_variance_is_regression(seed, log_variance, log_noise):
    """The collapsed bound of the same structure, summed over columns; also where some columns have a variance."""
    problem = build(seed, "sum", 2, True, log_variance, log_noise)
    data = problem[1]
    tiny = tgp.Dataset(data.X, data.y, data.noise_variance, input_variance=1e-13)
    for bound in BOUNDS:
        expected = float(sgpr(problem, bound).elbo(known(data)))
        assert float(sgpr(problem, bound).elbo(tiny)) == pytest.approx(expected, rel=1e-7)
        columns = [
            float(sgpr(problem, bound).elbo(tgp.Dataset(data.X, y, data.noise_variance, input_variance=1e-13)))
            for y in data.y.T
        ]
        assert sum(columns) == pytest.approx(expected, rel=1e-7)


def test_a_variance_of_zero_is_no_variance(problem):
    data = problem[1]
    zero = tgp.Dataset(data.X, data.y, data.noise_variance, input_variance=np.zeros(2))
    assert zero.uncertain_inputs is None
    assert float(sgpr(problem).elbo(zero)) == float(sgpr(problem).elbo(known(data)))


def test_some_columns_and_shapes_of_the_variance(problem):
    data, model = problem[1], sgpr(problem)
    one = np.tile([0.0, 0.2], (N, 1))
    values = [
        float(model.elbo(tgp.Dataset(data.X, data.y, data.noise_variance, input_variance=v))) for v in (one, one[0])
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-14)
    assert tgp.Dataset(data.X, data.y, input_variance=one).uncertain_inputs.columns == (1,)
    assert tgp.Dataset(data.X, data.y, input_variance=0.1).uncertain_inputs.columns == (0, 1)
    kernel, _, Z, noise = problem
    reference = Averaged(kernel, data.X, one, data.y, Z, noise, known=data.noise_variance)
    assert values[0] == pytest.approx(reference.bound("diagonal"), rel=1e-8)


def test_below_the_evidence():
    """The evidence of three rows by draws of their inputs; a bound that left out the penalty would be above it."""
    rng = np.random.default_rng(3)
    X, y, S = np.array([[0.0], [0.6], [2.0]]), np.array([0.4, 1.0, 0.05]), np.array([[0.02], [0.004], [0.01]])
    kernel, noise = tgp.kernels.SquaredExponential(1.4, 0.8), 0.05
    draws = X[:, 0] + np.sqrt(S[:, 0]) * rng.normal(size=(100_000, 3))
    gram = 1.4 * np.exp(-0.5 * ((draws[:, :, None] - draws[:, None, :]) / 0.8) ** 2) + noise * np.eye(3)
    logs = -0.5 * (np.linalg.slogdet(2 * np.pi * gram)[1] + np.einsum("i,nij,j->n", y, np.linalg.inv(gram), y))
    evidence = logsumexp(logs) - np.log(len(logs))
    assert logs[0] == pytest.approx(log_normal(y, 0.0, gram[0]))
    error = np.std(np.exp(logs - evidence)) / np.sqrt(len(logs))
    data = tgp.Dataset(X, y, input_variance=S)
    values = [float(tgp.SGPR(kernel, X[:2], noise, bound=bound).elbo(data)) for bound in BOUNDS]
    assert values == sorted(values)
    assert values[-1] < evidence - 5 * error
    reference = Averaged(kernel, X, S, y, X[:2], noise)
    r = reference.residuals(reference.psi0, reference.psi2) / noise
    assert values[-1] + 0.5 * np.log1p(r).sum() > evidence


@pytest.mark.parametrize("bound", BOUNDS)
def test_chunks_change_nothing(problem, bound):
    model = sgpr(problem, bound)
    prepared, laid = model.prepare(problem[1])

    def value(model, laid, chunk):
        return _elbo(model, laid, chunk)[0]

    whole, parts = (jax.value_and_grad(value, argnums=(0, 1), allow_int=True)(prepared, laid, c) for c in (None, 7))
    for one, other in zip(jax.tree.leaves(whole), jax.tree.leaves(parts), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * float(jnp.max(jnp.abs(one)) + 1))


@pytest.mark.parametrize("kernel", ["se", "matern"])
def test_gradient_against_finite_differences(problem, kernel):
    _, data, Z, noise = problem
    kernel = problem[0] if kernel == "se" else tgp.kernels.Matern52(1.2, [0.8, 1.3])
    model = tgp.SGPR(kernel, Z, noise)
    prepared, laid = model.prepare(data)
    raw, tree = jax.flatten_util.ravel_pytree(prepared)

    def value(raw):
        return _elbo(tree(raw), laid, 7)[0]

    gradient = np.asarray(jax.grad(value)(raw))
    for i in range(len(raw)):
        step = 1e-5 * jnp.zeros_like(raw).at[i].set(1.0)
        assert gradient[i] == pytest.approx(float(value(raw + step) - value(raw - step)) / 2e-5, rel=2e-5, abs=1e-5)


@pytest.mark.parametrize("bound", ["standard", "diagonal"])
def test_an_explicit_q_reaches_the_collapsed_bound(problem, bound):
    kernel, data, Z, noise = problem
    model = tgp.SVGP(kernel, tgp.likelihoods.Gaussian(noise), Z, bound, num_latents=2)
    model = tgp.freeze(model, "kernel.*", "Z", "likelihood.*")
    trained = tgp.fit(model, data, "natural", steps=3, progress=False).model
    assert float(trained.elbo(data)) == pytest.approx(float(sgpr(problem, bound).elbo(data)), rel=1e-7)
    one, other = trained.posterior(), sgpr(problem, bound).posterior(data)
    for mine, theirs in zip(
        one.predict_f(data.X, input_variance=0.1), other.predict_f(data.X, input_variance=0.1), strict=True
    ):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)


def test_minibatches_add_up(problem):
    kernel, data, Z, noise = problem
    model = tgp.SVGP(kernel, tgp.likelihoods.Gaussian(noise), Z, num_latents=2)
    parts = [model.elbo(data.take(slice(i, i + 5)), num_data=N) for i in range(0, N, 5)]
    assert float(np.mean(parts)) == pytest.approx(float(model.elbo(data)), rel=1e-10)
    result = tgp.fit(model, data, "adam", batch_size=5, epochs=3, progress=False)
    assert np.isfinite(result.objective)
    streamed = tgp.fit(model, data, "adam", batch_size=5, epochs=3, progress=False, stream=True, validation=data)
    post = streamed.model.posterior()
    density = post.log_density(data.X, data.y, noise_variance=data.noise_variance, input_variance=data.input_variance)
    assert max(streamed.trace["validation"]) == pytest.approx(float(np.mean(density)), rel=1e-9)
    np.testing.assert_allclose(streamed.trace["objective"], result.trace["objective"], rtol=1e-9)


@pytest.mark.parametrize("columns", [1, 2])
def test_classification_below_the_evidence(columns):
    """Three rows of classes: nodes for one uncertain column, draws for two. The evidence by brute force."""
    rng = np.random.default_rng(4)
    X, S = rng.normal(size=(3, 2)), np.tile([0.3, 0.2 if columns == 2 else 0.0], (3, 1))
    y = np.array([1.0, 0.0, 1.0])
    kernel = tgp.kernels.SquaredExponential(2.0, 0.9)
    data = tgp.Dataset(X, y, input_variance=S)
    model = tgp.SVGP(kernel, tgp.likelihoods.Bernoulli(), X[:2])
    trained = tgp.fit(tgp.freeze(model, "kernel.*", "Z"), data, steps=200, progress=False).model
    keys = jax.random.split(jax.random.key(1), 200)
    bounds = np.array([float(trained.elbo(data, key=key)) for key in (keys if columns == 2 else keys[:1])])
    x = X + np.sqrt(S) * rng.normal(size=(50_000, 3, 2))
    K = 2.0 * np.exp(-0.5 * np.sum(((x[:, :, None] - x[:, None]) / 0.9) ** 2, axis=-1)) + 1e-9 * np.eye(3)
    f = np.einsum("nij,nj->ni", np.linalg.cholesky(K), rng.normal(size=(50_000, 3)))
    p = np.prod(ndtr(f * (2 * y - 1)), axis=1)
    error = bounds.std() / np.sqrt(len(bounds)) + p.std() / p.mean() / np.sqrt(len(p))
    assert np.log(p.mean()) - 1.0 < bounds.mean() < np.log(p.mean()) + 3 * error
    certain = tgp.fit(tgp.freeze(model, "kernel.*", "Z"), known(data), steps=200, progress=False).model
    assert float(certain.elbo(known(data))) != pytest.approx(bounds.mean(), rel=1e-3)


def test_predictions_at_uncertain_inputs(problem, rng):
    kernel, data, Z, noise = problem
    post = sgpr(problem).posterior(data)
    S = rng.uniform(0, 0.5, size=(4, 2))
    mean, var = post.predict_f(data.X[:4], input_variance=S)
    reference = Averaged(kernel, data.X, data.input_variance, data.y, Z, noise, known=data.noise_variance)
    latents = post.latents[0]
    lower = np.linalg.inv(np.asarray(latents.whitener.inverse))
    for p in range(2):
        m, root = lower @ np.asarray(latents.q[0].mean[:, p]), lower @ np.asarray(latents.q[0].root[0])
        expected = reference.predict(data.X[:4], S, m, root @ root.T)
        np.testing.assert_allclose(mean[:, p], expected[0], rtol=1e-7)
        np.testing.assert_allclose(var[:, p], expected[1], rtol=1e-6)
    y_mean, y_var = post.predict_y(data.X[:4], input_variance=S)
    np.testing.assert_allclose(y_var, var + noise, rtol=1e-12)
    density = post.log_density(data.X[:4], data.y[:4], input_variance=S)
    expected = -0.5 * (np.log(2 * np.pi * y_var) + (data.y[:4] - y_mean) ** 2 / y_var)
    np.testing.assert_allclose(density, expected, rtol=1e-10)
    for one, other in zip(post.predict_f(data.X[:4], input_variance=1e-14), post.predict_f(data.X[:4]), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-8)


def test_predictions_of_other_models_at_uncertain_inputs(rng):
    """The moments of draws: of the exact GP, and of a classifier by quadrature."""
    X = rng.normal(size=(15, 1))
    y = np.sin(2 * X[:, 0])
    exact = tgp.ExactGP(tgp.kernels.SquaredExponential(1.0, 0.7), 0.1).posterior(tgp.Dataset(X, y))
    sparse = tgp.SVGP(tgp.kernels.Matern32(1.0, 0.7), tgp.likelihoods.Bernoulli(), X[:5]).posterior()
    x = 0.3 + np.sqrt(0.2) * rng.normal(size=(100_000, 1))
    for post in (exact, sparse):
        mean, var = post.predict_f([[0.3]], input_variance=0.2)
        means, variances = (np.asarray(a) for a in post.predict_f(x))
        assert float(mean[0]) == pytest.approx(means.mean(), abs=0.01)
        assert float(var[0]) == pytest.approx(variances.mean() + means.var(), rel=0.02)
    assert 0 < float(sparse.predict_y([[0.3]], input_variance=0.2)[0][0]) < 1


def test_scales_are_those_of_the_averages(problem):
    kernel, data, Z, noise = problem
    reference = Averaged(kernel, data.X, data.input_variance, data.y, Z, noise, known=data.noise_variance)
    r = reference.residuals(reference.psi0, reference.psi2) / (noise + data.noise_variance)
    np.testing.assert_allclose(sgpr(problem).posterior(data).scales, 1 / (1 + r), rtol=1e-7)
    np.testing.assert_allclose(sgpr(problem, "spherical").posterior(data).scales, 1 / (1 + r.mean()), rtol=1e-7)


def test_inputs_that_are_trained_too_find_the_noise(rng):
    """Errors in the inputs look like noise to a model that does not know of them, or may not correct them."""
    X = rng.uniform(-3, 3, size=(120, 1))
    y = np.sin(2 * X[:, 0]) + 0.05 * rng.normal(size=120)
    S = np.where(rng.uniform(size=(120, 1)) < 0.5, 0.09, 1e-4)
    data = tgp.Dataset(X + np.sqrt(S) * rng.normal(size=X.shape), y, input_variance=S)
    model = tgp.SGPR(tgp.kernels.SquaredExponential(), tgp.inducing.kmeans(data.X, 12, seed=0), 0.1)
    plain = tgp.fit(model, known(data), steps=100, progress=False).model
    fixed = tgp.fit(model, data, steps=100, progress=False).model
    trained = tgp.fit(tgp.GPLVM.of(model, data), data, steps=200, progress=False).model
    assert float(trained.model.noise_variance) < 0.015 < 0.04 < float(plain.noise_variance)
    assert float(trained.elbo(data)) > float(fixed.elbo(data)) + 50
    moved = np.abs(np.asarray(trained.inputs.mean) - X) < np.abs(data.X - X)
    assert np.mean(moved[S[:, 0] > 0.01]) > 0.75  # nearer to the truth
    with pytest.raises(ValueError, match="data must be a Dataset with an input_variance"):
        tgp.GPLVM.of(model, known(data))


def test_files_and_memory_maps(problem, tmp_path):
    data, model = problem[1], sgpr(problem)
    post = model.posterior(data)
    tgp.save(post, tmp_path / "post.safetensors")
    again = tgp.load(tmp_path / "post.safetensors")
    for one, other in zip(again.predict_f(data.X), post.predict_f(data.X), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(again.scales, post.scales)
    np.save(tmp_path / "X.npy", data.X)
    mapped = tgp.Dataset(
        np.load(tmp_path / "X.npy", mmap_mode="r"), data.y, data.noise_variance, input_variance=data.input_variance
    )
    assert float(model.elbo(mapped)) == pytest.approx(float(model.elbo(data)), rel=1e-12)


def test_what_cannot_be_is_refused(problem):
    kernel, data, Z, _noise = problem
    with pytest.raises(ValueError, match=r"input_variance must be one number, or have shape \(2,\)"):
        tgp.Dataset(data.X, data.y, input_variance=np.ones(3))
    with pytest.raises(ValueError, match="input_variance must not be negative"):
        tgp.Dataset(data.X, data.y, input_variance=-0.1)
    with pytest.raises(ValueError, match="bound='block' needs inputs that are known"):
        sgpr(problem, "block").elbo(data)
    with pytest.raises(ValueError, match=r"bound='PowerEP\(0.5\)' needs inputs that are known"):
        sgpr(problem, tgp.PowerEP(0.5)).elbo(data)
    with pytest.raises(ValueError, match="mean must be Zero or Constant where inputs are uncertain, not Linear"):
        sgpr(problem, mean=tgp.means.Linear([1.0, 0.0])).elbo(data)
    with pytest.raises(ValueError, match="precision='full'"):
        sgpr(problem, precision="mixed").elbo(data)
    with pytest.raises(ValueError, match="ExactGP needs inputs that are known"):
        tgp.ExactGP(kernel).log_evidence(data)
    for method in ("upper_bound", "evidence_bracket"):
        with pytest.raises(ValueError, match="no upper bound on the log evidence where inputs are uncertain"):
            getattr(sgpr(problem), method)(data)
    with pytest.raises(ValueError, match="mixing needs inputs that are known"):
        tgp.SVGP(kernel, tgp.likelihoods.Gaussian(), Z, mixing=np.ones((2, 1))).elbo(data)
    wide = tgp.Dataset(np.ones((6, 5)), np.ones(6), input_variance=1.0)
    with pytest.raises(ValueError, match="no averages in closed form over 5 uncertain input columns"):
        tgp.SGPR(tgp.kernels.Matern32(), np.eye(5)).elbo(wide)
    post = sgpr(problem).posterior(data)
    with pytest.raises(ValueError, match="neighbours needs training inputs that are known"):
        post.predict_f(data.X, neighbours=3)
    with pytest.raises(ValueError, match="exact_conditional needs training inputs that are known"):
        post.predict_f(data.X, exact_conditional=True)
    with pytest.raises(ValueError, match="input_variance needs the plain prediction"):
        sgpr(problem).posterior(known(data)).predict_f(data.X, neighbours=3, input_variance=0.1)
    sloped = tgp.SVGP(kernel, tgp.likelihoods.Bernoulli(), Z, mean=tgp.means.Linear([1.0, 0.0]))
    classes = tgp.Dataset(data.X, (data.y[:, 0] > 0).astype(float), input_variance=0.1)
    with pytest.raises(ValueError, match="validation: input_variance needs a mean that is Zero or Constant"):
        tgp.fit(sloped, known(classes), batch_size=5, epochs=1, validation=classes, progress=False)
    with pytest.raises(ValueError, match="leave out full_cov=True"):
        post.predict_f(data.X, full_cov=True, input_variance=0.1)
    with pytest.raises(ValueError, match=r"input_variance must be one number, or have shape \(2,\)"):
        post.predict_f(data.X, input_variance=np.ones(3))


def test_known_noise_and_dense_agree_without_variance(problem):
    """The two references are one another's limit."""
    kernel, data, Z, noise = problem
    averaged = Averaged(kernel, data.X, 0 * data.X, data.y, Z, noise, known=data.noise_variance, nodes=3)
    dense = Dense(kernel, data.X, data.y, Z, noise, known=data.noise_variance)
    assert averaged.bound("diagonal") == pytest.approx(dense.bound("diagonal"), rel=1e-9)


def test_the_order_of_rows_changes_only_the_last_digits(rng):
    """Nearly known inputs, hardly any noise and crowded inducing points: sums of squares would lose ten digits."""
    X = rng.uniform(-1, 1, size=(200, 2))
    y = np.sin(3 * X[:, 0]) + X[:, 1] ** 2
    S = rng.uniform(1e-4, 2e-3, size=X.shape)
    model = tgp.SGPR(tgp.kernels.SquaredExponential(2.0, 1.5), tgp.inducing.kmeans(X, 25, seed=0), 1e-3)
    orders = [np.arange(200), *(rng.permutation(200) for _ in range(3))]
    values = [float(model.elbo(tgp.Dataset(X[p], y[p], input_variance=S[p]))) for p in orders]
    assert np.ptp(values) < 1e-7 * abs(values[0])
