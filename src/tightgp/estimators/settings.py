"""The parameters of an estimator, checked before anything is computed."""

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.utils import check_random_state

from tightgp import checks, kernels
from tightgp.bounds import structures
from tightgp.kernels import Kernel

KERNELS = {
    "matern12": kernels.Matern12,
    "matern32": kernels.Matern32,
    "matern52": kernels.Matern52,
    "squared_exponential": kernels.SquaredExponential,
    "rbf": kernels.SquaredExponential,
    "rational_quadratic": kernels.RationalQuadratic,
}
#: The kernel where the user names none.
DEFAULT_KERNEL = "matern32"


@dataclass(frozen=True)
class Settings:
    """The checked parameters that all estimators share; ``n_inducing`` is None for "auto".

    ``deadline`` is when training should end, as `time.perf_counter` counts: the time limit from now on.
    """

    n_inducing: int | None
    method: str
    max_iter: int | None
    batch_size: int
    learning_rate: float
    max_inducing: int
    tolerance: float
    seed: int
    checkpoint: Path | None
    resume: bool
    verbose: int
    deadline: float = np.inf

    @classmethod
    def of(cls, estimator, methods: tuple[str, ...], n_inducing: int = 256) -> "Settings":
        """Check the parameters of ``estimator``, which can be trained by ``methods``.

        ``n_inducing`` is the number of inducing points where the user leaves it open.
        """
        e = estimator
        n_inducing = n_inducing if e.n_inducing is None else e.n_inducing
        auto = isinstance(n_inducing, str) and n_inducing == "auto"
        if isinstance(n_inducing, str) and not auto:
            raise ValueError(f"n_inducing must be a whole number of at least 1, 'auto' or None; got {n_inducing!r}")
        checks.choice("method", e.method, ("auto", *methods))
        if e.bound is not None:
            structures.named(e.bound)
        if not isinstance(e.kernel, Kernel) and e.kernel is not None and str(e.kernel) not in KERNELS:
            names = ", ".join(map(repr, KERNELS))
            raise ValueError(f"kernel must be None, one of {names}, or one of tightgp.kernels; got {e.kernel!r}")
        if e.resume not in (True, False):
            raise ValueError(f"resume must be True or False, got {e.resume!r}")
        folder = _folder(e.checkpoint)
        if e.resume and folder is None:
            raise ValueError("resume=True needs checkpoint=, the folder with the unfinished work")
        return cls(
            n_inducing=None if auto else checks.count("n_inducing", n_inducing),
            method=e.method,
            max_iter=None if e.max_iter is None else checks.count("max_iter", e.max_iter),
            batch_size=checks.count("batch_size", e.batch_size),
            learning_rate=_positive("learning_rate", e.learning_rate),
            max_inducing=checks.count("max_inducing", e.max_inducing),
            tolerance=_positive("tolerance", e.tolerance),
            seed=seed_of(e.random_state),
            checkpoint=folder,
            resume=bool(e.resume),
            deadline=_deadline(e.time_limit),
            verbose=checks.seed("verbose", int(e.verbose) if isinstance(e.verbose, bool) else e.verbose),
        )

    def fit_options(self, size: int | str, name: str = "fit") -> dict[str, Any]:
        """Arguments of `tightgp.fit` for a model with ``size`` inducing points; ``name`` begins its checkpoint's."""
        options: dict[str, Any] = {"seed": self.seed, "progress": self.verbose > 0, "time_limit": self.seconds_left}
        if self.checkpoint is not None:
            options |= {"checkpoint": self.checkpoint / f"{name}-{size}.safetensors", "resume": self.resume}
        return options

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the deadline; None where there is none."""
        return None if self.deadline == np.inf else max(1e-3, self.deadline - time.perf_counter())

    def part_of_time(self, share: float) -> float:
        """When a share of the time that is left will be over."""
        return self.deadline if self.seconds_left is None else time.perf_counter() + share * self.seconds_left


def _deadline(time_limit) -> float:
    return np.inf if time_limit is None else time.perf_counter() + _positive("time_limit", time_limit)


def _positive(name: str, value) -> float:
    return float(checks.positive(name, checks.number(name, value)))


def _folder(path) -> Path | None:
    if path is None:
        return None
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"checkpoint must be None or the name of a folder, got {type(path).__name__}")
    if Path(path).is_file():
        raise ValueError(f"checkpoint must be a folder, but {path} is a file")
    return Path(path)


def seed_of(random_state) -> int:
    """Draw a whole number from a random state: a seed, None, a RandomState or a numpy Generator."""
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(np.iinfo(np.int32).max))
    try:
        return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
    except ValueError as error:
        raise ValueError(
            f"random_state must be a whole number, None, a numpy RandomState or Generator: {error}"
        ) from None


def start_kernel(kernel, feature_names: tuple[str, ...]) -> Kernel:
    """The kernel to start from: the user's own, or a new one with a lengthscale for each feature."""
    count = len(feature_names)
    if not isinstance(kernel, Kernel):
        # Distances between standardised rows grow with √D, so the first lengthscale does too.
        return KERNELS[kernel or DEFAULT_KERNEL](lengthscale=np.full(count, max(1.0, 0.5 * np.sqrt(count))))
    try:
        jax.eval_shape(kernel, jnp.zeros((1, count)))
    except ValueError as error:
        shown = ", ".join(feature_names[:8]) + (", ..." if count > 8 else "")
        raise ValueError(
            f"kernel does not fit the {count} feature(s) that X is encoded as ({shown}): {error}"
        ) from None
    return kernel
