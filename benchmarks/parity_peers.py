"""The cases of `benchmarks.parity` by GPflow and GPyTorch: ``python parity_peers.py CASES ANSWERS``.

It runs in the peers' environment, without tightgp, in float64 without jitter. A case names its parameters as tightgp
does; here they become the peers' own. Where a peer's density differs a little from its name, on purpose or by
approximation, that is removed, so that both sides compute the same function. The unchanged value is given too.
"""

import json
import math
import sys
from importlib.metadata import version
from unittest import mock

import numpy as np

#: Gauss–Hermite nodes where a peer's 20 do not resolve a density.
NODES = 200


def arrays(case: dict) -> dict:
    """The lists of a case as arrays."""
    numbers = ("X", "y", "Xnew", "Z", "q_mean", "q_root", "mixing", "draws")
    return case | {key: np.asarray(case[key], float) for key in numbers if case[key] is not None}


# --- GPflow ---------------------------------------------------------------------------------------------------------


def gpflow_kernel(spec):
    import gpflow

    return getattr(gpflow.kernels, spec["kind"])(spec["variance"], np.asarray(spec["lengthscale"]))


def gpflow_likelihood(kind, options, as_it_is):
    """GPflow's likelihood of this name; ``as_it_is`` keeps the small numbers that it adds to probabilities."""
    import gpflow
    import tensorflow as tf

    module = gpflow.likelihoods.scalar_discrete

    def probit(f):
        f = tf.clip_by_value(f, -38.0, 38.0)  # TensorFlow's erf(inf) is NaN
        return guarded_probit(f) if as_it_is else 0.5 * tf.math.erfc(-f / math.sqrt(2))

    guarded_probit = module.inv_probit

    class Ordinal(module.Ordinal):
        def _scalar_log_prob(self, X, F, Y):
            with mock.patch.object(module, "inv_probit", probit):
                value = super()._scalar_log_prob(X, F, Y)
            return value if as_it_is else tf.math.log(tf.exp(value) - 1e-6)

    make = gpflow.likelihoods
    if kind == "Gaussian":
        return make.Gaussian(np.asarray(options["noise_variance"]))
    if kind == "HeteroscedasticGaussian":
        return make.HeteroskedasticTFPConditional(scale_transform=lambda g: tf.exp(0.5 * g))
    if kind == "Bernoulli" and options["link"] == "logit":
        return make.Bernoulli(tf.sigmoid)
    if kind == "Bernoulli":
        return make.Bernoulli() if as_it_is else make.Bernoulli(probit)
    if kind == "StudentT":
        student = make.StudentT(scale=options["scale"], df=options["df"])
        student.quadrature = gpflow.quadrature.NDiagGHQuadrature(1, 20 if as_it_is else NODES)
        return student
    if kind == "Beta":
        return make.Beta(invlink=tf.sigmoid, scale=options["precision"])
    if kind == "Gamma":
        return make.Gamma(shape=options["shape"])
    if kind == "Ordinal":
        ordinal = Ordinal(np.asarray(options["edges"]))
        ordinal.sigma.assign(options["scale"])
        return ordinal
    if kind == "RobustMax":
        link = make.RobustMax(options["num_classes"], options["epsilon"])
        link._squash = link._squash if as_it_is else 0.0
        return make.MultiClass(options["num_classes"], link)
    return getattr(make, kind)(**options)


def gpflow_model(case, as_it_is=False):
    import gpflow

    kernels, Z = [gpflow_kernel(k) for k in case["kernels"]], case["Z"]
    options = dict(case["likelihood"])
    kind = options.pop("kind")
    kernel, inducing = kernels[0], gpflow.inducing_variables.InducingPoints(Z[0])
    if len(kernels) > 1:
        sets = [gpflow.inducing_variables.InducingPoints(z) for z in Z]
        inducing = gpflow.inducing_variables.SeparateIndependentInducingVariables(sets)
        kernel = gpflow.kernels.SeparateIndependent(kernels)
        if case["mixing"] is not None:
            kernel = gpflow.kernels.LinearCoregionalization(kernels, W=case["mixing"])
    # f is the log of the mean in tightgp and that of the scale in GPflow.
    level = case["mean"] - (math.log(options["shape"]) if kind == "Gamma" else 0.0)
    root = case["q_root"]
    return gpflow.models.SVGP(
        kernel,
        gpflow_likelihood(kind, options, as_it_is),
        inducing,
        mean_function=gpflow.functions.Constant([level]),
        num_latent_gps=case["q_mean"].shape[1],
        q_mu=case["q_mean"],
        q_sqrt=root.T if root.ndim == 2 else root,
        q_diag=root.ndim == 2,
        whiten=case["whiten"],
        num_data=case["num_data"],
    )


def gpflow(case: dict) -> dict:
    """A case by GPflow's SVGP."""
    model = gpflow_model(case)
    X, y = case["X"], case["y"].reshape(len(case["X"]), -1)
    if case["likelihood"]["kind"] in ("Softmax", "RobustMax"):
        y = y.astype(np.int64)
    if case["draws"] is not None:
        mean, var = model.predict_f(X)
        model.likelihood.num_monte_carlo_points = len(case["draws"])
        expected = model.likelihood._variational_expectations(X, mean, var, y, epsilon=case["draws"])
        return {"elbo": float(np.sum(expected) - model.prior_kl())}
    out = {"elbo": float(model.elbo((X, y)))}
    if case["departs"]:
        out["elbo, as it is"] = float(gpflow_model(case, as_it_is=True).elbo((X, y)))
    if case["predict"]:
        mean, var = model.predict_f(case["Xnew"])
        out |= {"mean of f": mean.numpy().ravel().tolist(), "variance of f": var.numpy().ravel().tolist()}
    return out


def gpflow_sgpr(case: dict) -> dict:
    """A case by GPflow's SGPR."""
    import gpflow

    kernel, noise = gpflow_kernel(case["kernels"][0]), case["likelihood"]["noise_variance"]
    data = (case["X"], case["y"].reshape(len(case["X"]), -1))
    model = gpflow.models.SGPR(data, kernel, case["Z"][0], noise_variance=noise)
    mean, var = model.predict_f(case["Xnew"])
    return {
        "elbo": float(model.elbo()),
        "upper bound": float(model.upper_bound()),
        "mean of f": mean.numpy().ravel().tolist(),
        "variance of f": var.numpy().ravel().tolist(),
    }


# --- GPyTorch -------------------------------------------------------------------------------------------------------


def gpytorch_kernel(specs, batch):
    """One kernel for each function of the batch."""
    import gpytorch
    import torch

    lengthscale = torch.as_tensor(np.stack([s["lengthscale"] for s in specs]))
    smoothness = {"Matern32": 1.5, "Matern52": 2.5}.get(specs[0]["kind"])
    options = {"ard_num_dims": lengthscale.shape[-1], "batch_shape": batch}
    if smoothness:
        base = gpytorch.kernels.MaternKernel(nu=smoothness, **options)
    else:
        base = gpytorch.kernels.RBFKernel(**options)
    kernel = gpytorch.kernels.ScaleKernel(base, batch_shape=batch)
    base.lengthscale = lengthscale[:, None, :] if batch else lengthscale
    kernel.outputscale = torch.as_tensor([s["variance"] for s in specs]).reshape(batch)
    return kernel


def gpytorch_likelihood(kind, options):
    import gpytorch
    import torch

    make = gpytorch.likelihoods
    if kind == "Gaussian":
        noise = torch.as_tensor(options["noise_variance"])
        if noise.ndim:
            likelihood = make.MultitaskGaussianLikelihood(len(noise), has_global_noise=False)
            likelihood.task_noises = noise
        else:
            likelihood = make.GaussianLikelihood()
            likelihood.noise = noise
    elif kind == "StudentT":
        likelihood = make.StudentTLikelihood()
        likelihood.deg_free, likelihood.noise = options["df"], options["scale"] ** 2
    elif kind == "Softmax":
        likelihood = make.SoftmaxLikelihood(num_classes=options["num_classes"], mixing_weights=None)
    else:
        likelihood = make.BernoulliLikelihood()
    return likelihood


def gpytorch_model(case):
    import gpytorch
    import torch

    count, root = case["q_mean"].shape[1], case["q_root"]
    batch = torch.Size([count]) if count > 1 else torch.Size([])
    specs = case["kernels"] if len(case["kernels"]) == count else case["kernels"] * count
    Z = torch.as_tensor(np.broadcast_to(case["Z"], (count, *case["Z"].shape[1:])).copy())
    family = "MeanFieldVariationalDistribution" if root.ndim == 2 else "CholeskyVariationalDistribution"
    strategy = "VariationalStrategy" if case["whiten"] else "UnwhitenedVariationalStrategy"

    class Model(gpytorch.models.ApproximateGP):
        def __init__(self):
            q = getattr(gpytorch.variational, family)(Z.shape[-2], batch_shape=batch)
            base = getattr(gpytorch.variational, strategy)(self, Z if batch else Z[0], q, jitter_val=0.0)
            outer = base
            if case["mixing"] is not None:
                size = {"num_tasks": len(case["mixing"]), "num_latents": count}
                outer = gpytorch.variational.LMCVariationalStrategy(base, **size, jitter_val=0.0)
                outer.lmc_coefficients.data = torch.as_tensor(case["mixing"].T.copy())
            elif batch:
                outer = gpytorch.variational.IndependentMultitaskVariationalStrategy(base, num_tasks=count)
            super().__init__(outer)
            base.variational_params_initialized.fill_(1)
            q.variational_mean.data = torch.as_tensor(case["q_mean"].T.copy()).reshape(*batch, -1)
            target = q._variational_stddev if root.ndim == 2 else q.chol_variational_covar
            target.data = torch.as_tensor(root if batch else root[0])
            self.mean_module = gpytorch.means.ConstantMean(batch_shape=batch)
            self.mean_module.constant.data.fill_(case["mean"])
            self.covar_module = gpytorch_kernel(specs, batch)

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    return Model()


def gpytorch(case: dict) -> dict:
    """A case by GPyTorch's ApproximateGP."""
    import gpytorch
    import torch
    from gpytorch.utils.quadrature import GaussHermiteQuadrature1D

    options = dict(case["likelihood"])
    likelihood, model = gpytorch_likelihood(options.pop("kind"), options), gpytorch_model(case)
    X, y = torch.as_tensor(case["X"]), torch.as_tensor(case["y"])
    model.train()
    q = model(X)
    if case["draws"] is not None:
        F = q.mean + q.variance.sqrt() * torch.as_tensor(case["draws"])
        expected = likelihood.forward(F).log_prob(y).mean(0).sum()
        return {"elbo": float(expected - model.variational_strategy.kl_divergence())}
    count = case["num_data"] or len(X)
    objective = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=count)
    student, twenty = case["likelihood"]["kind"] == "StudentT", getattr(likelihood, "quadrature", None)
    if student:
        likelihood.quadrature = GaussHermiteQuadrature1D(NODES)
    with mock.patch.object(gpytorch.likelihoods.bernoulli_likelihood, "log_normal_cdf", torch.special.log_ndtr):
        out = {"elbo": float(count * objective(q, y))}
    if student:
        likelihood.quadrature = twenty
    if case["departs"]:
        out["elbo, as it is"] = float(count * objective(q, y))
    if case["predict"]:
        model.eval()
        q = model(torch.as_tensor(case["Xnew"]))
        out |= {"mean of f": q.mean.ravel().tolist(), "variance of f": q.variance.ravel().tolist()}
    return out


def gpytorch_sgpr(case: dict) -> dict:
    """A case by GPyTorch's InducingPointKernel. Its predictions are not those of the bound's q(u)."""
    import gpytorch
    import torch

    X, y = torch.as_tensor(case["X"]), torch.as_tensor(case["y"])
    likelihood = gpytorch_likelihood("Gaussian", {"noise_variance": case["likelihood"]["noise_variance"]})
    kernel = gpytorch_kernel(case["kernels"], torch.Size([]))

    class Model(gpytorch.models.ExactGP):
        def __init__(self):
            super().__init__(X, y, likelihood)
            self.mean_module = gpytorch.means.ZeroMean()
            Z = torch.as_tensor(case["Z"][0])
            self.covar_module = gpytorch.kernels.InducingPointKernel(kernel, Z, likelihood)

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    model = Model().train()
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    return {"elbo": float(len(X) * objective(model(X), y))}


PEERS = {"gpflow": (gpflow, gpflow_sgpr), "gpytorch": (gpytorch, gpytorch_sgpr)}


def main(source: str, target: str) -> None:
    import gpflow
    import torch

    gpflow.config.set_default_jitter(0.0)
    torch.set_default_dtype(torch.float64)
    answers = {}
    with open(source) as file:
        cases = json.load(file)
    for case in map(arrays, cases):
        for peer in case["peers"]:
            answers.setdefault(case["name"], {})[peer] = PEERS[peer][case["model"] == "SGPR"](case)
    with open(target, "w") as file:
        json.dump({"versions": {name: version(name) for name in PEERS}, "answers": answers}, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
