"""What every posterior can do: predict, score, sample. Factors are computed once, when it is made."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tightgp import checks, local, predictive, psi
from tightgp.data import Batch
from tightgp.diagnosis import NumericalError
from tightgp.latents import Latents
from tightgp.likelihoods import Gaussian, Likelihood
from tightgp.means import Constant, Mean, Zero
from tightgp.refinement import Training, refine
from tightgp.spread import Spread, checked_variance

#: Joint covariances and samples need a matrix of test points by test points.
_MAX_JOINT = 20_000


class Posterior(eqx.Module):
    """``q(f*) = N(m(x*) + a*ᵀm, v d* + a*ᵀSa*)`` of each latent function (maths 8.1), and what is made of it.

    ``latents`` hold q(w) = N(m, S); ``mixing`` makes P functions of L latent ones; ``scale`` is v (8.3), or None
    for one. The exact posterior is the case of inducing inputs at the data, with the factor of ``Kff + σ²I``
    and no S.
    """

    latents: tuple[Latents, ...]
    mean: Mean
    likelihood: Likelihood
    mixing: Float[Array, "p l"] | None
    scale: Float[Array, " l"] | None
    training: Training | None
    vector: bool = eqx.field(static=True)

    def predict_f(
        self,
        X,
        *,
        full_cov: bool = False,
        exact_conditional: bool = False,
        neighbours: int | None = None,
        input_variance=None,
    ):
        """Mean and variance of the function at ``X`` (n, D).

        Both are (n,) where there is one function and the targets were (N,), else (n, P). ``full_cov=True`` gives
        the joint covariance, (n, n) or (P, n, n). ``exact_conditional=True`` uses the trained V in q(f|u) also
        for the test points (maths 8.2): the same mean, a variance that is never larger, O(N³).

        ``neighbours=K`` conditions each test point also on its K nearest training rows (maths 8.4): nearer to the
        exact GP, at K³ + K²M a point and the search in a tree (slow in more than some twenty inputs), for Gaussian
        noise. A joint covariance is given all neighbours of all of ``X``.

        With ``input_variance`` (one number, (D,) or (n, D)) the inputs are Gaussian about ``X``: mean and variance
        are those of the function at an input so drawn (maths 7.5), which is not Gaussian itself.
        """
        X = self._inputs(X)
        if full_cov:
            if input_variance is not None:
                raise ValueError("input_variance goes with single test points: leave out full_cov=True")
            self._limit("full_cov", X)
            mean, cov = self._jointly(X, exact_conditional, neighbours)
            cov = jnp.broadcast_to(cov, (mean.shape[1], *cov.shape[1:]))
            return (mean[:, 0], cov[0]) if self.vector and mean.shape[1] == 1 else (mean, cov)
        mean, var = self._singly(X, exact_conditional, neighbours, input_variance)
        return self._shaped(mean), self._shaped(var)

    def predict_y(
        self,
        X,
        *,
        full_cov: bool = False,
        exact_conditional: bool = False,
        neighbours: int | None = None,
        noise_variance=None,
        input_variance=None,
    ):
        """Mean and variance of a new target at ``X``; for several classes, probabilities (n, C) and theirs.

        ``noise_variance`` (n,) adds each test row's own known noise; ``full_cov`` goes with Gaussian noise.
        ``input_variance`` is that of `predict_f`; likelihoods other than Gaussian take the function there for Gaussian.
        """
        X = self._inputs(X)
        likelihood = self._seen(noise_variance, X)
        if full_cov:
            if not isinstance(likelihood, Gaussian):
                raise ValueError(f"full_cov=True of predict_y needs Gaussian noise, not {type(likelihood).__name__}")
            mean, cov = self.predict_f(
                X,
                full_cov=True,
                exact_conditional=exact_conditional,
                neighbours=neighbours,
                input_variance=input_variance,
            )
            noise = jnp.broadcast_to(likelihood.variance, (len(X), 1 if mean.ndim == 1 else mean.shape[1]))
            return mean, cov + (jnp.diag(noise[:, 0]) if mean.ndim == 1 else jax.vmap(jnp.diag)(noise.T))
        there = self._singly(X, exact_conditional, neighbours, input_variance)
        mean, var = predictive.apply(likelihood, "predict", *there)
        return self._shaped(mean), self._shaped(var)

    def log_density(
        self,
        X,
        y,
        *,
        exact_conditional: bool = False,
        neighbours: int | None = None,
        noise_variance=None,
        missing: bool = False,
        input_variance=None,
    ):
        """Log density of each target under the predictive distribution, in the shape of ``y``.

        With ``missing=True`` the NaN of ``y`` are outputs that were not seen; their densities are NaN. With
        ``input_variance`` the function at an uncertain input is taken for a Gaussian of its mean and variance.
        """
        X = self._inputs(X)
        y = self._targets(y, X, missing)
        mean, var = self._singly(X, exact_conditional, neighbours, input_variance)
        seen, gone = self._seen(noise_variance, X), jnp.isnan(y)
        densities = predictive.apply(seen, "predictive_log_density", mean, var, jnp.where(gone, seen.filler, y))
        return self._shaped(jnp.where(gone, jnp.nan, densities))

    def sample_f(self, key, X, num_samples: int = 1, *, neighbours: int | None = None):
        """Joint draws of the function at ``X``: (num_samples, n) or (num_samples, n, P)."""
        checks.count("num_samples", num_samples)
        X = self._inputs(X)
        self._limit("sample_f", X)
        parts = None if neighbours is None else local.joint(self, self._known(X), self._local(neighbours))
        draws = predictive.sample(self.without_rows(), parts, X, key, num_samples)
        if not isinstance(draws, jax.core.Tracer) and not bool(jnp.all(jnp.isfinite(draws))):
            raise NumericalError("the joint covariance at X could not be factorised; use float64 or fewer rows")
        return self._shaped(draws)

    def sample_y(self, key, X, num_samples: int = 1, noise_variance=None, *, neighbours: int | None = None):
        """Draws of new targets at ``X``, given joint draws of the function: (num_samples, n) or (..., n, P)."""
        function_key, target_key = jax.random.split(key)
        F = self.sample_f(function_key, X, num_samples, neighbours=neighbours)
        likelihood = self._seen(noise_variance, self._inputs(X))
        return self._shaped(likelihood.sample(target_key, F if F.ndim == 3 else F[..., None]))

    @property
    def noise_variance(self) -> Float[Array, "*p"]:
        """Noise variance σ²."""
        if not hasattr(self.likelihood, "noise_variance"):
            raise ValueError(f"{type(self.likelihood).__name__} has no noise variance")
        return self.likelihood.noise_variance

    @property
    def scales(self) -> Float[Array, " n"]:
        """The optimal v_i of each training row (the diagonal of V): near 1 where the inducing points suffice."""
        t = self._trained()
        V = t.optimal_V(self.latents[0])
        v = jnp.diagonal(V, axis1=1, axis2=2).reshape(-1)[: len(t.rows.X)]
        return v if t.order is None else jnp.zeros_like(v).at[t.order].set(v)

    def residual_variance(self, X) -> Float[Array, "..."]:
        """What the inducing points leave of the prior's variance at ``X``: d (n,), or (n, G) for G kernels or sets.

        Near zero where more of them would not help; of the size of the kernel's variance where there are none near.
        """
        X = self._inputs(X)
        width = max(len(group.Z) for group in self.latents)
        left = predictive.residuals(self, X, width)
        return left[:, 0] if left.shape[1] == 1 else left

    def log_density_of(self, batch: Batch) -> Float[Array, "n p"]:
        """Log densities of a batch's targets; what stands where one is missing means nothing."""
        likelihood = self.likelihood if batch.known is None else self.likelihood.with_known(batch.known)
        if batch.spread is None:
            mean, var = predictive.marginals(self, None, batch.X)
        else:
            self._check_averages(len(batch.spread.columns))
            mean, var = predictive.averages(self, batch.X, batch.spread)
        y = jnp.where(jnp.isnan(batch.y), likelihood.filler, batch.y)
        return likelihood.predictive_log_density(mean, var, y, batch.key)

    def without_rows(self) -> "Posterior":
        """This posterior without the training rows, smaller and fit to be given away; it cannot predict locally."""
        return eqx.tree_at(lambda post: post.training, self, None, is_leaf=lambda x: x is None)

    def _trained(self) -> Training:
        if self.training is None or self.training.process is None:
            raise ValueError(
                "this posterior keeps no training rows, so no v_i and no conditional to refine: it is exact, made "
                "from an explicit q(u), or without_rows()"
            )
        return self.training

    def _local(self, neighbours: int) -> int:
        """The number of neighbours, where prediction from them is possible."""
        checks.count("neighbours", neighbours)
        if type(self.likelihood) is not Gaussian:
            raise ValueError(f"neighbours needs Gaussian noise, not {type(self.likelihood).__name__}; leave it out")
        if self.mixing is not None:
            raise ValueError("neighbours needs outputs with functions of their own, not a mixing; leave it out")
        if self.scale is not None:
            raise ValueError("neighbours uses the prior's conditional: make the posterior with scaled=False")
        if self.training is not None and self.training.rows.spread is not None:
            raise ValueError("neighbours needs training inputs that are known, and these have an input_variance")
        if self.training is None:
            raise ValueError(
                "neighbours needs training rows, and this posterior keeps none: make it by posterior(data), without "
                "without_rows(); an exact posterior has no use for them"
            )
        return neighbours

    def _singly(self, X, exact_conditional: bool, neighbours: int | None, input_variance=None):
        """Means and variances of the functions at each row."""
        spread = self._spread(X, input_variance, exact_conditional or neighbours is not None)
        if spread is not None:
            return predictive.averages(self.without_rows(), X, spread)
        if neighbours is None:
            refinement = refine(self._trained(), self.latents[0]) if exact_conditional else None
            return predictive.marginals(self.without_rows(), refinement, X)
        self._not_both(exact_conditional)
        mean, var = local.marginals(self, self._known(X), self._local(neighbours))
        return self.mean(X) + mean, jnp.asarray(var)

    def _jointly(self, X, exact_conditional: bool, neighbours: int | None):
        """Means and joint covariances of the functions."""
        if neighbours is None:
            refinement = refine(self._trained(), self.latents[0]) if exact_conditional else None
            return predictive.joint(self.without_rows(), refinement, X)
        self._not_both(exact_conditional)
        return predictive.mixed(self, local.joint(self, self._known(X), self._local(neighbours)), X)

    def _spread(self, X, input_variance, otherwise: bool) -> Spread | None:
        """How uncertain test inputs are, where that can be asked."""
        if input_variance is None:
            return None
        variance = checked_variance(input_variance, X)
        if otherwise:
            raise ValueError("input_variance needs the plain prediction: leave out exact_conditional and neighbours")
        spread = Spread.of(jnp.broadcast_to(variance, X.shape))
        if spread is not None:
            self._check_averages(len(spread.columns))
        return spread

    def _check_averages(self, columns: int) -> None:
        """Refuse what has no averages over so many uncertain columns."""
        if self.mixing is not None or not isinstance(self.mean, Zero | Constant):
            raise ValueError("input_variance needs a mean that is Zero or Constant, and no mixing")
        for group in self.latents:
            psi.check(group.kernel, group.Z.shape[1], columns)

    def _not_both(self, exact_conditional: bool) -> None:
        if exact_conditional:
            raise ValueError("neighbours and exact_conditional are two ways to predict; choose one")

    def _known(self, X):
        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((X, self))):
            raise ValueError("neighbours are looked for among known inputs: call this outside of JAX transformations")
        return X

    def _inputs(self, X):
        Z = self.latents[0].Z
        X = checks.matrix("X", X, Z.shape[1], Z.dtype)
        checks.same_dtype("X", X, "the model", Z)
        return jnp.asarray(X)

    def _targets(self, y, X, missing):
        y = checks.floats("y", y, X.dtype)
        (checks.not_infinite if missing else checks.finite)("y", y)
        wanted = (len(X),) if self.vector else (len(X), self._num_outputs())
        if y.shape != wanted:
            raise ValueError(f"y must have shape {wanted}, like the predictions at X; got {y.shape}")
        y = y[:, None] if y.ndim == 1 else y
        if not isinstance(y, jax.core.Tracer):
            self.likelihood.check_targets(y)
        return jnp.asarray(y)

    def _num_outputs(self) -> int:
        if self.likelihood.num_latents is not None:
            return 1
        return sum(g.q[0].mean.shape[1] for g in self.latents) if self.mixing is None else len(self.mixing)

    def _limit(self, what, X):
        if X.shape[0] > _MAX_JOINT:
            raise ValueError(f"{what} makes an n×n matrix; X has {X.shape[0]} rows, use at most {_MAX_JOINT}")

    def _seen(self, extra, X) -> Likelihood:
        """The likelihood of test rows with ``extra`` known noise."""
        if extra is None:
            return self.likelihood
        extra = checks.not_negative("noise_variance", extra, X.dtype)
        if extra.shape not in ((), (len(X),)):
            raise ValueError(f"noise_variance must be one number or have shape ({len(X)},), got {extra.shape}")
        return self.likelihood.with_known(jnp.broadcast_to(jnp.asarray(extra, X.dtype), (len(X),)))

    def _shaped(self, values):
        return values[..., 0] if self.vector and values.shape[-1] == 1 else values
