"""The next point to try: a Gaussian process of what was seen, and the point where it promises most."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import qmc

from tightgp import checks, priors
from tightgp.data import Dataset
from tightgp.kernels import Matern52
from tightgp.models import ExactGP
from tightgp.numerics.chunks import pad_rows
from tightgp.optimise import acquisition
from tightgp.optimise.space import Integer, Space
from tightgp.parameters import with_priors
from tightgp.posterior import Posterior
from tightgp.training import fit

ACQUISITIONS = ("ei", "thompson")
#: The noise variance of rows that only fill up the data to one of few sizes, so that these share compiled programs.
_NOTHING = 1e8
#: Steps of training before each point.
_STEPS = 50
#: Candidates that are rounded to whole numbers.
_ROUNDED = 64


class Best(NamedTuple):
    """A point (D,) and its value."""

    x: np.ndarray
    y: float


class Optimiser:
    """Bayesian optimisation by asking and telling: values may come from anywhere, in any order, with noise.

    The first points are quasi-random. Then an exact GP (Matérn-5/2, a lengthscale for each input, under weak priors) of
    all values so far says where to look next.

    Args:
        bounds: for each input a pair (low, high), or a `Real` or `Integer`.
        acquisition: "ei", the largest log expected improvement, or "thompson", the optimum of a function drawn from the
            posterior, which suits many points at a time.
        maximise: whether large values are sought; by default small ones are.
        num_initial: number of quasi-random points; None is two for each input and two more.
        seed: of everything random.

    >>> search = tgp.optimise.Optimiser([(-2.0, 2.0)], num_initial=3)
    >>> for _ in range(3):
    ...     x = search.ask()
    ...     search.tell(x, (x[0] - 0.5) ** 2)
    >>> search.ask(2).shape, search.best.y < 3.0
    ((2, 1), True)
    """

    def __init__(
        self,
        bounds: Any,
        *,
        acquisition: str = "ei",
        maximise: bool = False,
        num_initial: int | None = None,
        seed: int = 0,
    ):
        self.space = Space(bounds)
        checks.choice("acquisition", acquisition, ACQUISITIONS)
        checks.choice("maximise", maximise, (True, False))
        self.acquisition, self.maximise = acquisition, bool(maximise)
        self.num_initial = 2 * len(self.space) + 2 if num_initial is None else checks.count("num_initial", num_initial)
        self.seed = checks.seed("seed", seed)
        sobol = qmc.Sobol(len(self.space), rng=np.random.default_rng(self.seed))
        self._initial = sobol.random_base2((self.num_initial - 1).bit_length())[: self.num_initial]
        self._U, self._y = np.zeros((0, len(self.space))), np.zeros(0)
        self._pending, self._asked = np.zeros((0, len(self.space))), 0
        self._posterior: tuple[int, Posterior] | None = None

    @property
    def X(self) -> np.ndarray:
        """The points that were told (n, D)."""
        return self.space.from_unit(self._U)

    @property
    def y(self) -> np.ndarray:
        """Their values (n,)."""
        return self._y.copy()

    @property
    def best(self) -> "Best":
        """The best point and value so far."""
        if not len(self._y):
            raise ValueError("no value was told yet")
        i = int(np.argmin(self._signed))
        return Best(self.space.from_unit(self._U[i : i + 1])[0], float(self._y[i]))

    def tell(self, x, y) -> None:
        """Take a point (D,) with its value, or points (n, D) with theirs (n,); they need not have been asked for."""
        U = self.space.to_unit(self.space.checked(x))
        values = np.atleast_1d(np.asarray(checks.floats("y", y), float))
        checks.finite("y", values)
        if values.shape != (len(U),):
            raise ValueError(f"y must have a value for each of {len(U)} point(s), got shape {values.shape}")
        self._U, self._y = np.concatenate([self._U, U]), np.concatenate([self._y, values])
        for u in U:
            same = np.flatnonzero(np.all(np.isclose(self._pending, u, atol=1e-9), axis=1))[:1]
            self._pending = np.delete(self._pending, same, axis=0)

    def ask(self, num_points: int | None = None) -> np.ndarray:
        """The next point to try (D,), or several for trying at the same time (num_points, D).

        Points that were asked for and not told yet are taken into account: their values are expected to be the mean.
        """
        count = 1 if num_points is None else checks.count("num_points", num_points)
        points = [self._next() for _ in range(count)]
        X = self.space.from_unit(np.array(points))
        return X[0] if num_points is None else X

    def _next(self) -> np.ndarray:
        if self._asked < self.num_initial or not len(self._y):
            later = np.random.default_rng([self.seed, self._asked]).uniform(size=len(self.space))
            u = self._initial[self._asked] if self._asked < self.num_initial else later
            u = self.space.rounded(u[None])[0]
        else:
            u = self._promising()
        self._asked += 1
        self._pending = np.concatenate([self._pending, u[None]])
        return u

    def _promising(self) -> np.ndarray:
        post, seen = self.posterior(), jnp.asarray(self._U)
        given: Any
        value: Any
        if self.acquisition == "thompson":
            key = jax.random.fold_in(jax.random.key(self.seed), self._asked)
            given, value = post.sample_paths(key), acquisition.descent
        else:
            if len(self._pending):
                post = post.condition(self._pending, post.predict_f(self._pending)[0])
            given, value = (post, jnp.min(post.predict_f(seen)[0])), acquisition.improvement
        best = self._U[np.argmin(self._signed)]
        U, _ = acquisition.maximise(value, given, len(self.space), best, self.seed + self._asked)
        if any(isinstance(one, Integer) for one in self.space.intervals):
            U = self.space.rounded(U[:_ROUNDED])
            U = U[np.argsort(-np.asarray(value(given, jnp.asarray(U))), kind="stable")]
        tried = np.concatenate([self._U, self._pending])
        new = [u for u in U if not np.any(np.all(np.isclose(tried, u, atol=1e-9), axis=1))]
        return new[0] if new else U[0]

    def posterior(self) -> Posterior:
        """The posterior of standardised values (of smaller ones where they are minimised) over the unit cube."""
        if not len(self._y):
            raise ValueError("no value was told yet")
        if self._posterior is None or self._posterior[0] != len(self._y):
            self._posterior = len(self._y), self._fitted()
        return self._posterior[1]

    @property
    def _signed(self) -> np.ndarray:
        return -self._y if self.maximise else self._y

    def _fitted(self) -> Posterior:
        d, n, z = len(self.space), len(self._y), self._signed
        z = (z - z.mean()) / (z.std() or 1.0)
        length = max(16, 2 ** (n - 1).bit_length())
        known = np.where(np.arange(length) < n, 0.0, _NOTHING)
        data = Dataset(pad_rows(self._U, length), np.pad(z, (0, length - n)), known)
        model = ExactGP(Matern52(lengthscale=np.full(d, 0.5 * math.sqrt(d))), 0.02)
        model = with_priors(
            model,
            {
                "kernel.lengthscale": priors.LogNormal(math.log(0.5 * math.sqrt(d)), 1.0),
                "kernel.variance": priors.LogNormal(0.0, 0.7),
                "noise_variance": priors.LogNormal(-7.0, 2.0),
            },
        )
        return fit(model, data, steps=_STEPS, progress=False).model.posterior(data)

    def __repr__(self) -> str:
        kind = "maximise" if self.maximise else "minimise"
        return f"Optimiser({len(self.space)} inputs, {kind}, {self.acquisition}, {len(self._y)} values)"
