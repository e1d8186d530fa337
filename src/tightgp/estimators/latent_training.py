"""Train a GP-LVM for `BayesianGPLVM`: by which method, and from which start."""

import warnings
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tightgp.bounds import psi
from tightgp.bounds.structures import Structure
from tightgp.data import Dataset
from tightgp.estimators import plan as plans
from tightgp.estimators.plan import Plan
from tightgp.estimators.recipes import fit_natural
from tightgp.estimators.settings import KERNELS, Settings
from tightgp.kernels import Kernel
from tightgp.likelihoods import Gaussian
from tightgp.models import GPLVM, SGPR, SVGP
from tightgp.parameters import assign, named_parameters
from tightgp.placing import nearest
from tightgp.training import FitResult, fit

METHODS = ("collapsed", "full", "minibatch")
#: Most rows × inducing points² for the collapsed bound on all rows: about a third of a second on two cores.
MOST_WORK = 5e7
#: The same for an explicit q(u), whose steps take longer and need memory for all rows at once.
MOST_FULL_WORK = 1e7
#: Iterations of L-BFGS, or steps on all rows, if ``max_iter`` is None.
MOST_STEPS = 1000
#: Learning rates of Adam on all rows, and on minibatches.
RATES = {"full": 0.4, "minibatch": 0.03}
#: Large tables start from a model of some of their rows: at least this many, and this many for each inducing point.
FIRST_ROWS, FIRST_ROWS_PER_POINT = 500, 5
#: Steps of that first training.
FIRST_STEPS = 500
#: L-BFGS stops where a step's relative gain is below this. It is low, because the bound is flat along latent inputs.
TOLERANCE = 1e-7


def check_kernel(kernel: Kernel | str | None, n_components: int) -> None:
    """Check that a kernel has expectations over Gaussian latent inputs, in closed form or by quadrature."""
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
    small = rows * size**2 <= (MOST_FULL_WORK if missing else MOST_WORK)
    why = f"a pass over {rows} rows with {size} inducing points is {'quick' if small else 'slow'}"
    if missing:
        why += f", and the collapsed bound needs every cell ({missing} missing)"
    best = "minibatch" if not small else "full" if missing else "collapsed"
    return plans.choose(settings, best, MOST_STEPS, rows, why)


def num_first_rows(rows: int, size: int, method: str) -> int:
    """How many rows to train on first; 0 if that would save little."""
    count = min(rows, max(FIRST_ROWS, FIRST_ROWS_PER_POINT * size))
    return count if method == "minibatch" or 2 * count <= rows else 0


@dataclass(frozen=True)
class LatentRecipe:
    """How a GP-LVM is started and trained. ``rate`` is Adam's learning rate; None is that of the method."""

    plan: Plan
    settings: Settings
    kernel: Kernel | str | None
    bound: str | Structure
    rate: float | None

    def train(self, data: Dataset, size: int, num_starts: int) -> FitResult:
        """Train from a start by principal components, and from ``num_starts`` − 1 random ones."""
        collapsed = self.plan.method == "collapsed"
        count = num_first_rows(data.num_data, size, self.plan.method)
        if not count:
            return self._fit(self.start(data, size, collapsed), data, num_starts)
        rows = np.random.default_rng(self.settings.seed).permutation(data.num_data)[:count]
        first_data = data.take(rows)
        # Adam, because its large steps leave the principal components; L-BFGS stays and uses fewer latent inputs.
        first = replace(self, plan=Plan("full", min(FIRST_STEPS, self.plan.steps), 1, ""))
        result = first._fit(first.start(first_data, size, collapsed=False), first_data, 1, "first")
        if result.interrupted:
            raise KeyboardInterrupt
        return self._fit(extend(result.model, first_data, rows, data, collapsed), data, num_starts)

    def start(self, data: Dataset, size: int, collapsed: bool) -> GPLVM:
        """A model whose latent inputs are the principal components of ``data``."""
        own = self.kernel if isinstance(self.kernel, Kernel) else None
        options: dict[str, Any] = {"bound": self.bound, "collapsed": collapsed, "seed": self.settings.seed}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # fewer inducing points if fewer rows differ in their components
            model = GPLVM.start(data.y, data.num_inputs, size, kernel=own, **options)
        if not isinstance(self.kernel, str):
            return model
        default: Any = model.model.kernel
        named = KERNELS[self.kernel](default.variance, default.lengthscale)
        return eqx.tree_at(lambda m: m.model.kernel, model, named)

    def _fit(self, model: GPLVM, data: Dataset, num_starts: int, name: str = "fit") -> FitResult:
        plan, options = self.plan, self.settings.fit_options(len(model.model.Z), name)
        if plan.method != "minibatch":
            options["restarts"] = num_starts - 1
        if plan.method == "collapsed":
            return fit(model, data, "lbfgs", steps=plan.amount, tolerance=TOLERANCE, **options)
        return fit_natural(model, data, plan, self.settings.batch_size, self.rate or RATES[plan.method], **options)


def extend(model: GPLVM, first: Dataset, rows: np.ndarray, data: Dataset, collapsed: bool) -> GPLVM:
    """Extend a model of the ``first`` data, which are ``rows`` of ``data``, to a model of all ``data``.

    Every other row gets the latent inputs of that first row whose predicted outputs are nearest.
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


def order_by_relevance(model: GPLVM) -> GPLVM:
    """The same model with its latent inputs in order of relevance, the most relevant first."""
    order = np.argsort(-np.asarray(model.relevance), kind="stable")
    parameters = named_parameters(model)
    names = ("inputs.mean", "inputs.variance", "model.Z", "model.kernel.lengthscale")
    return assign(model, {name: parameters[name].value[..., order] for name in names})
