"""Choose the first lengthscale and noise of training: the best of a few on some of the rows."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tightgp import distributed
from tightgp.data.placement import OnDevice
from tightgp.data.rows import Rows
from tightgp.data.scaling import mean_and_scale
from tightgp.estimators import processes
from tightgp.estimators.recipes import NOISE
from tightgp.estimators.settings import start_kernel
from tightgp.kernels import Kernel
from tightgp.models import ExactGP
from tightgp.parameters import assign

#: What is tried: lengthscales, in units of `start_kernel`'s, and the noise's share of the targets' variance.
_LENGTHS = (1 / 16, 1 / 4, 1.0, 4.0)
_NOISES = (0.01, 0.1, 0.5, 0.9)
#: The most rows to compute the evidence on.
_ROWS = 256


def begin(kernel, names: tuple[str, ...], X: np.ndarray, targets: np.ndarray, seed: int) -> tuple[Kernel, float]:
    """The kernel and the noise variance to start from: the user's own kernel, or the best of a few.

    Best is the highest evidence of an exact GP on some rows, with ``targets`` (n, P) as if their noise were Gaussian.
    Training that starts from far too long lengthscales may explain everything as noise.
    """
    first = start_kernel(kernel, names)
    if isinstance(kernel, Kernel):
        return first, NOISE
    lengths, noises = np.array(list(itertools.product(_LENGTHS, _NOISES))).T
    lengths = lengths * float(first.length_scales(len(names))[0])
    count = distributed.total_count(len(X))
    size = 2 ** (min(count, _ROWS).bit_length() - 1)  # few sizes, because JAX compiles a program for each
    chosen = np.random.default_rng(seed).choice(count, size, replace=False)
    X, y = distributed.rows_at(X, chosen), distributed.rows_at(targets, chosen)
    mean, scale = mean_and_scale(y)
    evidence = _evidence(first, *(jnp.asarray(a) for a in (X, (y - mean) / scale, lengths, noises)))
    evidence = processes.from_leader(np.asarray(evidence))
    if not np.any(np.isfinite(evidence)):
        return first, NOISE
    best = int(np.argmax(np.where(np.isfinite(evidence), evidence, -np.inf)))
    return _with(first, lengths[best], noises[best]), float(noises[best])


def _with(kernel: Kernel, length, noise) -> Kernel:
    return assign(kernel, {"lengthscale": length, "variance": 1 - noise})


@eqx.filter_jit
def _evidence(kernel: Kernel, X, y, lengths, noises):
    rows = OnDevice(Rows(X, y, jnp.ones(len(X), X.dtype)))

    def evidence(numbers):
        length, noise = numbers
        return ExactGP(_with(kernel, length, noise), noise).objective(rows)[0]

    return jax.lax.map(evidence, (lengths, noises))
