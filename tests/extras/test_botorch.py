"""A real BoTorch loop on a tightgp model: gradients, fantasies, expected improvement and Thompson sampling."""

import numpy as np
import pytest

import tightgp as tgp

torch = pytest.importorskip("torch")
botorch = pytest.importorskip("botorch")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(12, 2))
    return X, np.sin(4 * X[:, 0]) + X[:, 1] ** 2


def model_of(post):
    from tightgp.optimise.botorch import BoTorchModel

    return BoTorchModel(post)


def posteriors(rows):
    X, y = rows
    kernel = tgp.kernels.Matern52(1.2, [0.4, 0.6])
    yield tgp.ExactGP(kernel, 0.01).posterior(tgp.Dataset(X, y))
    yield tgp.SGPR(kernel, X[:7], 0.01).posterior(tgp.Dataset(X, y))


def test_predictions_gradients_and_fantasies(rows):
    from botorch.sampling import SobolQMCNormalSampler

    rng = np.random.default_rng(1)
    X, X_new = rng.uniform(size=(3, 2)), rng.uniform(size=(2, 2))
    for post in posteriors(rows):
        model = model_of(post)
        found = model.posterior(torch.as_tensor(X)[None].expand(4, 3, 2))
        mean, cov = post.predict_f(X, full_cov=True)
        np.testing.assert_allclose(found.mean[1, :, 0], mean, atol=1e-9)
        np.testing.assert_allclose(found.distribution.covariance_matrix[3], cov, atol=1e-9)
        noisy = model.posterior(torch.as_tensor(X), observation_noise=True)
        np.testing.assert_allclose(noisy.variance[:, 0], post.predict_y(X)[1], atol=1e-9)

        fantasy = model.fantasize(torch.as_tensor(X_new), SobolQMCNormalSampler(torch.Size([3]), seed=0))
        assert fantasy.batch_shape == torch.Size([3])
        Y = fantasy._new[1]
        told = post.condition(X_new, Y[2, :, 0].numpy())
        mean, cov = told.predict_f(X, full_cov=True)
        found = fantasy.posterior(torch.as_tensor(X))
        np.testing.assert_allclose(found.mean[2, :, 0], mean, atol=1e-7)
        np.testing.assert_allclose(found.distribution.covariance_matrix[2], cov, atol=1e-7)

        def value(X, X_new, Y, model=model):
            found = model.condition_on_observations(X_new, Y).posterior(X)
            return found.mean.sum() + found.distribution.covariance_matrix.sum()

        given = [torch.as_tensor(a).clone().requires_grad_() for a in (X, X_new, Y[0].detach())]
        assert torch.autograd.gradcheck(value, given, eps=1e-6, atol=1e-4)


def test_several_outputs_and_refusals(rows):
    X, y = rows
    Y = np.stack([y, X[:, 0]], axis=1)
    post = tgp.ExactGP(tgp.kernels.Matern52(), 0.01).posterior(tgp.Dataset(X, Y))
    model = model_of(post)
    found = model.posterior(torch.as_tensor(X[:3]))
    np.testing.assert_allclose(found.mean, post.predict_f(X[:3])[0], atol=1e-9)
    assert found.rsample(torch.Size([5])).shape == (5, 3, 2)
    one = model.subset_output([1])
    np.testing.assert_allclose(one.posterior(torch.as_tensor(X[:3])).mean[:, 0], found.mean[:, 1])
    told = model.condition_on_observations(torch.as_tensor(X[:2]) + 0.1, torch.zeros(2, 2, dtype=torch.float64))
    mean = post.condition(X[:2] + 0.1, np.zeros((2, 2))).predict_f(X[:3])[0]
    np.testing.assert_allclose(told.posterior(torch.as_tensor(X[:3])).mean, mean, atol=1e-7)
    near = tgp.SGPR(tgp.kernels.Matern52(), X[:4], 0.01, tgp.Neighbours(3)).posterior(tgp.Dataset(X, y))
    with pytest.raises(ValueError, match="without_rows"):
        model_of(near)
    model_of(near.without_rows())
    for bound in (tgp.PowerEP(0.5), tgp.Vecchia(3)):
        post = tgp.SGPR(tgp.kernels.Matern52(), X[:4], 0.01, bound).posterior(tgp.Dataset(X, y))
        for one in (post, post.without_rows()):
            with pytest.raises(ValueError, match="Power EP or Vecchia"):
                model_of(one)
    diagonal = tgp.SVGP(tgp.kernels.Matern52(), tgp.likelihoods.Gaussian(), X[:4], covariance="diagonal").posterior()
    with pytest.raises(ValueError, match="full covariance"):
        model_of(diagonal)
    known = tgp.SGPR(tgp.kernels.Matern52(), X[:4], None).posterior(tgp.Dataset(X, y, np.full(len(X), 0.1)))
    with pytest.raises(ValueError, match="noise_variance of new rows must be above zero"):
        model_of(known).condition_on_observations(torch.as_tensor(X[:1]), torch.zeros(1, 1, dtype=torch.float64))
    with pytest.raises(ValueError, match="Gaussian noise"):
        model_of(tgp.SVGP(tgp.kernels.Matern52(), tgp.likelihoods.Poisson(), X[:4]).posterior())


def loop(function, acquisition: str, calls: int, num_initial: int) -> float:
    """The best value of a BoTorch loop that maximises ``-function`` over its unit cube."""
    from botorch.acquisition import LogExpectedImprovement
    from botorch.generation import MaxPosteriorSampling
    from botorch.optim import optimize_acqf

    torch.manual_seed(0)
    d, bounds = function.dim, function.bounds.double()
    X = torch.quasirandom.SobolEngine(d, scramble=True, seed=0).draw(num_initial).double()
    y = -function(bounds[0] + (bounds[1] - bounds[0]) * X)
    unit = torch.stack([torch.zeros(d), torch.ones(d)]).double()
    priors = {"kernel.*": tgp.priors.LogNormal(0.0, 1.0), "noise_variance": tgp.priors.LogNormal(-8.0, 2.0)}
    start = tgp.with_priors(tgp.ExactGP(tgp.kernels.Matern52(lengthscale=np.full(d, 0.5)), 1e-3), priors)
    gp = None
    while len(y) < calls:
        z = ((y - y.mean()) / y.std()).numpy()
        if gp is None or len(y) % 8 == 0:  # between, the posterior alone learns: fewer sizes to compile
            gp = tgp.fit(start, tgp.Dataset(X.numpy(), z), steps=50, progress=False).model
            post = gp.posterior(tgp.Dataset(X.numpy(), z))
            shift, scale = y.mean(), y.std()
        model = model_of(post)
        if acquisition == "ei":
            value = LogExpectedImprovement(model, best_f=((y - shift) / scale).max())
            x = optimize_acqf(value, unit, q=1, num_restarts=4, raw_samples=64, options={"maxiter": 50})[0]
        else:
            best = X[y.argmax()]
            near = (best + 0.1 * torch.randn(150, d).double()).clamp(0, 1)
            candidates = torch.cat([torch.rand(150, d).double(), near])
            x = MaxPosteriorSampling(model, replacement=False)(candidates, num_samples=1)
        value = -function(bounds[0] + (bounds[1] - bounds[0]) * x)
        X, y = torch.cat([X, x]), torch.cat([y, value])
        post = post.condition(x.numpy(), ((value - shift) / scale).numpy())
    return float(-y.max())


@pytest.mark.parametrize(
    ("name", "acquisition", "calls", "least"),
    [
        ("Branin", "ei", 32, 0.45),
        ("Branin", "thompson", 40, 0.6),
        ("Hartmann", "ei", 50, -3.0),
        ("Hartmann", "thompson", 60, -2.7),
    ],
)
def test_loops_find_the_optimum(name, acquisition, calls, least):
    """Branin's is 0.398, Hartmann-6's -3.322."""
    from botorch.test_functions import synthetic

    assert loop(getattr(synthetic, name)(), acquisition, calls, 8 if name == "Branin" else 14) < least


def test_knowledge_gradient_differentiates_through_fantasies(rows):
    from botorch.acquisition import qKnowledgeGradient
    from botorch.optim import optimize_acqf

    model = model_of(next(posteriors(rows)))
    unit = torch.tensor([[0.0, 0.0], [1.0, 1.0]]).double()
    value = qKnowledgeGradient(model, num_fantasies=4)
    x, gained = optimize_acqf(value, unit, q=1, num_restarts=2, raw_samples=8, options={"maxiter": 10})
    assert x.shape == (1, 2)
    assert torch.isfinite(gained)
