"""How far a fit is from the exact Gaussian process, where that is quick to say."""

import jax.numpy as jnp

from tightgp.app.report.numbers import interval, number
from tightgp.data import Dataset
from tightgp.models import SGPR

#: The share of the training time that it may take, and the shortest training, in seconds, that leaves time for it.
_SHARE, _SHORTEST = 0.1, 60.0
#: Nats a row that are close enough.
_EFFORT = 0.01


def distance_sentence(estimator) -> str:
    """A sentence on the log evidence of the exact Gaussian process; nothing where it would take too long to find."""
    model, training = estimator.model_, getattr(getattr(estimator, "posterior_", None), "training", None)
    if not isinstance(model, SGPR) or model.Z.dtype != jnp.float64 or training is None:
        return ""
    if estimator.seconds_ < _SHORTEST:
        return ""
    data = Dataset(
        training.rows.X, training.rows.y, training.rows.noise_variance, noise_factor=training.rows.noise_factor
    )
    bracket = model.evidence_bracket(data, effort=_EFFORT, seconds=_SHARE * estimator.seconds_)
    if bracket.certificate is None:
        return ""
    ends, away = interval(bracket.lower, bracket.upper), number(bracket.distance(estimator.objective_), 2)
    exact = f"With these parameters the log evidence of the exact Gaussian process is {ends} nats"
    return f"{exact}: what was trained is within {away} nats a row of the exact Gaussian process."
