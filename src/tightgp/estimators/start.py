"""Where training begins: of a few lengthscales and noises, those that suit some of the rows best."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tightgp import distributed
from tightgp.data.placement import OnDevice
from tightgp.data.rows import Rows
from tightgp.estimators import processes
from tightgp.estimators.recipes import NOISE
from tightgp.estimators.settings import start_kernel
from tightgp.kernels import Kernel
from tightgp.models import ExactGP
from tightgp.parameters import assign

#: What is tried: lengthscales, in units of what the number of features suggests, and the noise's share of the variance.
_LENGTHS = (1 / 16, 1 / 4, 1.0, 4.0)
_NOISES = (0.01, 0.1, 0.5, 0.9)
#: At most so many rows are looked at.
_ROWS = 256


def begin(kernel, names: tuple[str, ...], X: np.ndarray, targets: np.ndarray, seed: int) -> tuple[Kernel, float]:
    """The kernel and the noise variance to start from: the user's own kernel, or the best of a few.

    Best is the highest evidence of an exact GP on some rows, with ``targets`` (n, P) taken as if their noise were
    Gaussian. From lengthscales that are far too long training may end with all taken for noise.
    """
    first = start_kernel(kernel, names)
    if isinstance(kernel, Kernel):
        return first, NOISE
    lengths, noises = np.array(list(itertools.product(_LENGTHS, _NOISES))).T
    lengths = lengths * float(first.length_scales(len(names))[0])
    count = distributed.total_count(len(X))
    size = 2 ** (min(count, _ROWS).bit_length() - 1)  # JAX compiles for each size, so let there be few
    chosen = np.random.default_rng(seed).choice(count, size, replace=False)
    X, y = distributed.rows_at(X, chosen), distributed.rows_at(targets, chosen)
    y = y - y.mean(axis=0)
    y = y / np.where(y.std(axis=0) > 0, y.std(axis=0), 1.0)
    evidence = np.asarray(_evidence(first, *(jnp.asarray(a) for a in (X, y, lengths, noises))))
    found = processes.of_the_first(evidence[:, None])[:, 0]
    if not np.any(np.isfinite(found)):
        return first, NOISE
    best = int(np.argmax(np.where(np.isfinite(found), found, -np.inf)))
    return _changed(first, lengths[best], noises[best]), float(noises[best])


def _changed(kernel: Kernel, length, noise) -> Kernel:
    return assign(kernel, {"lengthscale": length, "variance": 1 - noise})


@eqx.filter_jit
def _evidence(kernel: Kernel, X, y, lengths, noises):
    rows = OnDevice(Rows(X, y, jnp.ones(len(X), X.dtype)))

    def of(numbers):
        length, noise = numbers
        return ExactGP(_changed(kernel, length, noise), noise).objective(rows)[0]

    return jax.lax.map(of, (lengths, noises))
