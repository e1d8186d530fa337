"""The posterior of a deep GP: a mixture over paths through its hidden layers, each with an answer in closed form."""

import math
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tightgp import checks
from tightgp.data.rows import Rows
from tightgp.numerics.chunks import map_rows
from tightgp.numerics.linalg import NumericalError
from tightgp.posterior import arguments
from tightgp.posterior.posterior import Posterior

#: Paths that a score on held-out rows takes: it is asked for after each epoch.
_SCORED = 20


class DeepPosterior(eqx.Module):
    """Layers one after another (maths 7.6f): each of ``hidden`` gives the inputs of the next, ``output`` the targets.

    Answers about single rows are averages over ``num_samples`` paths. All rows take the same draws, each with its
    mirror image, so a row's answer does not depend on the others, and the same ``key`` (None is a fixed one) gives it
    again. Memory grows neither with the rows nor with the draws.
    """

    hidden: tuple[Posterior, ...]
    output: Posterior

    def predict_f(self, X, num_samples: int = 100, key=None):
        """Mean and variance of the last layer's functions at ``X``, (n,) or (n, P): those of the mixture."""
        return tuple(map(self._shaped, _moments(self, self._inputs(X), None, self._draws(num_samples, key), False)))

    def predict_y(self, X, num_samples: int = 100, key=None, *, noise_variance=None):
        """Mean and variance of a new target at ``X``; for several classes, probabilities (n, C) and theirs.

        ``noise_variance`` (n,) adds each test row's own known noise.
        """
        X = self._inputs(X)
        known = arguments.known_noise(noise_variance, X)
        return tuple(map(self._shaped, _moments(self, X, known, self._draws(num_samples, key), True)))

    def log_density(self, X, y, num_samples: int = 100, key=None, *, noise_variance=None, missing: bool = False):
        """Log density of each target under the predictive mixture, in the shape of ``y``.

        With ``missing=True`` the NaN of ``y`` are outputs that were not seen; their densities are NaN.
        """
        X = self._inputs(X)
        shape = (len(X),) if self.output.vector else (len(X), self.output.num_outputs)
        y = arguments.check_targets(y, shape, self.output.likelihood, X.dtype, missing)
        densities = _densities(self, X, y, arguments.known_noise(noise_variance, X), self._draws(num_samples, key))
        return self._shaped(jnp.where(jnp.isnan(y), jnp.nan, densities))

    def sample_f(self, key, X, num_samples: int = 1):
        """Joint draws of the whole composition at ``X``: (num_samples, n) or (num_samples, n, P). O(n³) a draw."""
        checks.count("num_samples", num_samples)
        X = self._inputs(X)
        arguments.check_joint_size("sample_f", X)
        draws = _sample(self, X, jax.random.split(key, num_samples))
        if not isinstance(draws, jax.core.Tracer) and not bool(jnp.all(jnp.isfinite(draws))):
            raise NumericalError("the joint covariance of a layer could not be factorised; use float64 or fewer rows")
        return draws

    def sample_y(self, key, X, num_samples: int = 1, noise_variance=None):
        """Draws of new targets at ``X``, given joint draws of the function: (num_samples, n) or (..., n, P)."""
        function_key, target_key = jax.random.split(key)
        F = self.sample_f(function_key, X, num_samples)
        known = arguments.known_noise(noise_variance, self._inputs(X))
        likelihood = arguments.with_noise(self.output.likelihood, known)
        return self._shaped(likelihood.sample(target_key, F if F.ndim == 3 else F[..., None]))

    @property
    def noise_variance(self) -> Float[Array, "*p"]:
        """Noise variance σ²."""
        return self.output.noise_variance

    def row_log_densities(self, rows: Rows, key: jax.Array) -> Float[Array, "n p"]:
        """Log densities of the targets of `Rows`; arbitrary numbers where a target is missing. Pure."""
        return _densities(self, rows.X, rows.y, rows.noise_variance, self._draws(_SCORED, key))

    def without_rows(self) -> "DeepPosterior":
        """This posterior, which keeps no training rows."""
        return self

    def _draws(self, num_samples: int, key) -> tuple[Float[Array, "s 1 l"], ...]:
        """Standard normal draws for each hidden layer, the second half the mirror image of the first."""
        checks.count("num_samples", num_samples)
        key, draws = jax.random.key(0) if key is None else key, []
        for i, group in enumerate(layer.latents[0] for layer in self.hidden):
            shape = (-(-num_samples // 2), 1, group.num_functions)
            half = jax.random.normal(jax.random.fold_in(key, i), shape, group.Z.dtype)
            draws.append(jnp.concatenate([half, -half])[:num_samples])
        return tuple(draws)

    def _inputs(self, X):
        return arguments.check_inputs(X, self.hidden[0].latents[0].Z)

    def _shaped(self, values):
        return arguments.without_columns(values, self.output.vector)


def paths(hidden: tuple[Posterior, ...], X: Float[Array, "n d"], draws) -> Float[Array, "s n l"]:
    """Where rows come out of the hidden layers (maths 7.6c): s paths of each row, by itself.

    ``draws`` are standard normal ones of each layer: (s, n, l), or (s, 1, l) where all rows take the same.
    """
    H = X[None]
    for layer, noise in zip(hidden, draws, strict=True):
        mean, var = _at_paths(layer, H)
        H = mean + jnp.sqrt(jnp.maximum(var, jnp.finfo(var.dtype).tiny)) * noise
    return H


def _at_paths(layer: Posterior, H: Float[Array, "s n d"]):
    """A layer's means and variances (s, n, l)."""
    return tuple(a.reshape(*H.shape[:2], -1) for a in layer.predict_f(H.reshape(-1, H.shape[2])))


def _map_rows(function, post: DeepPosterior, draws, known, *arrays):
    """Apply ``function`` to the likelihood, with the rows' ``known`` noise in it, and arrays, in chunks of rows."""
    likelihood = post.output.likelihood
    inducing = max(len(group.Z) for layer in (*post.hidden, post.output) for group in layer.latents)
    width = len(draws[0]) * max(inducing, likelihood.numbers_per_row)
    if known is None:
        return map_rows(partial(function, likelihood), width, *arrays)
    return map_rows(lambda known, *part: function(likelihood.with_known(known), *part), width, known, *arrays)


@eqx.filter_jit
def _moments(post: DeepPosterior, X, known, draws, targets: bool):
    """Mean and variance of a mixture with equal weights, of functions or of targets."""

    def at(likelihood, x):
        means, variances = _at_paths(post.output, paths(post.hidden, x, draws))
        if targets:
            means, variances = jax.vmap(likelihood.predict)(means, variances)
        mean = jnp.mean(means, axis=0)
        return mean, jnp.mean(variances + (means - mean) ** 2, axis=0)

    return _map_rows(at, post, draws, known, X)


@eqx.filter_jit
def _densities(post: DeepPosterior, X, y, known, draws):
    """The log of the mean density over the paths."""

    def at(likelihood, x, y):
        y = jnp.where(jnp.isnan(y), likelihood.filler, y)
        moments = _at_paths(post.output, paths(post.hidden, x, draws))
        each = jax.vmap(lambda mean, var: likelihood.predictive_log_density(mean, var, y))(*moments)
        return jax.nn.logsumexp(each, axis=0) - math.log(len(each))

    return _map_rows(at, post, draws, known, X, y)


@eqx.filter_jit
def _sample(post: DeepPosterior, X, keys):
    def draw(key):
        H = X
        for i, layer in enumerate(post.hidden):
            H = layer.sample_f(jax.random.fold_in(key, i), H)[0]
        return post.output.sample_f(jax.random.fold_in(key, len(post.hidden)), H)[0]

    return jax.lax.map(draw, keys)
