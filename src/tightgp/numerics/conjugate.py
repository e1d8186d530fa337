"""Conjugate gradients for many right-hand sides at once, and what their coefficients say of the spectrum.

The steps of conjugate gradients on ``Bx = b`` are those of a Lanczos process: their coefficients make a tridiagonal
matrix whose eigenvalues and vectors are a Gauss quadrature for ``bᵀf(B)b`` (Golub & Meurant 2010).
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Array, Float


class State(NamedTuple):
    """Where the iterations stand, a column for each right-hand side."""

    solution: Float[Array, "n p"]
    residual: Float[Array, "n p"]
    direction: Float[Array, "n p"]
    squares: Float[Array, " p"]
    first: Float[Array, " p"]


class Coefficients(NamedTuple):
    """Step lengths and ratios of squared residuals, a row for each step; zero from where a column has converged."""

    step: Float[Array, "k p"]
    ratio: Float[Array, "k p"]


def start(b: Float[Array, "n p"]) -> State:
    """The state of ``Bx = b`` at ``x = 0``."""
    squares = jnp.sum(b * b, axis=0)
    return State(jnp.zeros_like(b), b, b, squares, squares)


def advance(apply: Callable, state: State, steps: int) -> tuple[State, Coefficients]:
    """Take ``steps`` steps, each with one product ``apply(U) = BU``; columns that have converged stay as they are."""
    tiny = jnp.finfo(state.residual.dtype).eps ** 2

    def step(s: State, _):
        product = apply(s.direction)
        curvature = jnp.sum(s.direction * product, axis=0)
        going = (s.squares > tiny * s.first) & (curvature > 0)
        length = jnp.where(going, s.squares / jnp.where(going, curvature, 1.0), 0.0)
        residual = s.residual - length * product
        squares = jnp.sum(residual * residual, axis=0)
        ratio = jnp.where(going, squares / jnp.where(going, s.squares, 1.0), 0.0)
        direction = jnp.where(going, residual + ratio * s.direction, s.direction)
        return State(s.solution + length * s.direction, residual, direction, squares, s.first), (length, ratio)

    state, (length, ratio) = jax.lax.scan(step, state, None, length=steps)
    return state, Coefficients(length, ratio)


class Nodes(NamedTuple):
    """Nodes and weights of a quadrature; the weights sum to one."""

    at: np.ndarray
    weight: np.ndarray

    def mean(self, function: Callable) -> float:
        """The quadrature of a function."""
        return float(self.weight @ function(self.at))


def quadratures(step: np.ndarray, ratio: np.ndarray, least: float) -> tuple[Nodes, Nodes]:
    """Gauss and Gauss–Radau quadratures of ``f ↦ bᵀf(B)b / bᵀb`` from the coefficients of one column.

    The second has a node at ``least``, which must not exceed any eigenvalue of ``B``. For ``f = −log`` the first is
    never above the truth and the second never below it.
    """
    done = int(np.argmax(step <= 0)) if np.any(step <= 0) else len(step)
    step, ratio = step[:done], ratio[:done]
    diagonal = 1 / step
    diagonal[1:] += ratio[:-1] / step[:-1]
    below = np.sqrt(ratio) / step
    at, vectors = scipy.linalg.eigh_tridiagonal(diagonal, below[:-1])
    gauss = Nodes(at, vectors[0] ** 2)
    if below[-1] <= np.finfo(float).eps * at[-1]:
        return gauss, gauss  # the whole Krylov space is exhausted, and the quadrature is exact
    least = min(least, at[0] * (1 - 1e-12))
    inverse = np.sum(vectors[-1] ** 2 / (at - least))
    last = least + below[-1] ** 2 * inverse
    at, vectors = scipy.linalg.eigh_tridiagonal(np.append(diagonal, last), below)
    return gauss, Nodes(at, vectors[0] ** 2)
