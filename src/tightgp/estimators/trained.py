"""A trained model with its posterior, and training it further on the same rows with other noise."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tightgp.data.dataset import Dataset
from tightgp.estimators.exact import Exact
from tightgp.estimators.growth import Grown, grow
from tightgp.estimators.plan import Plan
from tightgp.estimators.recipes import Collapsed, Recipe
from tightgp.estimators.settings import Settings
from tightgp.estimators.start import Start
from tightgp.posterior.posterior import Posterior
from tightgp.training import FitResult, StopReason


@dataclass(frozen=True)
class Trained:
    """How a model was trained on which rows, what came of it, and its posterior with v of each row, if it has v.

    ``plan`` is that of the last training.
    """

    recipe: Recipe | Exact
    data: Dataset
    grown: Grown
    posterior: Posterior
    scales: np.ndarray | None
    plan: Plan

    @property
    def model(self) -> Any:
        """The trained model."""
        return self.grown.result.model


def train(recipe: Recipe | Exact, data: Dataset, settings: Settings) -> Trained:
    """Train by a recipe."""
    grown = grow(recipe, data, settings)
    return Trained(recipe, data, grown, *recipe.posterior(grown.result.model, data), recipe.plan)


def retrain(before: Trained, data: Dataset, settings: Settings, steps: int) -> Trained:
    """Train on from a model, on the same inputs with other targets or noise.

    Args:
        before: the model to start from.
        data: the rows.
        settings: the estimator's.
        steps: most iterations; 0 makes only a new posterior. Minibatches take a fifth of their passes instead.
    """
    recipe, model, result, plan = before.recipe, before.model, before.grown.result, before.plan
    if steps:
        if isinstance(recipe, Exact):
            start = Start(model.kernel, float(model.noise_variance))
            plan = replace(recipe.plan, amount=min(steps, recipe.plan.amount))
            result = replace(recipe, start=start, plan=plan).train(data, settings)
        else:
            small = steps if isinstance(recipe, Collapsed) else -(-recipe.plan.amount // 5)
            plan = replace(recipe.plan, amount=min(small, recipe.plan.amount))
            short = replace(recipe, plan=plan)
            short = replace(short, others=()) if isinstance(short, Collapsed) else short
            result = short.train(model, data, settings)
        result = _after(before.grown.result, result, plan)
        value, bracket = recipe.evidence(result, data)
        seconds = before.grown.seconds + result.seconds
        grown = replace(before.grown, result=result, bound=value, bracket=bracket, seconds=seconds)
    else:
        grown = before.grown
    posterior, scales = before.recipe.posterior(result.model, data)
    posterior = replace(posterior, neighbours=before.posterior.neighbours)
    return Trained(before.recipe, data, grown, posterior, scales, plan)


def _after(first: FitResult, result: FitResult, plan: Plan) -> FitResult:
    """The result of a short training after a first one; that L-BFGS ended at its few steps is no news of the first."""
    result = replace(result, steps=first.steps + result.steps)
    if result.reason is not StopReason.STEP_LIMIT or plan.method == "minibatch":
        return result
    return replace(result, reason=first.reason, message=first.message)
