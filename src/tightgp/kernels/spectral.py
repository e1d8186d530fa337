"""The spectral mixture kernel (maths 15.3)."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tightgp import checks
from tightgp.kernels.base import Kernel
from tightgp.kernels.stationary import squared_distance
from tightgp.parameters import FLOOR, Parameter, positive, reader, real

#: Frequencies that `SpectralMixture.of_data` tries, on at most so many rows.
_TRIED, _ROWS = 4000, 2000


class SpectralMixture(Kernel):
    """``k(x, x') = Σ_q w_q exp(−½ Σ_d ((x_d − x'_d)/ℓ_qd)²) cos(2π μ_q·(x − x'))``: Q waves that fade (maths 15.3).

    Its spectral density is a mixture of Q Gaussians with means ±μ_q, which comes close to any as Q grows. Training
    finds a good kernel only from a good start: `of_data` makes one.

    Args:
        weight: the prior variance w_q of each component (Q,).
        frequency: the frequencies μ_q (Q, d), in periods per unit of each active input.
        lengthscale: the lengthscales ℓ_q (Q, d) over which waves fade.
        active_dims: the columns of X that the kernel uses; None for all of them.

    >>> kernel = tgp.kernels.SpectralMixture([1.0], [[0.5]], [[10.0]])
    >>> kernel(np.array([[0.0]]), np.array([[1.0], [2.0]])).round(3)
    Array([[-0.995,  0.98 ]], dtype=float64)
    """

    _weight: Parameter
    _frequency: Parameter
    _lengthscale: Parameter
    weight = reader("_weight", "Prior variance of each component (Q,).")
    frequency = reader("_frequency", "Frequencies (Q, d), in periods per unit of each active input.")
    lengthscale = reader("_lengthscale", "Lengthscales (Q, d) over which waves fade.")

    def __init__(self, weight, frequency, lengthscale, active_dims=None):
        self._weight = positive(weight, name="weight", squared=True)
        self._frequency = real(frequency, name="frequency")
        self._lengthscale = positive(lengthscale, name="lengthscale", floor=FLOOR)
        self.active_dims = active_dims
        shapes = [p.raw.shape for p in (self._weight, self._frequency, self._lengthscale)]
        if len(shapes[0]) != 1 or len(shapes[1]) != 2 or shapes[0][0] != shapes[1][0] or shapes[1] != shapes[2]:
            raise ValueError(
                "weight must have shape (Q,), and frequency and lengthscale (Q, d); got " + ", ".join(map(str, shapes))
            )

    @classmethod
    def of_data(cls, X, y, components: int = 4, seed: int = 0, active_dims=None) -> "SpectralMixture":
        """A kernel to train from: one component for each of the strongest waves in targets ``y`` (n,) at ``X`` (n, d).

        Waves are found one after another, each the best of 4000 random ones on what those before it leave. What none of
        them explains is shared by all.

        >>> x = np.linspace(0, 10, 200)[:, None]
        >>> tgp.kernels.SpectralMixture.of_data(x, np.sin(2 * np.pi * 1.5 * x[:, 0]), 1).frequency.round(1)
        Array([[1.5]], dtype=float64)
        """
        checks.count("components", components)
        X, y = np.asarray(checks.matrix("X", X), np.float64), np.asarray(checks.floats("y", y), np.float64)
        if y.shape != X.shape[:1]:
            raise ValueError(f"y must have shape ({len(X)},), one target for each row of X, got {y.shape}")
        X = X if active_dims is None else X[:, list(active_dims)]
        rng = np.random.default_rng(seed)
        chosen = rng.permutation(len(X))[:_ROWS]
        X, left = X[chosen] - X[chosen].mean(axis=0), y[chosen] - y[chosen].mean()
        width = np.where(np.ptp(X, axis=0) > 0, np.ptp(X, axis=0), 1.0)
        # Up to half a period between neighbours on a grid of so many rows, slow waves as likely as quick ones.
        most = max(1.0, 0.5 * len(X) ** (1 / X.shape[1]))
        size = np.exp(rng.uniform(np.log(0.25), np.log(most), size=(_TRIED, X.shape[1])))
        tried = size * rng.choice([-1.0, 1.0], size=size.shape) / width
        waves = np.exp(2j * np.pi * (X @ tried.T))
        total, found, weights = np.var(left), [], []
        for _ in range(components):
            best = int(np.argmax(np.abs(left @ waves)))
            basis = np.stack([waves[:, best].real, waves[:, best].imag], axis=1)
            fitted = basis @ np.linalg.lstsq(basis, left, rcond=None)[0]
            left = left - fitted
            found.append(tried[best])
            weights.append(np.var(fitted))
        total = total if total > 0 else 1.0
        weights = np.maximum(np.array(weights) + np.var(left) / components, 1e-3 * total)
        return cls(weights, np.array(found), np.tile(width / 2, (components, 1)), active_dims)

    @property
    def stationary(self):
        return True

    def matrix(self, X, X2):
        if X.shape[1] != self.frequency.shape[1]:
            raise ValueError(
                f"frequency has shape {self.frequency.shape} but the kernel sees {X.shape[1]} input column(s); "
                f"pass {X.shape[1]} frequencies for each component"
            )
        # Angles of centred rows keep their digits.
        centre = jax.lax.stop_gradient(jnp.mean(X if X2 is None else X2, axis=0))
        A, B = X - centre, None if X2 is None else X2 - centre
        total = 0.0
        for weight, frequency, lengthscale in zip(self.weight, self.frequency, self.lengthscale, strict=True):
            bump = jnp.exp(-0.5 * squared_distance(A / lengthscale, None if B is None else B / lengthscale))
            left, right = _wave(A, frequency), _wave(A if B is None else B, frequency)
            total = total + weight * bump * (left @ right.T)
        return total

    def variances(self, X):
        return jnp.broadcast_to(jnp.sum(self.weight), (X.shape[0],))

    def length_scales(self, num_inputs):
        # At short distances the kernel is a squared exponential with this curvature.
        curvature = self.lengthscale**-2.0 + (2 * jnp.pi * self.frequency) ** 2
        mean = jnp.sum(self.weight[:, None] * curvature, axis=0) / jnp.sum(self.weight)
        return self.over_all_inputs(jax.lax.rsqrt(mean), num_inputs, jnp.inf)


def _wave(X: Float[Array, "n d"], frequency: Float[Array, " d"]) -> Float[Array, "n 2"]:
    """Cosine and sine of each row's angle; their inner products are cosines of differences."""
    angle = 2 * jnp.pi * (X @ frequency)
    return jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1)
