"""The evidence of an exact GP on few rows for many targets: one factorisation for all of them (maths 13.2)."""

from dataclasses import dataclass

import equinox as eqx
import numpy as np
from scipy.spatial.distance import pdist, squareform

from tightgp.kernels import Matern32

#: Lengthscales, in units of √D/2, and the noise's share of the variance, of which each target takes the best pair.
_LENGTHS = np.array([1 / 8, 1 / 2, 1.0, 2.0, 4.0])
_NOISES = np.array([0.003, 0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9])


@dataclass(frozen=True, eq=False)
class ProfiledGP:
    """A Matérn-3/2 GP with standardised features, whose scale is the best one for each target.

    Attributes:
        values, vectors: eigenvalues (L, n) and eigenvectors (L, n, n) of the kernel matrix for each lengthscale.

    >>> from tightgp.estimators.profile import ProfiledGP
    >>> gp = ProfiledGP.of(X)
    >>> gp.evidence(y) > gp.evidence(np.random.default_rng(0).permutation(y))
    True
    """

    values: np.ndarray
    vectors: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray) -> "ProfiledGP":
        """The GP at features X (n, D)."""
        lengths = _LENGTHS * max(1.0, 0.5 * np.sqrt(X.shape[1]))
        squares = squareform(pdist(X, "sqeuclidean")) / lengths[:, None, None] ** 2
        correlations = eqx.filter_jit(Matern32().correlation)(squares.reshape(-1, len(X)))
        values, vectors = np.linalg.eigh(np.asarray(correlations).reshape(squares.shape))
        return cls(np.maximum(values, 0.0), vectors)

    def evidence(self, z: np.ndarray) -> float:
        """Log evidence of targets (n,), at the best lengthscale, noise and scale."""
        return float(np.max(self._evidences(z)))

    def left_out(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (n,) of each target given all others, at the numbers of `evidence`."""
        length, noise = np.unravel_index(np.argmax(self._evidences(z)), (len(self.values), len(_NOISES)))
        variances, vectors = self._variances()[length, noise], self.vectors[length]
        rotated = (z - np.mean(z)) @ vectors
        precision = (vectors**2) @ (1 / variances)
        return z - (vectors @ (rotated / variances)) / precision, np.mean(rotated**2 / variances) / precision

    def left_out_log_density(self, z: np.ndarray) -> np.ndarray:
        """Log density (n,) of each target given all others."""
        mean, variance = self.left_out(z)
        return -0.5 * (np.log(2 * np.pi * variance) + (z - mean) ** 2 / variance)

    def _variances(self) -> np.ndarray:
        """The eigenvalues (L, S, n) of the covariance for each lengthscale and share of noise, up to scale."""
        return (1 - _NOISES[:, None]) * self.values[:, None] + _NOISES[:, None]

    def _evidences(self, z: np.ndarray) -> np.ndarray:
        """Log evidence (L, S) for each lengthscale and share of noise."""
        rotated = ((z - np.mean(z)) @ self.vectors)[:, None]
        variances, n = self._variances(), len(z)
        scale = np.mean(rotated**2 / variances, axis=2)
        with np.errstate(divide="ignore"):
            return -0.5 * (n * np.log(2 * np.pi * scale) + np.sum(np.log(variances), axis=2) + n)
