import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tightgp as tgp

PRIORS = {"kernel.*": tgp.priors.LogNormal(0.0, 1.0), "*noise_variance": tgp.priors.LogNormal(-2.0, 1.0)}


def exact(kernel):
    return tgp.with_priors(tgp.ExactGP(kernel, 0.1), PRIORS)


def gradient_steps(function, size):
    """Value, gradient and Hessian at zero of a quadratic function of ``size`` numbers."""
    both = jax.jit(jax.value_and_grad(function))
    value, gradient = both(jnp.zeros(size))
    return value, gradient, jnp.stack([both(row)[1] - gradient for row in jnp.eye(size)])


def test_views_differ_by_the_jacobian_of_the_transforms(problem):
    data, _, kernel = problem
    model = exact(kernel)
    density = tgp.log_density(model, data)
    position = jax.tree.map(lambda a: a + 0.3, density.start)
    values = density.values(position)
    slopes = 0.0
    for name, raw in position.items():
        transform = tgp.named_parameters(model)[name].transform
        slope = jax.vmap(jax.grad(lambda r, t=transform: t.forward(r).sum()))(jnp.atleast_1d(raw))
        slopes += float(jnp.sum(jnp.log(slope)))
    np.testing.assert_allclose(density(position) - density.constrained(values), slopes)
    for name, raw in density.position(values).items():
        np.testing.assert_allclose(raw, position[name], rtol=1e-9)
    assigned = tgp.assign(model, values)
    prior = sum(float(jnp.sum(p.prior.log_density(values[name]))) for name, p in tgp.named_parameters(assigned).items())
    np.testing.assert_allclose(density.constrained(values), float(assigned.log_evidence(data)) + prior)
    np.testing.assert_allclose(density.potential(position), -density(position))


def test_without_data_draws_would_be_those_of_the_prior():
    """The unconstrained density integrates to one, up to the evidence of the data."""
    X, y = np.zeros((1, 1)), np.zeros(1)
    model = tgp.freeze(tgp.ExactGP(tgp.kernels.Constant(1.0), 0.5), "kernel.*")
    model = tgp.with_priors(model, {"noise_variance": tgp.priors.LogNormal(0.0, 0.5)})
    density = tgp.log_density(model, tgp.Dataset(X, y))
    raw = jnp.linspace(-15.0, 30.0, 3001)
    log_values = jax.jit(jax.vmap(lambda r: density({"noise_variance": r})))(raw)
    noise = density.values({"noise_variance": raw})["noise_variance"]
    evidence = -0.5 * np.log(2 * np.pi * (1.0 + noise))
    assert np.isclose(np.trapezoid(np.exp(log_values - evidence), raw), 1.0, atol=1e-6)


def test_integrating_over_inducing_variables_gives_the_collapsed_bound(problem):
    data, Z, kernel = problem
    Z = Z[:4]
    model = tgp.SVGP(kernel, tgp.likelihoods.Gaussian(0.1), Z, "diagonal", whiten=False)
    density = tgp.log_density(tgp.freeze(model, "kernel.*", "likelihood.*"), data)
    assert density.names == ("q.mean",)
    value, gradient, hessian = gradient_steps(lambda w: density({"q.mean": w[:, None]}), 4)
    integral = value - 0.5 * gradient @ jnp.linalg.solve(hessian, gradient)
    integral -= 0.5 * jnp.linalg.slogdet(-hessian / (2 * jnp.pi))[1]
    np.testing.assert_allclose(integral, tgp.SGPR(kernel, Z, 0.1).elbo(data), rtol=1e-9)
    mode = {"q.mean": -jnp.linalg.solve(hessian, gradient)[:, None]}
    predicted = density.posterior(jax.tree.map(lambda a: a[None], mode)).predict_f(data.X[:3])[0]
    np.testing.assert_allclose(predicted, tgp.SGPR(kernel, Z, 0.1).posterior(data).predict_f(data.X[:3])[0], rtol=1e-6)


def test_predictions_average_over_draws(problem):
    data, _, kernel = problem
    density = tgp.log_density(exact(kernel), data)
    draws = jax.tree.map(lambda a: jnp.stack([a, a + 0.5])[None], density.start)
    models = [density.model(jax.tree.map(lambda a, i=i: a[0, i], draws)) for i in range(2)]
    post = density.posterior(draws)
    X, y = data.X[:3] + 0.1, data.y[:3]
    (m0, v0), (m1, v1) = (model.posterior(data).predict_y(X) for model in models)
    mean, var = post.predict_y(X)
    np.testing.assert_allclose(mean, (m0 + m1) / 2)
    np.testing.assert_allclose(var, (v0 + v1) / 2 + (m0 - m1) ** 2 / 4)
    each = jnp.stack([model.posterior(data).log_density(X, y) for model in models])
    np.testing.assert_allclose(post.log_density(X, y), jnp.log(jnp.mean(jnp.exp(each), axis=0)))
    np.testing.assert_allclose(jnp.diag(post.predict_y(X, full_cov=True)[1]), var)
    F = post.sample_f(jax.random.key(0), X, 4000)
    assert F.shape == (4000, 3)
    np.testing.assert_allclose(jnp.mean(F, axis=0), post.predict_f(X)[0], atol=0.05)
    np.testing.assert_allclose(jnp.cov(F.T), post.predict_f(X, full_cov=True)[1], atol=0.03)
    assert len(density.posterior(draws, num_draws=1).posteriors) == 1


def test_inducing_inputs_keep_their_places(problem):
    data, Z, kernel = problem
    model = tgp.with_priors(tgp.SGPR(kernel, Z, 0.1, "block"), PRIORS)
    density = tgp.log_density(model, data)
    assert density.names == ("kernel.variance", "kernel.lengthscale", "noise_variance")
    starts = density.starts(jax.random.key(0), 3)
    assert starts["kernel.lengthscale"].shape == (3, 2)
    np.testing.assert_allclose(
        density.constrained(density.values(density.start)), model.elbo(data) + tgp.parameters.log_prior(model)
    )


def test_bad_arguments_are_named(problem):
    data, _, kernel = problem
    with pytest.raises(ValueError, match=r"needs a prior .* none on kernel.variance, .*with_priors"):
        tgp.log_density(tgp.ExactGP(kernel, 0.1), data)
    with pytest.raises(ValueError, match="nothing to sample"):
        tgp.log_density(tgp.freeze(tgp.ExactGP(kernel, 0.1), "*"), data)
    with pytest.raises(ValueError, match="model must be an ExactGP, SGPR, SVGP or VGP, got int"):
        tgp.log_density(3, data)
    density = tgp.log_density(exact(kernel), data)
    with pytest.raises(ValueError, match=r"positions must have the keys kernel.variance"):
        density.values({"Z": 1.0})
    with pytest.raises(ValueError, match="shape"):
        density.posterior({name: jnp.zeros((3, 5)) for name in density.names})
    with pytest.raises(ValueError, match="same number of draws"):
        density.posterior({name: jnp.zeros((i + 1, *a.shape)) for i, (name, a) in enumerate(density.start.items())})
    with pytest.raises(ValueError, match="posteriors is empty"):
        tgp.AveragedPosterior([])
