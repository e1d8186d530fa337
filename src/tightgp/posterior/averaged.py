"""An average of posteriors, one for each draw of the hyperparameters (maths 16.3)."""

import math
from collections.abc import Callable, Iterable

import jax
import jax.numpy as jnp
import numpy as np

from tightgp import checks
from tightgp.posterior.posterior import Posterior


class AveragedPosterior:
    """A mixture of posteriors with equal weights: what is predicted when hyperparameters are uncertain.

    Its methods take the same arguments as those of `Posterior`. Means and variances are those of the mixture, which is
    not Gaussian; densities and draws are the mixture's own.

    Args:
        posteriors: the posteriors, one for each draw.

    >>> models = [tgp.ExactGP(tgp.kernels.Matern32(lengthscale=ell), 0.1) for ell in (0.5, 1.0)]
    >>> post = tgp.AveragedPosterior(model.posterior(tgp.Dataset(X, y)) for model in models)
    >>> mean, var = post.predict_y(X[:3])
    >>> mean.shape
    (3,)
    """

    def __init__(self, posteriors: Iterable[Posterior]):
        self.posteriors = tuple(posteriors)
        if not self.posteriors:
            raise ValueError("posteriors is empty; it needs at least one posterior")

    def predict_f(self, X, *, full_cov: bool = False, **how):
        """Mean and variance of the function, or with ``full_cov`` its joint covariance."""
        return _moments([post.predict_f(X, full_cov=full_cov, **how) for post in self.posteriors], full_cov)

    def predict_y(self, X, *, full_cov: bool = False, **how):
        """Mean and variance of a new target, or with ``full_cov`` the joint covariance of new targets."""
        return _moments([post.predict_y(X, full_cov=full_cov, **how) for post in self.posteriors], full_cov)

    def log_density(self, X, y, **how):
        """Log density of each target under the mixture, in the shape of ``y``."""
        each = jnp.stack([post.log_density(X, y, **how) for post in self.posteriors])
        return jax.nn.logsumexp(each, axis=0) - math.log(len(each))

    def sample_f(self, key, X, num_samples: int = 1, **how):
        """Joint draws of the function, from the posteriors in turn: (num_samples, n) or (num_samples, n, P)."""
        return self._draws(key, num_samples, lambda post, key, count: post.sample_f(key, X, count, **how))

    def sample_y(self, key, X, num_samples: int = 1, **how):
        """Draws of new targets, from the posteriors in turn: (num_samples, n) or (num_samples, n, P)."""
        return self._draws(key, num_samples, lambda post, key, count: post.sample_y(key, X, count, **how))

    def _draws(self, key, num_samples: int, draw: Callable):
        """Draws from posteriors in a random order, as equally often as can be."""
        checks.count("num_samples", num_samples)
        order = np.asarray(jax.random.permutation(key, len(self.posteriors)))
        counts = np.bincount(order[np.arange(num_samples) % len(order)], minlength=len(order))
        parts = [
            draw(post, jax.random.fold_in(key, i), int(count))
            for i, (post, count) in enumerate(zip(self.posteriors, counts, strict=True))
            if count
        ]
        return jnp.concatenate(parts)

    def __repr__(self) -> str:
        return f"AveragedPosterior of {len(self.posteriors)} posteriors"


def _moments(each: list, full_cov: bool):
    """Mean and (co)variance of a mixture with equal weights."""
    means, spreads = (jnp.stack(parts) for parts in zip(*each, strict=True))
    mean = jnp.mean(means, axis=0)
    off = means - mean
    if not full_cov:
        return mean, jnp.mean(spreads + off * off, axis=0)
    between = jnp.einsum("sn,sm->nm" if off.ndim == 2 else "snp,smp->pnm", off, off) / len(off)
    return mean, jnp.mean(spreads, axis=0) + between
