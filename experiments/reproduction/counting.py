"""What the Poisson experiments share: the three models, and scores of both predictions of maths 8.3."""

from collections.abc import Callable
from typing import Any

import numpy as np

import tightgp as tgp
from experiments.reproduction import account
from tightgp.app.comparison import COLOURS

MODELS: dict[str, Callable[..., tgp.SVGP]] = {
    "full": lambda kernel, Z: tgp.VGP(kernel, tgp.likelihoods.Poisson(), Z),
    "svgp": lambda kernel, Z: tgp.SVGP(kernel, tgp.likelihoods.Poisson(), Z, "standard"),
    "svgp-new": lambda kernel, Z: tgp.SVGP(kernel, tgp.likelihoods.Poisson(), Z, "spherical"),
}
LABELS = {"full": "Full GP", "svgp": "SVGP", "svgp-new": "SVGP-new"}
COLOUR = {"full": COLOURS["exact"], "svgp": COLOURS["standard"], "svgp-new": COLOURS["diagonal"]}


def both_ways(model: tgp.SVGP, test: tgp.Dataset) -> dict[str, Any]:
    """Mean log density of held-out counts by the conditional's own variance and by v times it, and v itself."""
    plain, scaled = (
        float(np.mean(np.asarray(model.posterior(scaled=s).log_density(test.X, test.y)))) for s in (False, True)
    )
    return account.shortened({"plain": plain, "scaled": scaled, "v": float(np.asarray(model.v)[0])})
