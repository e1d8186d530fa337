"""What random probes prove of a log determinant (maths 12.3).

``B = GCGᵀ`` has ones on its diagonal, so that ``−2 log|G| − log|C| = tr g(B)`` with ``g(λ) = λ − 1 − log λ ≥ 0``: a sum
of non-negative eigenvalues. Quadratic forms of such a matrix in standard normal probes fall far below its trace with a
probability that is known (Laurent & Massart 2000), so a mean of a few of them bounds the trace from above.
"""

import math
from typing import NamedTuple

import numpy as np

from tightgp.numerics import conjugate

#: The probability that the bound does not hold, over the draw of the probes, whatever the data.
FAILURE = 1e-6


class Excess(NamedTuple):
    """What ``−2 log|G|`` exceeds ``log|C|`` by: at most, about, and how much of that the quadratures leave open."""

    most: float
    estimate: float
    open: float


def excess(steps: np.ndarray, ratios: np.ndarray, sizes: np.ndarray, stretch: float) -> Excess:
    """The excess ``tr g(B)`` from conjugate gradients on ``B = GCGᵀ``, started at standard normal probes (maths 12.3).

    Args:
        steps: their step lengths (k, q).
        ratios: their ratios of squared residuals (k, q).
        sizes: squared lengths of the probes (q,).
        stretch: the largest of the ``‖G⁻¹w‖²`` of the probes w.
    """
    q, x = len(sizes), math.log(3 / FAILURE)
    tau = 0.5 * math.pi * math.exp(-2 * x / q)  # no probe's square along a direction is above tau: chance ≤ FAILURE/3
    least = min(1.0, tau / stretch)
    low, high, power = 0.0, 0.0, 0.0
    for one in range(q):
        gauss, radau = conjugate.quadratures(steps[:, one], ratios[:, one], least)
        low += sizes[one] * gauss.mean(_g) / q
        high += sizes[one] * radau.mean(_g) / q
        degree = 2 * len(gauss.at) - 1  # up to which the quadrature is exact
        top = math.log(sizes[one] * float(gauss.weight @ (gauss.at / gauss.at[-1]) ** degree) / tau) / degree
        power = max(power, gauss.at[-1] * math.exp(top))
    most = max(_g(least), _g(max(1.0, power)))
    width = most * x / q
    return Excess((math.sqrt(width) + math.sqrt(width + high)) ** 2, low, high - low)


def _g(value):
    return value - 1 - np.log(value)
