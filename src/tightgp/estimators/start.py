"""Where training starts: the best of several hyperparameters, by exact GPs on some of the rows."""

import itertools
import time
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tightgp import distributed
from tightgp.data.dataset import Dataset
from tightgp.data.placement import OnDevice
from tightgp.data.rows import Rows
from tightgp.data.scaling import mean_and_scale
from tightgp.estimators import dense, processes
from tightgp.estimators.dense import Hyperparameters, Trained
from tightgp.estimators.settings import DEFAULT_KERNEL, KERNELS, Settings, start_kernel
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
#: Beside the grid: starts whose lengthscales differ at random, because small tables have many optima.
_RANDOM = 16
#: Steps to compare the starts after, those to compare the finalists after, and to train the best of these for.
_FIRST_STEPS, _MORE_STEPS, _STEPS = 2, 6, 40
#: How many finalists there are: at least the first number, and more where rows are few; one in three is trained on.
_FINALISTS, _FINAL_ROWS = 6, 2400
#: On so few rows, the best is changed at random and trained again, so many times.
_FEW_ROWS, _CHANGES = 200, 6
#: Nats that a start must gain on noise alone for its hyperparameters to mean something.
CLEAR = 10.0
#: Training has come to rest where five steps together gain less than so many nats a row.
REST = 1e-4


class Start(NamedTuple):
    """Hyperparameters to train from, further ones to try on all rows, and what was done to find them."""

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


def search(kernel, names: tuple[str, ...], data: Dataset, settings: Settings, deadline: float = np.inf) -> Start:
    """The best of several starts, by exact GPs trained on some rows of ``data``, whose targets are standardised.

    A kernel of the estimators is trained by `dense`. A user's own kernel is the only start, and trained by `fit`.
    """
    order = np.random.default_rng(settings.seed).permutation(data.num_data)
    parts = [data if data.num_data <= _ROWS else data.take(np.sort(order[:_ROWS]))]
    if data.num_data > _MORE_ROWS:
        parts.append(data.take(np.sort(order[:_MORE_ROWS])))
    steps = min(settings.max_iter or _STEPS, _STEPS)
    if isinstance(kernel, Kernel):
        return _own(start_kernel(kernel, names), parts[-1], steps, deadline)
    name, length = str(kernel or DEFAULT_KERNEL), _length(start_kernel(kernel, names), names)

    def begin_at(one: float, noise: float) -> Hyperparameters:
        return Hyperparameters(np.full(len(names), length * one), 1 - noise, noise)

    def trained(starts: list[Hyperparameters], data: Dataset, steps: int) -> list[Trained]:
        return train_each(starts, name, data, steps, deadline)

    starts = list(itertools.starmap(begin_at, itertools.product(_LENGTHS, _NOISES)))
    rng = np.random.default_rng(settings.seed)
    for _ in range(_RANDOM):
        factors, noise = np.exp(rng.normal(size=len(names))), rng.choice(_NOISES[1:])
        starts.append(Hyperparameters(length * factors, 1 - noise, noise))
    tried = f"{len(starts)} starts on {parts[0].num_data} rows"
    found = trained(starts, parts[0], _FIRST_STEPS)
    plain = starts[max(range(len(_LENGTHS) * len(_NOISES)), key=lambda i: found[i].evidence)]
    finalists = max(_FINALISTS, min(len(starts), _FINAL_ROWS // parts[0].num_data))
    if finalists < len(starts):
        found = trained(_best(found, finalists), parts[0], min(steps, _MORE_STEPS))
        finalists //= 3
    best = min(trained(_best(found, finalists), parts[0], steps), key=_worst)
    for _ in range(_CHANGES if parts[0].num_data <= _FEW_ROWS else 0):
        lengths = np.clip(best.best.lengthscale, length / 4, 8 * length) * np.exp(rng.normal(size=len(names)))
        noise = rng.choice(_NOISES[1:])
        changed = Hyperparameters(lengths, 1 - noise, noise, best.best.alpha)
        best = min(best, *trained([changed], parts[0], steps), key=_worst)
    # Few rows of many columns may fit their noise: then what they had before, all lengthscales equal, is better.
    others = [plain]
    if best.evidence < noise_alone(parts[0].targets, parts[0].noise_factor) + CLEAR:
        others += [begin_at(one, 0.5) for one in _HIDDEN]
    if len(parts) > 1:
        first = min(trained([best.best, *others], parts[1], _FIRST_STEPS), key=_worst)
        best = trained([first.best], parts[1], steps)[0]
        tried += f", the best also on {parts[1].num_data}"
    return Start(*as_parts(best.best, name), tuple(as_parts(one, name) for one in others), tried)


def _own(kernel: Kernel, data: Dataset, steps: int, deadline: float) -> Start:
    """A user's own kernel, trained on some rows."""
    seconds = None if np.isinf(deadline) else max(1e-3, deadline - time.perf_counter())
    options: dict[str, Any] = {"min_gain": REST * data.num_data, "time_limit": seconds, "progress": False}
    tried = f"the kernel on {data.num_data} rows"
    try:
        model = fit(ExactGP(kernel, NOISE), data, "lbfgs", steps=steps, **options).model
    except NumericalError:
        return Start(kernel, NOISE, (), tried)
    return Start(model.kernel, float(model.noise_variance), (), tried)


def _worst(one: Trained) -> float:
    return -one.evidence


def _best(found: list[Trained], count: int) -> list[Hyperparameters]:
    return [one.best for one in sorted(found, key=_worst)[:count]]


def train_each(starts: list[Hyperparameters], name: str, data: Dataset, steps: int, deadline: float) -> list[Trained]:
    """Exact GPs trained from each start, in their order."""
    X, y, gain = np.asarray(data.X), np.asarray(data.targets), REST * data.num_data
    factor = data.noise_factor
    found = [dense.train(start, name, X, y, steps, gain, deadline, factor=factor) for start in starts]
    if any(one.end == "interrupted" for one in found):
        raise KeyboardInterrupt
    return found


def as_parts(theta: Hyperparameters, name: str) -> tuple[Kernel, float]:
    """The kernel and the noise variance."""
    more = {"alpha": theta.alpha} if name == "rational_quadratic" else {}
    return KERNELS[name](variance=theta.variance, lengthscale=theta.lengthscale, **more), theta.noise


def hyperparameters(kernel: Any, noise: float) -> Hyperparameters:
    """The inverse of `as_parts`."""
    alpha = float(kernel.alpha) if hasattr(kernel, "alpha") else 1.0
    return Hyperparameters(np.asarray(kernel.lengthscale), float(kernel.variance), noise, alpha)


def noise_alone(targets: np.ndarray, factor: np.ndarray | None = None) -> float:
    """The log evidence of targets (n, P) as noise about zero, with the best noise variance for all of them.

    With a ``factor`` (n,) that of a row is multiplied by its factor.
    """
    factor = np.ones(1) if factor is None else np.asarray(factor)
    variance = float(np.mean(np.asarray(targets) ** 2 / factor[:, None]))
    logs = np.log(2 * np.pi * np.e * variance) if variance > 0 else -np.inf
    return -0.5 * np.size(targets) * (logs + float(np.mean(np.log(factor))))


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
