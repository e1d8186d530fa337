"""Kernels of places on a sphere, given by latitude and longitude in degrees (maths 15.2)."""

import math

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from tightgp import checks
from tightgp.kernels.base import ConstantVariance, Kernel
from tightgp.kernels.stationary import squared_distance
from tightgp.parameters import FLOOR, Parameter, positive, reader

#: The Earth's mean radius in kilometres.
EARTH = 6371.0088


def on_sphere(X: Float[Array, "n a"]) -> Float[Array, "n 3"]:
    """Latitudes and longitudes in degrees (n, 2) as points on the unit sphere."""
    if X.shape[1] != 2:
        raise ValueError(
            f"a kernel on a sphere sees two columns, latitude and longitude in degrees, got {X.shape[1]}; "
            "choose them by active_dims"
        )
    latitude, longitude = jnp.deg2rad(X[:, 0]), jnp.deg2rad(X[:, 1])
    across = jnp.cos(latitude)
    return jnp.stack([across * jnp.cos(longitude), across * jnp.sin(longitude), jnp.sin(latitude)], axis=1)


def _degrees(length, radius: float):
    """A length along the sphere in degrees of latitude."""
    return length / (radius * math.pi / 180)


class GreatCircle(ConstantVariance):
    """``k(x, x') = σ_f² exp(−R θ/ℓ)`` with the angle θ between two places: Matérn-1/2 of the great-circle distance Rθ.

    The squared exponential and smoother Matérn functions of that distance are no kernels: their matrices may have
    negative eigenvalues (maths 15.2). For smooth functions use `OnSphere`.

    Args:
        variance: the prior variance σ_f².
        lengthscale: the lengthscale ℓ, in the unit of ``radius``.
        radius: the sphere's radius R; by default the Earth's, in kilometres.
        active_dims: the two columns of X with latitude and longitude in degrees; None if there are no others.

    >>> kernel = tgp.kernels.GreatCircle(lengthscale=500.0)
    >>> london, paris = np.array([[51.5, -0.13]]), np.array([[48.86, 2.35]])
    >>> kernel(london, paris)  # 343 km
    Array([[0.50...]], dtype=float64)
    """

    _lengthscale: Parameter
    radius: float = eqx.field(static=True)
    lengthscale = reader("_lengthscale", "Lengthscale ℓ, in the unit of the radius.")

    def __init__(self, variance=1.0, lengthscale=1000.0, radius=EARTH, active_dims=None):
        super().__init__(variance, active_dims)
        self._lengthscale = positive(lengthscale, name="lengthscale", floor=FLOOR, scalar=True)
        self.radius = float(checks.positive("radius", checks.number("radius", radius)))

    @property
    def stationary(self):
        return False

    def matrix(self, X, X2):
        chord2 = squared_distance(on_sphere(X), None if X2 is None else on_sphere(X2))
        return self.variance * jnp.exp(-self.radius * _angle(chord2) / self.lengthscale)

    def length_scales(self, num_inputs):
        both = jnp.broadcast_to(_degrees(self.lengthscale, self.radius), (2,))
        return self.over_all_inputs(both, num_inputs, jnp.inf)


def _angle(chord2: Float[Array, "n k"]) -> Float[Array, "n k"]:
    """The angle over squared chords of the unit sphere, with derivative zero where places coincide or are opposite."""
    sine2 = chord2 / 4
    inside = (sine2 > 0) & (sine2 < 1 - 4 * jnp.finfo(chord2.dtype).eps)
    angle = 2 * jnp.arcsin(jnp.sqrt(jnp.where(inside, sine2, 0.5)))
    return jnp.where(inside, angle, jnp.where(sine2 > 0, jnp.pi, 0.0))


class OnSphere(Kernel):
    """``k(x, x') = k_3(R s(x), R s(x'))``: any kernel of the points in space that two places are (maths 15.2).

    A kernel of distance sees that of the straight line between them, ``2R sin(θ/2)``, which is within 1 % of the
    great-circle distance up to 3000 km on the Earth. There is no seam at ±180° and none at the poles.

    Args:
        kernel: a kernel of three inputs, such as ``tgp.kernels.Matern52(lengthscale=500.0)``.
        radius: the sphere's radius R; by default the Earth's, in kilometres. Lengthscales are in its unit.
        active_dims: the two columns of X with latitude and longitude in degrees; None if there are no others.

    >>> kernel = tgp.kernels.OnSphere(tgp.kernels.Matern52(lengthscale=500.0), active_dims=[0, 1])
    >>> kernel(np.array([[0.0, 180.0]]), np.array([[0.0, -180.0]]))
    Array([[1.]], dtype=float64)
    """

    kernel: Kernel
    radius: float = eqx.field(static=True)

    def __init__(self, kernel, radius=EARTH, active_dims=None):
        checks.instance("kernel", kernel, Kernel, "tightgp.kernels")
        self.kernel, self.active_dims = kernel, active_dims
        self.radius = float(checks.positive("radius", checks.number("radius", radius)))

    def matrix(self, X, X2):
        return self.kernel(self._points(X), None if X2 is None else self._points(X2))

    def variances(self, X):
        return self.kernel.diagonal(self._points(X))

    def _points(self, X):
        return self.radius * on_sphere(X)

    def length_scales(self, num_inputs):
        both = jnp.broadcast_to(_degrees(jnp.min(self.kernel.length_scales(3)), self.radius), (2,))
        return self.over_all_inputs(both, num_inputs, jnp.inf)
