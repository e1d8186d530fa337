"""What each benchmark times, one process a worker: ``python workers.py NAME N D M [DTYPE]`` prints one line of JSON.

Workers import only what they time, so that the peers' run without tightgp. Timings are the best of several
repeats after a warm-up: the least disturbed one.
"""

import json
import resource
import sys
import time

import numpy as np


def data(n, d):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    return X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=n)


def best_of(call, repeats=5):
    call()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return min(times)


def matmul(n, d, m):
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    A, B = jnp.asarray(data(n, m)[0]), jnp.asarray(data(m, m)[0])
    product = jax.jit(lambda A, B: A @ B)
    return {"seconds": best_of(lambda: jax.block_until_ready(product(A, B)))}


def tightgp(n, d, m, bound):
    import jax

    import tightgp as tgp
    from tightgp.training.problem import Problem

    X, y = data(n, d)
    kernel = tgp.kernels.SquaredExponential(1.0, np.full(d, 3.0))
    problem = Problem(*tgp.SGPR(kernel, X[:m], 0.1, bound=bound).prepare(tgp.Dataset(X, y)))
    return {"seconds": best_of(lambda: jax.block_until_ready(problem.evaluate(problem.start)))}


def memory(n, d, m):
    import jax

    import tightgp as tgp
    from tightgp.training.problem import Problem

    X, y = data(n, d)
    small = tgp.SGPR(tgp.kernels.SquaredExponential(1.0, np.full(d, 3.0)), X[:m], 0.1)
    first = Problem(*small.prepare(tgp.Dataset(X[: 2 * m], y[: 2 * m])))
    jax.block_until_ready(first.evaluate(first.start))  # imports and compilation are no part of the claim
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    problem = Problem(*small.prepare(tgp.Dataset(X, y)))
    jax.block_until_ready(problem.evaluate(problem.start))
    began = time.perf_counter()
    jax.block_until_ready(problem.evaluate(problem.start))
    seconds = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"beyond_data_mb": (after - before) / 1024, "data_mb": (X.nbytes + y.nbytes) / 2**20, "seconds": seconds}


def timed(run_steps, steps=10, repeats=5):
    """Best time of one step, from runs of several."""
    return best_of(lambda: run_steps(steps), repeats) / steps


def svgp_matmul(n, d, m, dtype):
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    A, B = jnp.asarray(data(n, m)[0].astype(dtype)), jnp.asarray(data(m, m)[0].astype(dtype))
    with jax.default_matmul_precision("highest"):
        product = jax.jit(lambda A, B: A @ B)
        return {"seconds": best_of(lambda: jax.block_until_ready(product(A, B)), 20)}


def svgp_tightgp(n, d, m, dtype, bound):
    import equinox as eqx
    import jax

    import tightgp as tgp
    from tightgp.training import stepping
    from tightgp.training.problem import Problem

    X, y = (a.astype(dtype) for a in data(n, d))
    Z = np.random.default_rng(1).normal(size=(m, d)).astype(dtype)
    model = tgp.SVGP(tgp.kernels.Matern32(1.0, 2.0), tgp.likelihoods.Gaussian(0.1), Z, bound)
    problem = Problem(*model.prepare(tgp.Dataset(X, y)))
    settings = stepping.Settings.of(0.01)

    @eqx.filter_jit
    def steps(state, fixed, batch, count):
        return jax.lax.scan(lambda s, _: (stepping.step(s, fixed, batch, settings).state, None), state, None, count)[0]

    state = stepping.begin(problem.start, settings)
    seconds = timed(lambda count: jax.block_until_ready(steps(state, problem.fixed, problem.rows, count)))
    return {"seconds": seconds, "device": jax.devices()[0].device_kind}


def svgp_gpytorch(n, d, m, dtype):
    import gpytorch
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_default_dtype(getattr(torch, dtype))
    torch.backends.cuda.matmul.allow_tf32 = False
    X, y = (torch.from_numpy(a.astype(dtype)).to(device) for a in data(n, d))
    Z = torch.from_numpy(np.random.default_rng(1).normal(size=(m, d)).astype(dtype)).to(device)

    class Model(gpytorch.models.ApproximateGP):
        def __init__(self):
            q = gpytorch.variational.CholeskyVariationalDistribution(m)
            super().__init__(gpytorch.variational.VariationalStrategy(self, Z, q, learn_inducing_locations=True))
            self.mean_module = gpytorch.means.ZeroMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(nu=1.5))

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    likelihood = gpytorch.likelihoods.GaussianLikelihood().to(device)
    likelihood.noise = 0.1
    model = Model().to(device)
    model.covar_module.base_kernel.lengthscale, model.covar_module.outputscale = 2.0, 1.0
    model.train()
    likelihood.train()
    objective = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=n)
    adam = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=0.01)

    def run_steps(count):
        for _ in range(count):
            adam.zero_grad()
            (-objective(model(X), y)).backward()
            adam.step()
        if device == "cuda":
            torch.cuda.synchronize()

    return {"seconds": timed(run_steps)}


def gpytorch(n, d, m):
    import gpytorch
    import torch

    torch.set_default_dtype(torch.float64)
    X, y = map(torch.from_numpy, data(n, d))

    class Model(gpytorch.models.ExactGP):
        def __init__(self, likelihood):
            super().__init__(X, y, likelihood)
            self.mean_module = gpytorch.means.ZeroMean()
            self.base = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=d))
            self.covar_module = gpytorch.kernels.InducingPointKernel(
                self.base, inducing_points=X[:m].clone(), likelihood=likelihood
            )

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    likelihood.noise = 0.1
    model = Model(likelihood)
    model.base.base_kernel.lengthscale, model.base.outputscale = 3.0, 1.0
    model.train()
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)

    def step():
        model.zero_grad()
        (-objective(model(X), y)).backward()

    return {"seconds": best_of(step)}


def gpflow(n, d, m):
    import gpflow
    import tensorflow as tf

    X, y = data(n, d)
    kernel = gpflow.kernels.SquaredExponential(lengthscales=np.full(d, 3.0))
    model = gpflow.models.SGPR((X, y[:, None]), kernel, X[:m].copy(), noise_variance=0.1)

    @tf.function
    def value_and_gradient():
        with tf.GradientTape() as tape:
            value = model.elbo()
        return value, tape.gradient(value, model.trainable_variables)

    return {"seconds": best_of(lambda: value_and_gradient()[0].numpy())}


WORKERS = {
    "matmul": matmul,
    "diagonal": lambda n, d, m: tightgp(n, d, m, "diagonal"),
    "standard": lambda n, d, m: tightgp(n, d, m, "standard"),
    "memory": memory,
    "gpytorch": gpytorch,
    "gpflow": gpflow,
    "svgp-matmul": svgp_matmul,
    "svgp-diagonal": lambda n, d, m, dtype: svgp_tightgp(n, d, m, dtype, "diagonal"),
    "svgp-standard": lambda n, d, m, dtype: svgp_tightgp(n, d, m, dtype, "standard"),
    "svgp-gpytorch": svgp_gpytorch,
}

if __name__ == "__main__":
    name, *sizes = sys.argv[1:]
    print(json.dumps(WORKERS[name](*(int(s) if s.isdigit() else s for s in sizes))))
