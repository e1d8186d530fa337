"""The kernel of a function together with its partial derivatives (maths 15.6)."""

import jax
import jax.numpy as jnp

from tightgp.kernels.base import Kernel
from tightgp.kernels.stationary import RationalQuadratic, SquaredExponential, squared_distance


class WithGradients(Kernel):
    """Covariances of values and partial derivatives: the last column of X says which one a row is (maths 15.6).

    A row whose last column is 0 has the value f(x) for its target, one with d = 1, 2, … the derivative ∂f/∂x_d. Noise
    is the model's, and that of `Dataset.noise_variance` row by row. The mean must be zero. Inducing inputs are such
    rows too: take them by `inducing.subset` or `inducing.greedy_variance`; k-means would average the last column.

    Args:
        kernel: a `SquaredExponential` or `RationalQuadratic` of all other columns; others are too rough.

    >>> kernel = tgp.kernels.WithGradients(tgp.kernels.SquaredExponential(lengthscale=0.5))
    >>> abs(kernel(np.array([[0.3, 0.0], [0.3, 1.0]])))  # value and derivative at one place
    Array([[1., 0.],
           [0., 4.]], dtype=float64)
    """

    kernel: SquaredExponential | RationalQuadratic

    def __init__(self, kernel):
        if type(kernel) not in (SquaredExponential, RationalQuadratic):
            raise ValueError(
                "kernel must be a SquaredExponential or a RationalQuadratic, whose functions are differentiable; "
                f"got {type(kernel).__name__}"
            )
        if kernel.active_dims is not None:
            raise ValueError("kernel must see all inputs: leave out active_dims, and leave other columns out of X")
        self.kernel = kernel

    def matrix(self, X, X2):
        (A, of_a), (B, of_b) = self._split(X), self._split(X if X2 is None else X2)
        lengthscale = jnp.broadcast_to(self.kernel.lengthscale, A.shape[1:])
        rho, first, second = self._derivatives(
            squared_distance(A / lengthscale, None if X2 is None else B / lengthscale)
        )
        # Column 0 stands for no derivative: its differences are multiplied away below.
        a, b = jnp.maximum(of_a - 1, 0), jnp.maximum(of_b - 1, 0)
        inverse = lengthscale**-2.0
        left = (A[jnp.arange(len(A)), a][:, None] - B.T[a]) * inverse[a][:, None]
        right = (A[:, b] - B[jnp.arange(len(B)), b][None]) * inverse[b]
        both = -4 * second * left * right - 2 * first * jnp.where(a[:, None] == b, inverse[b], 0.0)
        of_value = jnp.where((of_b > 0)[None], -2 * first * right, rho)
        of_slope = jnp.where((of_b > 0)[None], both, 2 * first * left)
        return self.kernel.variance * jnp.where((of_a > 0)[:, None], of_slope, of_value)

    def variances(self, X):
        inputs, of = self._split(X)
        inverse = jnp.broadcast_to(self.kernel.lengthscale, inputs.shape[1:]) ** -2.0
        slope = -2 * self._derivatives(jnp.zeros((), X.dtype))[1]
        return self.kernel.variance * jnp.where(of > 0, slope * inverse[jnp.maximum(of - 1, 0)], 1.0)

    def _derivatives(self, r2):
        """The correlation ρ(r²) with its first and second derivative."""

        def slope(r2):
            return jax.jvp(self.kernel.correlation, (r2,), (jnp.ones_like(r2),))

        (rho, first), (_, second) = jax.jvp(slope, (r2,), (jnp.ones_like(r2),))
        return rho, first, second

    def _split(self, X):
        """Inputs (n, d), and of which of them each row is a derivative (n,); 0 for a value."""
        d = X.shape[1] - 1
        if d < 1:
            raise ValueError("X must have the inputs and, last, a column that is 0 for values and d for derivatives")
        of = X[:, -1]
        if not isinstance(of, jax.core.Tracer) and not bool(jnp.all((of == jnp.round(of)) & (of >= 0) & (of <= d))):
            raise ValueError(
                f"the last column of X must be 0 for a value, or 1 to {d} for the derivative by that input"
            )
        return X[:, :-1], jax.lax.stop_gradient(jnp.round(of)).astype(int)

    def length_scales(self, num_inputs):
        return jnp.append(self.kernel.length_scales(num_inputs - 1), jnp.inf)
