"""GPyTorch's measurements, on a GPU where torch sees one.

Its collapsed bound always uses the matrix inversion lemma and Cholesky (no conjugate gradients), so there is nothing to
choose. All variational strategies with a full covariance that Adam can train are timed, and the fastest is kept. CIQ
and the natural distributions need a natural-gradient optimiser of their own.
"""

import contextlib
import time

import gpytorch
import numpy as np
import torch
from linear_operator.settings import _linalg_dtype_cholesky
from scipy.optimize import minimize

from benchmarks.workers import common

#: Adam steps of one timed call.
STEPS = 10
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
#: In float32 the strategies factorise in float64 unless a setting says otherwise.
SINGLE = "VariationalStrategy, float32 Cholesky"
#: Small matrices may be faster with one thread.
THREADS = ["all threads", "one thread"]
STRATEGIES = {
    "VariationalStrategy": gpytorch.variational.VariationalStrategy,
    "LargeBatchVariationalStrategy": gpytorch.variational.LargeBatchVariationalStrategy,
    "UnwhitenedVariationalStrategy": gpytorch.variational.UnwhitenedVariationalStrategy,
    SINGLE: gpytorch.variational.VariationalStrategy,
}


def probe() -> dict:
    return {
        "versions": common.versions("gpytorch", "linear_operator", "torch", "numpy", "scipy"),
        "device": torch.cuda.get_device_name() if DEVICE == "cuda" else "cpu",
        "variants": {"svgp": list(STRATEGIES), "predict": ["whole", "in parts"], "fit": THREADS},
    }


def _finished() -> None:
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def _tensor(array) -> torch.Tensor:
    return torch.from_numpy(array).to(DEVICE)


class _Collapsed(gpytorch.models.ExactGP):
    """The collapsed bound: an exact GP with an inducing point kernel."""

    def __init__(self, X, y, Z, lengthscale: float):
        likelihood = gpytorch.likelihoods.GaussianLikelihood(noise_constraint=gpytorch.constraints.GreaterThan(1e-6))
        super().__init__(X, y, likelihood)
        likelihood.noise = common.NOISE
        self.mean_module = gpytorch.means.ZeroMean()
        self.base = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=X.shape[1]))
        self.base.base_kernel.lengthscale, self.base.outputscale = lengthscale, common.VARIANCE
        self.covar_module = gpytorch.kernels.InducingPointKernel(self.base, Z, likelihood)
        self.to(X)

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def _evaluation(X: np.ndarray, y: np.ndarray, m: int, lengthscale: float):
    """The model, and a function that computes its loss in total nats and the gradients of its parameters."""
    torch.set_default_dtype(torch.float64)
    X, y = _tensor(X), _tensor(y)
    model = _Collapsed(X, y, X[:m].clone(), lengthscale)
    model.train()
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)

    def call():
        model.zero_grad()
        loss = -len(y) * objective(model(X), y)
        loss.backward()
        _finished()
        return loss

    return model, call


def collapsed(n: int, d: int, m: int, budget: float) -> dict:
    _, call = _evaluation(*common.regression(n, d), m, 3.0)
    return {**common.timed(call, budget), "objective": -call().item()}


def memory(n: int, d: int, m: int) -> dict:
    X, y = common.regression(n, d)
    few = min(m, 64)
    warm_up = lambda: _evaluation(X[: 2 * few], y[: 2 * few], few, 3.0)[1]()  # noqa: E731
    answer = common.peak_mb(warm_up, lambda: _evaluation(X, y, m, 3.0)[1]())
    if DEVICE == "cuda":
        answer |= {"peak_mb": torch.cuda.max_memory_allocated() / 2**20, "of": "device"}
    return answer | {"data_mb": (X.nbytes + y.nbytes) / 2**20}


class _Variational(gpytorch.models.ApproximateGP):
    """SVGP with a full covariance."""

    def __init__(self, Z, strategy: type):
        q = gpytorch.variational.CholeskyVariationalDistribution(len(Z))
        super().__init__(strategy(self, Z, q, learn_inducing_locations=True))
        self.mean_module = gpytorch.means.ZeroMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(nu=1.5))
        self.covar_module.base_kernel.lengthscale, self.covar_module.outputscale = 2.0, common.VARIANCE

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def svgp(batch: int, d: int, m: int, dtype: str, budget: float, variant: str) -> dict:
    if variant == SINGLE and dtype == "float64":
        return {"skipped": "the same as VariationalStrategy"}
    torch.set_default_dtype(getattr(torch, dtype))
    torch.backends.cuda.matmul.allow_tf32 = False
    X, y = map(_tensor, common.regression(batch, d, dtype))
    model = _Variational(_tensor(common.inducing(m, d, dtype)), STRATEGIES[variant]).to(DEVICE)
    likelihood = gpytorch.likelihoods.GaussianLikelihood().to(DEVICE)
    likelihood.noise = common.NOISE
    model.train()
    likelihood.train()
    objective = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=batch)
    adam = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=0.01)

    def steps():
        for _ in range(STEPS):
            adam.zero_grad()
            (-objective(model(X), y)).backward()
            adam.step()
        _finished()

    single = _linalg_dtype_cholesky(torch.float32) if variant == SINGLE else contextlib.nullcontext()
    # Cholesky up to any size: conjugate gradients only pay for far larger matrices.
    with single, gpytorch.settings.max_cholesky_size(10**6):
        return common.timed(steps, budget, STEPS)


def fit(n: int, d: int, m: int, budget: float, variant: str) -> dict:
    """Whole fits by the usual adapter to SciPy, over one vector of all parameters; GPyTorch has none of its own."""
    if variant == "one thread":
        torch.set_num_threads(1)
    model, call = _evaluation(*common.small_set(n, d), m, 1.0)
    # The kernel holds the likelihood too; PyTorch lists shared parameters once.
    parameters = list(model.parameters())
    start = torch.nn.utils.parameters_to_vector(parameters).detach().cpu().numpy().copy()

    def evaluate(x):
        with torch.no_grad():
            torch.nn.utils.vector_to_parameters(_tensor(x), parameters)
        loss = call()
        gradient = torch.nn.utils.parameters_to_vector([p.grad for p in parameters])
        return loss.item(), gradient.cpu().numpy()

    def once():
        done = minimize(evaluate, start, jac=True, method="L-BFGS-B", options=common.LBFGS)
        return -done.fun, done.nfev

    return common.timed_fits(once, budget)


def predict(points: int, n: int, d: int, m: int, budget: float, variant: str) -> dict:
    """Means and variances, from the caches that the first prediction fills."""
    X, y = common.regression(n, d)
    size = points if variant == "whole" else common.PART
    test = _tensor(common.test_inputs(points, d))
    with torch.no_grad(), gpytorch.settings.fast_pred_var():

        def ready() -> _Collapsed:
            model, _ = _evaluation(X, y, m, 3.0)
            model.eval()
            # With the diagonal correction at the data the posterior would be FITC's, and not that of the bound, from
            # which all others predict. At the test points, later, the correction completes the variances.
            with gpytorch.settings.sgpr_diagonal_correction(False):
                q = model(test[:1])
                _ = q.mean, q.variance
            _finished()
            return model

        ready()
        began = time.perf_counter()
        model = ready()
        made = time.perf_counter() - began

        def call():
            found = [(q.mean, q.variance) for q in map(model, test.split(size))]
            _finished()
            return found

        answer = common.timed(call, budget)
        means = [torch.cat(values).mean().item() for values in zip(*call(), strict=True)]
        return {**answer, "posterior": made, "means": means}


TASKS = {"collapsed": collapsed, "memory": memory, "svgp": svgp, "fit": fit, "predict": predict}
