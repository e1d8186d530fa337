"""How `BayesianGPLVM` is trained: which way, from where, and whether that came to rest."""

import math
import warnings
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from tightgp.conditionals import Conditional
from tightgp.data import Dataset
from tightgp.estimators.choice import BATCH_STEPS, Plan
from tightgp.estimators.growth import INTERRUPTED
from tightgp.estimators.recipes import REST, Decay
from tightgp.estimators.settings import KERNELS, Settings
from tightgp.kernels import Kernel
from tightgp.likelihoods import Gaussian
from tightgp.models import GPLVM, SGPR, SVGP
from tightgp.parameters import log_prior
from tightgp.placing import nearest
from tightgp.training import FitResult, fit

METHODS = ("collapsed", "full", "minibatch")
#: Rows × inducing points² up to which every evaluation sees all rows: about a third of a second on two cores.
MOST_WORK = 5e7
#: The same with an explicit q(u), whose steps take longer, and memory for all rows at once.
MOST_FULL_WORK = 1e7
#: Iterations of L-BFGS at most, and steps on all rows, where ``max_iter`` is None.
LBFGS_STEPS = 1000
FULL_STEPS = 1000
#: Learning rates of Adam on all rows, and on minibatches.
RATES = {"full": 0.4, "minibatch": 0.03}
#: Of many rows so many are trained first, or as many times the inducing points, by so many steps; all begin from there.
FIRST_ROWS, FIRST_SHARE, FIRST_STEPS = 500, 5, 500
#: L-BFGS stops where a step's relative gain falls under this: the way along latent inputs is flat and long.
TOLERANCE = 1e-7
#: Rows of which the bound is taken at a time, after minibatches.
_PART = 1024


class Training(NamedTuple):
    """What decides how a model is trained."""

    plan: Plan
    settings: Settings
    kernel: Kernel | str | None
    bound: str | Conditional
    rate: float | None

    def start(self, data: Dataset, size: int) -> GPLVM:
        """By principal components; of all rows, or of some that are trained first."""
        collapsed, seed = self.plan.method == "collapsed", self.settings.seed
        count = first_rows(data.num_data, size, self.plan.method)
        if not count:
            return components(data, size, self.kernel, self.bound, collapsed, seed)
        rows = np.random.default_rng(seed).permutation(data.num_data)[:count]
        few = data.take(rows)
        first = components(few, size, self.kernel, self.bound, False, seed)
        # Adam's large steps get past principal components, where L-BFGS stays: it uses fewer latent inputs.
        early = Plan("full", min(FIRST_STEPS, self.plan.steps), 1, "")
        result = self._replace(plan=early).run(first, few, 1, "first")
        if result.message == INTERRUPTED:
            raise KeyboardInterrupt
        return spread_out(result.model, few, rows, data, collapsed)

    def run(self, model: GPLVM, data: Dataset, starts: int, file: str = "fit") -> FitResult:
        """Train ``model``, and ``starts`` − 1 others drawn at random."""
        plan, settings, size = self.plan, self.settings, len(model.model.Z)
        how: dict[str, Any] = {"seed": settings.seed, "progress": settings.verbose > 0, **settings.file(size)}
        if "checkpoint" in how:
            how["checkpoint"] = how["checkpoint"].with_name(f"{file}-{size}.safetensors")
        if plan.method == "collapsed":
            return fit(model, data, "lbfgs", steps=plan.amount, tolerance=TOLERANCE, restarts=starts - 1, **how)
        rate = RATES[plan.method] if self.rate is None else self.rate
        how |= {"learning_rate": Decay(rate, plan.steps), "tolerance": REST}
        if plan.method == "full":
            return fit(model, data, "natural", steps=plan.amount, restarts=starts - 1, **how)
        return fit(model, data, "natural", epochs=plan.amount, batch_size=settings.batch_size, **how)


def components(data: Dataset, size: int, kernel, bound, collapsed: bool, seed: int) -> GPLVM:
    """The start by principal components."""

    def start(kernel):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # fewer inducing points, where fewer rows differ in their components
            how: dict[str, Any] = {"bound": bound, "collapsed": collapsed, "seed": seed}
            return GPLVM.start(data.y, data.num_inputs, size, kernel=kernel, **how)

    if not isinstance(kernel, str):
        return start(kernel)
    usual: Any = start(None).model.kernel
    return start(KERNELS[kernel](usual.variance, usual.lengthscale))


def plan_of(settings: Settings, rows: int, size: int, gaps: int) -> Plan:
    """The collapsed bound where it is affordable and no cell is missing; else natural gradients."""
    work, method, most = rows * size**2, settings.method, MOST_FULL_WORK if gaps else MOST_WORK
    small = work <= most
    compared = f"is {'at most' if small else 'more than'} {most / 1e6:g} million"
    why = f"{rows} rows × {size}² inducing points = {work / 1e6:.2g} million {compared}"
    if gaps:
        why += f", and {gaps} cell{'s are' if gaps > 1 else ' is'} missing, which the collapsed bound does not allow"
    if method == "auto":
        method = "minibatch" if not small else "full" if gaps else "collapsed"
    else:
        why = f"asked for by method={method!r}"
    if method == "collapsed":
        amount = settings.max_iter or LBFGS_STEPS
        return Plan(method, amount, 1, f"Collapsed bound by at most {amount} iterations of L-BFGS: {why}.")
    if method == "full":
        amount = settings.max_iter or FULL_STEPS
        return Plan(method, amount, 1, f"Natural gradients and Adam, {amount} steps on all rows: {why}.")
    batches = math.ceil(rows / settings.batch_size)
    amount = settings.max_iter or math.ceil(BATCH_STEPS / batches)
    how = f"{amount} pass{'es' if amount > 1 else ''} through minibatches of at most {settings.batch_size} rows"
    return Plan(method, amount, batches, f"Natural gradients and Adam, {how} ({amount * batches} steps): {why}.")


def first_rows(rows: int, size: int, method: str) -> int:
    """How many rows are trained first; none where that would save little."""
    count = min(rows, max(FIRST_ROWS, FIRST_SHARE * size))
    return count if method == "minibatch" or 2 * count <= rows else 0


def spread_out(model: GPLVM, few: Dataset, rows: np.ndarray, data: Dataset, collapsed: bool) -> GPLVM:
    """A start of all rows, from a ``model`` of some of them: others begin at that of these which is nearest."""
    posterior = model.posterior(few).without_rows()
    near = nearest(np.asarray(posterior.predict_y(model.inputs.mean)[0]), np.asarray(data.y), 1)[:, 0]
    near[rows] = np.arange(len(rows))
    inputs, noise = model.inputs.take(near), float(posterior.noise_variance)
    old: Any = model.model
    if collapsed:
        return GPLVM(SGPR(old.kernel, old.Z, noise, old.bound), inputs.mean, inputs.variance)
    new: Any = SVGP(old.kernel, Gaussian(noise), old.Z, old.bound, num_latents=data.num_outputs)
    q: Any = posterior.latents[0].q[0]
    root = jnp.broadcast_to(q.root, new.q.root.shape)
    new = eqx.tree_at(lambda s: (s.q._mean.raw, s.q._root.raw), new, (q.mean, root))
    return GPLVM(new, inputs.mean, inputs.variance)


def bound_of(result: FitResult, data: Dataset, plan: Plan) -> float:
    """The bound on all rows, in total nats, without the parameters' priors."""
    if plan.method != "minibatch":
        return result.objective - float(log_prior(result.model))
    total, n = 0.0, data.num_data
    for start in range(0, n, _PART):
        rows = slice(start, min(start + _PART, n))
        # Each part's bound stands for all rows, so that their mean over rows is the bound on all of them.
        total += float(result.model.elbo(data, rows=rows)) * (rows.stop - start) / n
    return total


def settled(result: FitResult, rows: int, plan: Plan) -> bool:
    """Whether training came to rest: with minibatches, where their last tenth gained little."""
    objective = result.trace["objective"]
    if plan.method != "minibatch" or len(objective) < plan.amount:
        return bool(result.converged)
    last = objective[-max(len(objective) // 10, 2) :]
    return len(last) > 1 and bool(abs(last[-1] - last[0]) < 1e-3 * rows)


def by_relevance(model: GPLVM) -> GPLVM:
    """The same model with its latent inputs in another order: the most relevant first."""
    order = np.argsort(-np.asarray(model.relevance), kind="stable")

    def parts(m: Any):
        return m.inputs._mean.raw, m.inputs._variance.raw, m.model._Z.raw, m.model.kernel._lengthscale.raw

    return eqx.tree_at(parts, model, tuple(part[..., order] for part in parts(model)))
