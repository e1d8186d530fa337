"""Train a GP-LVM for `BayesianGPLVM`: which method, from which start, and with which result."""

import warnings
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tightgp.bounds import psi
from tightgp.bounds.structures import Structure
from tightgp.data import Dataset
from tightgp.estimators import plan as plans
from tightgp.estimators.plan import Plan
from tightgp.estimators.recipes import REST, Decay
from tightgp.estimators.settings import KERNELS, Settings
from tightgp.kernels import Kernel
from tightgp.likelihoods import Gaussian
from tightgp.models import GPLVM, SGPR, SVGP
from tightgp.parameters import assign, log_prior, named_parameters
from tightgp.placing import nearest
from tightgp.training import FitResult, fit

METHODS = ("collapsed", "full", "minibatch")
#: Rows × inducing points² up to which the collapsed bound sees all rows: about a third of a second on two cores.
MOST_WORK = 5e7
#: The same with an explicit q(u), whose steps take longer, and memory for all rows at once.
MOST_FULL_WORK = 1e7
#: Iterations of L-BFGS at most, and steps on all rows, if ``max_iter`` is None.
LBFGS_STEPS = 1000
FULL_STEPS = 1000
#: Learning rates of Adam on all rows, and on minibatches.
RATES = {"full": 0.4, "minibatch": 0.03}
#: Large tables start from a model of some of their rows: at least so many rows, and so many for each inducing point.
FIRST_ROWS, FIRST_ROWS_PER_POINT = 500, 5
#: Steps of that first training.
FIRST_STEPS = 500
#: L-BFGS stops where a step's relative gain is below this: along latent inputs the bound is flat.
TOLERANCE = 1e-7
#: Rows of which the bound is computed at a time, after minibatches.
_BOUND_ROWS = 1024


def check_kernel(kernel: Kernel | str | None, n_components: int) -> None:
    """Refuse a kernel without closed form or quadrature over so many latent inputs."""
    if kernel is None:
        return
    start = kernel if isinstance(kernel, Kernel) else KERNELS[kernel](lengthscale=np.ones(n_components))
    try:
        jax.eval_shape(start, jnp.zeros((1, n_components)))
        psi.check(start, n_components, n_components)
    except ValueError as error:
        raise ValueError(f"kernel does not go with n_components={n_components} latent inputs: {error}") from None


def plan_training(settings: Settings, rows: int, size: int, missing: int) -> Plan:
    """The collapsed bound if it is affordable and no cell is missing, else natural gradients."""
    work, most = rows * size**2, MOST_FULL_WORK if missing else MOST_WORK
    small = work <= most
    why = f"{rows} rows × {size}² inducing points = {work / 1e6:.2g} million is "
    why += f"{'at most' if small else 'more than'} {most / 1e6:g} million"
    if missing:
        cells = "cells are" if missing > 1 else "cell is"
        why += f", and {missing} {cells} missing, which the collapsed bound does not allow"
    method = settings.method
    if method == "auto":
        method = "minibatch" if not small else "full" if missing else "collapsed"
    if method == "minibatch":
        return plans.minibatch(settings, rows, why)
    return plans.full(settings, FULL_STEPS, why) if method == "full" else plans.collapsed(settings, LBFGS_STEPS, why)


def num_first_rows(rows: int, size: int, method: str) -> int:
    """How many rows are trained first; 0 if that would save little."""
    count = min(rows, max(FIRST_ROWS, FIRST_ROWS_PER_POINT * size))
    return count if method == "minibatch" or 2 * count <= rows else 0


@dataclass(frozen=True)
class Training:
    """How a GP-LVM is started and trained. ``rate`` is Adam's learning rate; None is that of the method."""

    plan: Plan
    settings: Settings
    kernel: Kernel | str | None
    bound: str | Structure
    rate: float | None

    def run(self, data: Dataset, size: int, num_starts: int) -> FitResult:
        """Train from a start by principal components, and from ``num_starts`` − 1 random ones."""
        collapsed = self.plan.method == "collapsed"
        count = num_first_rows(data.num_data, size, self.plan.method)
        if not count:
            return self._train(self._start(data, size, collapsed), data, num_starts)
        rows = np.random.default_rng(self.settings.seed).permutation(data.num_data)[:count]
        first_data = data.take(rows)
        # Adam's large steps leave the principal components, where L-BFGS stays: it would use fewer latent inputs.
        first = replace(self, plan=Plan("full", min(FIRST_STEPS, self.plan.steps), 1, ""))
        result = first._train(first._start(first_data, size, False), first_data, 1, "first")
        if result.interrupted:
            raise KeyboardInterrupt
        return self._train(extend(result.model, first_data, rows, data, collapsed), data, num_starts)

    def _start(self, data: Dataset, size: int, collapsed: bool) -> GPLVM:
        """A model whose latent inputs are the principal components of ``data``."""

        def start(kernel):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # fewer inducing points if fewer rows differ in their components
                options: dict[str, Any] = {"bound": self.bound, "collapsed": collapsed, "seed": self.settings.seed}
                return GPLVM.start(data.y, data.num_inputs, size, kernel=kernel, **options)

        if not isinstance(self.kernel, str):
            return start(self.kernel)
        default: Any = start(None).model.kernel
        return start(KERNELS[self.kernel](default.variance, default.lengthscale))

    def _train(self, model: GPLVM, data: Dataset, num_starts: int, name: str = "fit") -> FitResult:
        plan, settings, size = self.plan, self.settings, len(model.model.Z)
        options: dict[str, Any] = {"seed": settings.seed, "progress": settings.verbose > 0, **settings.file(size)}
        if "checkpoint" in options:
            options["checkpoint"] = options["checkpoint"].with_name(f"{name}-{size}.safetensors")
        if plan.method == "minibatch":
            options |= {"epochs": plan.amount, "batch_size": settings.batch_size}
        else:
            options |= {"steps": plan.amount, "restarts": num_starts - 1}
        if plan.method == "collapsed":
            return fit(model, data, "lbfgs", tolerance=TOLERANCE, **options)
        rate = Decay(self.rate or RATES[plan.method], plan.steps)
        return fit(model, data, "natural", learning_rate=rate, tolerance=REST, **options)


def extend(model: GPLVM, first: Dataset, rows: np.ndarray, data: Dataset, collapsed: bool) -> GPLVM:
    """A model of all ``data`` from one of the ``first`` data, which are its ``rows``.

    Every other row gets the latent inputs of the first row whose outputs are nearest.
    """
    posterior = model.posterior(first).without_rows()
    near = nearest(np.asarray(posterior.predict_y(model.inputs.mean)[0]), np.asarray(data.y), 1)[:, 0]
    near[rows] = np.arange(len(rows))
    inputs, noise = model.inputs.take(near), float(posterior.noise_variance)
    old: Any = model.model
    new: Any = SGPR(old.kernel, old.Z, noise, old.bound)
    if not collapsed:
        new = SVGP(old.kernel, Gaussian(noise), old.Z, old.bound, num_latents=data.num_outputs)
        q: Any = posterior.latents[0].q[0]
        new = assign(new, {"q.mean": q.mean, "q.root": jnp.broadcast_to(q.root, new.q.root.shape)})
    return GPLVM(new, inputs.mean, inputs.variance)


def bound_on_all_rows(result: FitResult, data: Dataset, plan: Plan) -> float:
    """The bound in total nats, without the parameters' priors."""
    if plan.method != "minibatch":
        return result.objective - float(log_prior(result.model))
    total, n = 0.0, data.num_data
    for start in range(0, n, _BOUND_ROWS):
        rows = slice(start, min(start + _BOUND_ROWS, n))
        # Each part estimates the bound on all rows; their mean, weighted by their rows, is that bound.
        total += float(result.model.elbo(data, rows=rows)) * (rows.stop - start) / n
    return total


def has_converged(result: FitResult, rows: int, plan: Plan) -> bool:
    """Whether training converged: with minibatches, whether their last tenth gained little."""
    objective = result.trace["objective"]
    if plan.method != "minibatch" or len(objective) < plan.amount:
        return bool(result.converged)
    last = objective[-max(len(objective) // 10, 2) :]
    return len(last) > 1 and bool(abs(last[-1] - last[0]) < 1e-3 * rows)


def order_by_relevance(model: GPLVM) -> GPLVM:
    """The same model with its latent inputs in another order: the most relevant first."""
    order = np.argsort(-np.asarray(model.relevance), kind="stable")
    parameters = named_parameters(model)
    names = ("inputs.mean", "inputs.variance", "model.Z", "model.kernel.lengthscale")
    return assign(model, {name: parameters[name].value[..., order] for name in names})
