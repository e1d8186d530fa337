"""Time GPyTorch's SVGP under the paper's protocol, on the device that JAX sees.

Its whitened strategy, Matérn-3/2 with one lengthscale, Adam at 0.01, batches of 1024, 100 epochs, in float32 as its
users run it. It trains to the end on the smallest set; elsewhere some steps are timed and extrapolated, without scores.
"""

import time

import numpy as np

from experiments.reproduction import paper
from experiments.reproduction.rows import Parts
from experiments.reproduction.store import Record
from experiments.reproduction.work import NotInstalled, Unfinished, Work

#: Most rows for training to the end; elsewhere, steps that are timed, and steps before them that are not.
_MOST_ROWS, _TIMED, _BEFORE = 26_000, 200, 20


def train(parts: Parts, Z: np.ndarray, work: Work) -> Record:
    if work.rehearsal:
        return {}  # it compiles nothing
    try:
        import gpytorch
        import torch
    except ImportError as missing:
        raise NotInstalled(f"it needs GPyTorch in this environment ({missing}): pip install gpytorch") from None
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)

    class Model(gpytorch.models.ApproximateGP):
        def __init__(self, Z):
            distribution = gpytorch.variational.CholeskyVariationalDistribution(len(Z))
            strategy = gpytorch.variational.VariationalStrategy(self, Z, distribution, learn_inducing_locations=True)
            super().__init__(strategy)
            self.mean_module = gpytorch.means.ZeroMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(nu=1.5))

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    def tensor(array):
        return torch.tensor(np.asarray(array), dtype=torch.float32, device=device)

    def now() -> float:
        if device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    X, y = tensor(parts.train.X), tensor(parts.train.y)
    model, likelihood = Model(tensor(Z)).to(device), gpytorch.likelihoods.GaussianLikelihood().to(device)
    model.covar_module.outputscale, model.covar_module.base_kernel.lengthscale = paper.VARIANCE, paper.LENGTHSCALE
    likelihood.noise = paper.NOISE_VARIANCE
    objective = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(y))
    optimiser = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=paper.LEARNING_RATE)
    epochs, batch = (3, 128) if work.quick else (paper.EPOCHS, paper.BATCH)
    steps = epochs * -(-len(y) // batch)
    whole = len(y) <= _MOST_ROWS
    before = min(_BEFORE, steps // 2)
    last, taken, began = steps if whole else before + _TIMED, 0, now()
    while taken < last:
        for index in torch.randperm(len(y), device=device).split(batch)[: last - taken]:
            began = now() if taken == before else began
            optimiser.zero_grad()
            loss = -objective(model(X[index]), y[index])
            loss.backward()
            optimiser.step()
            taken += 1
        if time.time() > work.deadline:
            raise Unfinished
    pace = (now() - began) / (last - before)
    versions = {"gpytorch": gpytorch.__version__, "torch": torch.__version__, "torch_device": device}
    record: Record = {"extrapolated": not whole, "steps": steps, "scores": [], "versions": versions}
    record["seconds"] = pace * steps
    if not whole:
        return record | {"summary": f"{1000 * pace:.3g} ms for each of {steps} steps"}
    model.eval()
    likelihood.eval()
    density, squared = [], []
    with torch.no_grad():
        for index in np.array_split(np.arange(parts.test.num_data), max(1, parts.test.num_data // 4096)):
            target, seen = (
                tensor(np.asarray(parts.test.y)[index]),
                likelihood(model(tensor(np.asarray(parts.test.X)[index]))),
            )
            density.append(torch.distributions.Normal(seen.mean, seen.variance.sqrt()).log_prob(target).cpu().numpy())
            squared.append(((seen.mean - target) ** 2).cpu().numpy())
    score = {"neighbours": None, "log_density": float(np.mean(np.concatenate(density)))}
    score["rmse"] = float(np.sqrt(np.mean(np.concatenate(squared))))
    return record | {"scores": [score], "summary": f"test log density {score['log_density']:.3f}; {pace * steps:.1f} s"}
