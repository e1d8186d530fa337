"""Exact GPs trained in NumPy, for the estimators' own kernels on a few hundred to two thousand rows.

Here compiling a program takes longer than all of its arithmetic. The evidence is that of `tightgp.ExactGP`, which
trains every other kernel; hyperparameters are optimised as logarithms, within bounds beyond which nothing changes.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import blas, lapack, solve_triangular
from scipy.optimize import minimize
from scipy.spatial.distance import cdist

#: Lengthscales (in units of standardised features), signal variances and noise variances (of standardised targets).
_BOUNDS = {"lengthscale": (1e-3, 1e4), "variance": (1e-8, 1e4), "noise": (1.001e-6, 1e2), "alpha": (1e-2, 1e3)}


class Correlation(NamedTuple):
    """``ρ`` of squared distances, its derivative in them, and the derivative in log α where there is one.

    It may take the place of the distances: large arrays are slow to make.
    """

    value: np.ndarray
    slope: np.ndarray
    shape: np.ndarray | None = None


def _matern12(r2, alpha):
    r = np.sqrt(r2)
    value = np.exp(-r)
    return Correlation(value, np.divide(-0.5 * value, r, out=np.zeros_like(r), where=r > 0))


def _matern32(r2, alpha):
    r2 *= 3.0
    s = np.sqrt(r2, out=r2)
    e = np.negative(s)
    np.exp(e, out=e)
    s += 1.0
    s *= e
    e *= -1.5
    return Correlation(s, e)


def _matern52(r2, alpha):
    s = np.sqrt(5.0 * r2)
    e = np.exp(-s)
    return Correlation((1 + s + s * s / 3) * e, -5 / 6 * (1 + s) * e)


def _squared_exponential(r2, alpha):
    value = np.exp(-0.5 * r2)
    return Correlation(value, -0.5 * value)


def _rational_quadratic(r2, alpha):
    u = r2 / (2 * alpha)
    log = np.log1p(u)
    value = np.exp(-alpha * log)
    return Correlation(value, -0.5 * value / (1 + u), alpha * value * (u / (1 + u) - log))


CORRELATIONS: dict[str, Callable[[np.ndarray, float], Correlation]] = {
    "matern12": _matern12,
    "matern32": _matern32,
    "matern52": _matern52,
    "squared_exponential": _squared_exponential,
    "rbf": _squared_exponential,
    "rational_quadratic": _rational_quadratic,
}


class Hyperparameters(NamedTuple):
    """Of a stationary kernel and Gaussian noise; ``alpha`` is that of the rational quadratic."""

    lengthscale: np.ndarray
    variance: float
    noise: float
    alpha: float = 1.0

    def vector(self, kernel: str) -> np.ndarray:
        """Their logarithms, within the bounds."""
        parts = [*np.ravel(self.lengthscale), self.variance, self.noise]
        parts += [self.alpha] if kernel == "rational_quadratic" else []
        return np.clip(np.log(parts), *np.array(bounds(kernel, len(self.lengthscale))).T)

    @classmethod
    def of_vector(cls, vector: np.ndarray, d: int) -> "Hyperparameters":
        """From logarithms, for ``d`` inputs."""
        values = np.exp(vector)
        return cls(values[:d], *map(float, values[d:]))


def bounds(kernel: str, d: int) -> list[tuple[float, float]]:
    """Between which the logarithms may lie."""
    names = ["lengthscale"] * d + ["variance", "noise"] + ["alpha"] * (kernel == "rational_quadratic")
    return [tuple(np.log(_BOUNDS[name])) for name in names]


def evidence(
    vector: np.ndarray, kernel: str, X: np.ndarray, y: np.ndarray, factor: np.ndarray | float = 1.0
) -> tuple[float, np.ndarray]:
    """``log N(y | 0, K + σ²I)`` summed over the columns of y (N, P), in total nats, and its gradient in ``vector``.

    With a ``factor`` (N,) the noise variance of a row is σ² times its factor.

    With ``G = ½(ααᵀ − P(K + σ²I)⁻¹)`` and ``α = (K + σ²I)⁻¹y`` the derivative is ``Σ G ∘ dK`` (Rasmussen & Williams
    2006, 5.9). Of a lengthscale, ``dK = −2σ_f²ρ′(r²)(x_d − x'_d)²/ℓ_d²``, whose sum takes two products with X. Passes
    over N×N numbers take longer than the factor, so there are few: of G only the lower triangle is made, and
    ``Σ G ∘ (K + σ²I) = ½(yᵀα − PN)`` needs none.
    """
    n, d = X.shape
    theta = Hyperparameters.of_vector(vector, d)
    Z = X / theta.lengthscale
    Z = Z - Z.mean(axis=0)
    squares = np.sum(Z * Z, axis=1)
    one = np.ones((n, 1))
    r2 = np.hstack([-2.0 * Z, squares[:, None], one]) @ np.hstack([Z, one, squares[:, None]]).T
    np.maximum(r2, 0.0, out=r2)
    np.fill_diagonal(r2, 0.0)
    rho = CORRELATIONS[kernel](r2, theta.alpha)
    K = (theta.variance * rho.value).T  # symmetric, and in LAPACK's order
    K[np.diag_indices(n)] += theta.noise * factor
    L, failed = lapack.dpotrf(K, lower=1, overwrite_a=1)
    if failed:
        return -np.inf, np.zeros_like(vector)
    alpha = lapack.dpotrs(L, y, lower=1)[0]
    logdet = 2 * np.sum(np.log(np.diagonal(L)))
    value = -0.5 * (y.shape[1] * (n * np.log(2 * np.pi) + logdet) + np.sum(y * alpha))
    inverse = lapack.dpotri(L, lower=1, overwrite_c=1)[0]  # the lower triangle; above it are zeros, and so in G
    G = blas.dsyrk(0.5, alpha, beta=-0.5 * y.shape[1], c=inverse, lower=1, overwrite_c=1)
    trace = np.sum(factor * np.diagonal(G))
    gradient = np.empty_like(vector)
    gradient[d] = 0.5 * (np.sum(y * alpha) - y.size) - theta.noise * trace
    gradient[d + 1] = theta.noise * trace
    if rho.shape is not None:
        gradient[d + 2] = 2 * theta.variance * np.vdot(G.T, rho.shape)  # which is zero on the diagonal
    G *= rho.slope.T
    inner = (np.sum(G, axis=0) + np.sum(G, axis=1)) @ (Z * Z) - 2 * np.sum(Z * (G @ Z), axis=0)
    gradient[:d] = -4 * theta.variance * inner
    return float(value), gradient


def conditional(
    theta: Hyperparameters, kernel: str, X: np.ndarray, y: np.ndarray, noise: np.ndarray, new: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance (m,) of the function at ``new`` (m, D), given targets (n,) with noise variances (n,)."""

    def covariance(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        squares = cdist(A / theta.lengthscale, B / theta.lengthscale, "sqeuclidean")
        return theta.variance * CORRELATIONS[kernel](squares, theta.alpha).value

    L = np.linalg.cholesky(covariance(X, X) + np.diag(noise))
    solved = solve_triangular(L, np.column_stack([covariance(X, new), y]), lower=True)
    rows, target = solved[:, :-1], solved[:, -1]
    return rows.T @ target, np.maximum(theta.variance - np.sum(rows * rows, axis=0), 0.0)


class Trained(NamedTuple):
    """The best hyperparameters found, their log evidence, and that of each iteration with the noise variance there.

    ``end`` says why training ended: "rest" (it gained too little), "steps", "time" or "interrupted".
    """

    best: Hyperparameters
    evidence: float
    path: list[tuple[float, float]]
    evaluations: int
    end: str

    @property
    def steps(self) -> int:
        """Iterations, without the start."""
        return len(self.path) - 1


def train(
    start: Hyperparameters,
    kernel: str,
    X: np.ndarray,
    y: np.ndarray,
    steps: int,
    min_gain: float,
    deadline: float = np.inf,
    report: Callable[[int, float], Any] | None = None,
    factor: np.ndarray | None = None,
) -> Trained:
    """Maximise the evidence by L-BFGS-B for at most ``steps`` iterations, or until five gain less than ``min_gain``.

    It ends soon after `time.perf_counter` passes ``deadline``, and on Ctrl-C. ``report(step, evidence)`` is called
    after each iteration. ``factor`` is as in `evidence`.
    """
    d = X.shape[1]
    best: list[Any] = [-np.inf, start.vector(kernel)]
    path: list[tuple[float, float]] = []
    ends, latest = ["steps"], []

    def negative(vector):
        value, gradient = evidence(vector, kernel, X, y, 1.0 if factor is None else factor)
        latest.append(value)
        if value > best[0]:
            best[:] = [value, vector.copy()]
        if not path:
            path.append((value, Hyperparameters.of_vector(vector, d).noise))
        if not np.isfinite(value):
            return 1e300, np.zeros_like(vector)
        return -value, -gradient

    def after_step(intermediate_result):
        vector, value = intermediate_result.x, -intermediate_result.fun
        path.append((value, Hyperparameters.of_vector(vector, d).noise))
        if report is not None:
            report(len(path) - 1, value)
        if len(path) > 5 and value - path[-6][0] < min_gain:
            ends[0] = "rest"
            raise StopIteration
        if time.perf_counter() > deadline:
            ends[0] = "time"
            raise StopIteration

    options = {"maxiter": steps, "maxcor": 20, "ftol": 1e-9, "gtol": 1e-5, "maxls": 20}
    try:
        result = minimize(
            negative,
            best[1],
            jac=True,
            method="L-BFGS-B",
            bounds=bounds(kernel, d),
            callback=after_step,
            options=options,
        )
        if ends[0] == "steps" and result.status != 1:
            ends[0] = "rest"
    except KeyboardInterrupt:
        ends[0] = "interrupted"
    return Trained(Hyperparameters.of_vector(best[1], d), best[0], path, len(latest), ends[0])
