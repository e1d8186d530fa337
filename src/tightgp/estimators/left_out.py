"""The function at training rows, each predicted from all others: what choices are made by (maths 14.4)."""

from typing import Any

import numpy as np

from tightgp.data.dataset import Dataset
from tightgp.posterior import local
from tightgp.posterior.posterior import Posterior


def left_out(
    posterior: Posterior, data: Dataset, rows: np.ndarray, neighbours: int | None, most: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance (q,) of the function at training rows by number, without their own targets.

    An exact posterior has them in closed form. With ``neighbours`` each row is left out of its own neighbours, while
    q(u) still knows it. From inducing points alone, its target is divided out of its own posterior.

    Args:
        posterior: of a model with Gaussian noise and one target a row.
        data: the rows that it was made from.
        rows: (q,).
        neighbours: of each prediction; 0 for none, None where the posterior is exact.
        most: the most neighbours of another prediction of so many rows, whose compiled program then serves this one.
    """
    own = float(np.asarray(posterior.noise_variance))
    if neighbours is None:
        return _exact(posterior, data, own, rows)
    if neighbours:
        functions, training = posterior._functions, posterior.training
        assert training is not None
        counts = [neighbours] if most <= neighbours else [neighbours, min(most, data.num_data - 1)]
        mean, var = local.left_out(functions, training, posterior.likelihood.variance, rows, counts)[0]
        return np.asarray(mean)[:, 0], np.asarray(var)[:, 0]
    noise = np.asarray(data.rows().noise(own))[rows]
    mean, var = (np.asarray(a) for a in posterior.predict_f(np.asarray(data.X)[rows], neighbours=0))
    share = np.minimum(var / noise, 1 - 1e-6)  # of what is known of the row, that its own target says
    y = np.asarray(data.y)[rows]
    return mean - share / (1 - share) * (y - mean), var / (1 - share)


def _exact(posterior: Posterior, data: Dataset, own: float, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    latents: Any = posterior.latents[0]
    W = np.asarray(latents.whitener.inverse)
    precision = np.einsum("ij,ij->j", W, W)
    weights = W.T @ np.asarray(latents.q[0].mean)[:, 0]
    mean, var = np.asarray(data.y) - weights / precision, 1 / precision - np.asarray(data.rows().noise(own))
    return mean[rows], np.maximum(var[rows], 0.0)
