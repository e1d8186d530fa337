"""Kernels as sums of terms with closed-form averages."""

import numpy as np
import pytest

from tightgp import kernels as K
from tightgp.bounds.psi.terms import terms


def value(found, x, z):
    """The kernel of the terms at two different rows."""
    total = sum(float(v) * np.exp(-0.5 * np.sum(np.asarray(p) * (x - z) ** 2)) for v, p in found.bumps)
    return total if found.slopes is None else total + np.sum(np.asarray(found.slopes) * x * z)


@pytest.mark.parametrize(
    "kernel",
    [
        K.SquaredExponential(1.3, [0.5, 1.5]),
        K.SquaredExponential(1.3, 0.5, active_dims=[1]),
        K.Constant(0.7),
        K.Linear([0.3, 0.6]) + K.Linear(0.5, active_dims=[1]),
        K.SquaredExponential(1.3, 0.5) * K.SquaredExponential(0.4, 2.0, active_dims=[0]) * 0.5,
        K.SquaredExponential(1.3, 0.5) + K.Linear(0.3, active_dims=[0]) + K.White(0.2) + 0.4,
    ],
    ids=["se", "se on one input", "constant", "linear", "product", "sum"],
)
def test_terms_add_up_to_the_kernel(rng, kernel):
    x, z = rng.normal(size=(2, 2))
    found = terms(kernel, 2)
    assert value(found, x, z) == pytest.approx(float(kernel(x[None], z[None])[0, 0]), rel=1e-12)
    assert value(found, x, x) + float(found.white) == pytest.approx(float(kernel.diagonal(x[None])[0]), rel=1e-12)


@pytest.mark.parametrize(
    "kernel",
    [
        K.Matern32(),
        K.SquaredExponential() + K.Matern12(),
        K.SquaredExponential() * K.Linear(),
        K.SquaredExponential() * K.White(),
        K.Polynomial(2),
    ],
    ids=lambda kernel: type(kernel).__name__,
)
def test_other_kernels_have_none(kernel):
    assert terms(kernel, 2) is None
