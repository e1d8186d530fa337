"""Where training starts: the best of several hyperparameters, by exact GPs on some of the rows."""

import itertools
import time
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tightgp import distributed
from tightgp.data.dataset import Dataset
from tightgp.data.placement import OnDevice
from tightgp.data.rows import Rows
from tightgp.data.scaling import mean_and_scale
from tightgp.estimators import processes
from tightgp.estimators.settings import Settings, start_kernel
from tightgp.kernels import Kernel
from tightgp.models import ExactGP
from tightgp.numerics.linalg import NumericalError
from tightgp.parameters import assign
from tightgp.training import fit

#: The first noise variance beside a user's own kernel, in units of the targets' variance.
NOISE = 0.1
#: What is tried: lengthscales, in units of `start_kernel`'s, and the noise's share of the targets' variance.
_LENGTHS = (1 / 16, 1 / 4, 1.0, 4.0)
_NOISES = (0.01, 0.1, 0.5, 0.9)
#: Where the best of these explains no more than noise alone: lengthscales that are not so short that nothing is learnt.
_HIDDEN = (1.0, 4.0)
#: The most rows to compare the starts on; on the second number of rows the best one is trained further.
_ROWS, _MORE_ROWS = 256, 1000
#: Up to so many rows the starts are compared on all of them.
_FEW_ROWS = 400
#: Steps to compare the starts after, how many of them are trained further, and for how many steps.
_FIRST_STEPS, _FINALISTS, _STEPS = 2, 4, 40
#: Nats that the best start must gain on noise alone for its hyperparameters to mean something.
_CLEAR = 10.0
#: Training has come to rest where five steps together gain less than so many nats a row.
REST = 1e-4


class Start(NamedTuple):
    """Hyperparameters to train from, further ones to try, and what was done to find them."""

    kernel: Kernel
    noise: float
    others: tuple[tuple[Kernel, float], ...] = ()
    tried: str = ""


def begin(kernel, names: tuple[str, ...], X: np.ndarray, targets: np.ndarray, seed: int) -> tuple[Kernel, float]:
    """The kernel and the noise variance to start from: the user's own kernel, or the best of a few.

    Best is the highest evidence of an exact GP on some rows, with ``targets`` (n, P) as if their noise were Gaussian.
    Training that starts from far too long lengthscales may explain everything as noise, and from far too short ones
    it learns nothing: where none of the few is better than noise alone, they are of middle length.
    """
    first = start_kernel(kernel, names)
    if isinstance(kernel, Kernel):
        return first, NOISE
    lengths, noises = np.array(list(itertools.product(_LENGTHS, _NOISES))).T
    lengths = lengths * _length(first, names)
    count = distributed.total_count(len(X))
    size = 2 ** (min(count, _ROWS).bit_length() - 1)  # few sizes, because JAX compiles a program for each
    chosen = np.random.default_rng(seed).choice(count, size, replace=False)
    X, y = distributed.rows_at(X, chosen), distributed.rows_at(targets, chosen)
    mean, scale = mean_and_scale(y)
    y = (y - mean) / scale
    evidence = _evidence(first, *(jnp.asarray(a) for a in (X, y, lengths, noises)))
    evidence = processes.from_leader(np.asarray(evidence))
    if not np.any(np.isfinite(evidence)):
        return first, NOISE
    best = int(np.argmax(np.where(np.isfinite(evidence), evidence, -np.inf)))
    if evidence[best] < noise_alone(y) + 1:
        return _with(first, _length(first, names), 0.5), 0.5
    return _with(first, lengths[best], noises[best]), float(noises[best])


def search(kernel, names: tuple[str, ...], data: Dataset, settings: Settings, more: bool, deadline: float) -> Start:
    """Train exact GPs on some rows of ``data``, whose targets are standardised, from several starts; the best one.

    A user's own kernel is the only start. With ``more``, the best is trained further on more of the rows.
    """
    first = start_kernel(kernel, names)
    starts = [(first, NOISE)]
    if not isinstance(kernel, Kernel):
        length = _length(first, names)
        starts = [(_with(first, length * one, noise), noise) for one, noise in itertools.product(_LENGTHS, _NOISES)]
    order = np.random.default_rng(settings.seed).permutation(data.num_data)
    part = data if data.num_data <= _FEW_ROWS else data.take(np.sort(order[:_ROWS]))
    steps = min(settings.max_iter or _STEPS, _STEPS)
    tried = f"{len(starts)} start{'s' if len(starts) > 1 else ''} on {part.num_data} rows"
    try:
        if len(starts) > 1:
            objectives = _trained(starts, part, _FIRST_STEPS, deadline).restarts
            ranked = np.argsort(-np.asarray(objectives), kind="stable")
            starts = [starts[i] for i in ranked[:_FINALISTS]]
        result = _trained(starts, part, steps, deadline)
        found = (result.model.kernel, float(result.model.noise_variance))
        gained = result.objective - noise_alone(part.targets)
        others: tuple = ()
        if gained < _CLEAR and not isinstance(kernel, Kernel):
            others = tuple((_with(first, length * one, 0.5), 0.5) for one in _HIDDEN)
        if more and data.num_data > _MORE_ROWS:
            part = data.take(np.sort(order[:_MORE_ROWS]))
            result = _trained([found, *others], part, steps, deadline)
            found, others = (result.model.kernel, float(result.model.noise_variance)), ()
            tried += f", the best also on {part.num_data}"
    except NumericalError:
        return Start(*starts[0], (), tried)
    return Start(*found, others, tried)


def noise_alone(targets: np.ndarray) -> float:
    """The log evidence of targets (n, P) as noise about zero, with the best noise variance for all of them."""
    variance = float(np.mean(np.asarray(targets) ** 2))
    return -0.5 * np.size(targets) * np.log(2 * np.pi * np.e * variance) if variance > 0 else np.inf


def _trained(starts: list, data: Dataset, steps: int, deadline: float):
    """The best of exact GPs trained from each start."""
    models = [ExactGP(*start) for start in starts]
    seconds = None if np.isinf(deadline) else max(1e-3, deadline - time.perf_counter())
    gain = REST * data.num_data
    return fit(
        models[0], data, "lbfgs", steps=steps, restarts=models[1:], min_gain=gain, time_limit=seconds, progress=False
    )


def _length(kernel: Kernel, names: tuple[str, ...]) -> float:
    return float(kernel.length_scales(len(names))[0])


def _with(kernel: Kernel, length, noise) -> Kernel:
    return assign(kernel, {"lengthscale": length, "variance": 1 - noise})


@eqx.filter_jit
def _evidence(kernel: Kernel, X, y, lengths, noises):
    rows = OnDevice(Rows(X, y, jnp.ones(len(X), X.dtype)))

    def evidence(numbers):
        length, noise = numbers
        return ExactGP(_with(kernel, length, noise), noise).objective(rows)[0]

    return jax.lax.map(evidence, (lengths, noises))
