"""What every posterior can do: predict, score, sample. Factors are computed once, when it is made."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tightgp import checks
from tightgp.bounds.latents import Latents
from tightgp.data.rows import Rows
from tightgp.likelihoods import Gaussian, Likelihood
from tightgp.means import Mean
from tightgp.numerics.linalg import NumericalError
from tightgp.numerics.threads import with_one_blas_thread
from tightgp.posterior import arguments, conditioning, local, marginals, paths, ways
from tightgp.posterior.marginals import PosteriorFunctions
from tightgp.posterior.paths import Paths
from tightgp.posterior.training_rows import TrainingRows


class Posterior(eqx.Module):
    """``q(f*) = N(m(x*) + a*ᵀm, v d* + a*ᵀSa*)`` of each latent function (maths 8.1).

    ``latents`` hold q(w) = N(m, S); ``mixing`` makes P functions of L latent ones; ``scale`` is v (8.3), or None for
    one. The exact posterior is the case of inducing inputs at the data, with the factor of ``Kff + σ²I`` and no S.
    ``neighbours`` nearest training rows are used by predictions that do not say how many (maths 8.4): none, unless the
    model was trained with neighbours. ``is_bound`` is false under Power EP and Vecchia, whose objective is no lower
    bound on the log evidence.

    >>> model = tgp.SGPR(tgp.kernels.Matern32(), X[:20])
    >>> post = model.posterior(tgp.Dataset(X, y))
    >>> mean, var = post.predict_y(X[:5], neighbours=10)
    >>> mean.shape
    (5,)
    """

    latents: tuple[Latents, ...]
    mean: Mean
    likelihood: Likelihood
    mixing: Float[Array, "p l"] | None
    scale: Float[Array, " l"] | None
    training: TrainingRows | None
    vector: bool = eqx.field(static=True)
    neighbours: int = eqx.field(static=True, default=0)
    is_bound: bool = eqx.field(static=True, default=True)

    @with_one_blas_thread
    def predict_f(
        self,
        X,
        *,
        full_cov: bool = False,
        exact_conditional: bool = False,
        neighbours: int | None = None,
        input_variance=None,
    ):
        """Mean and variance of the function.

        Args:
            X: test inputs (n, D).
            full_cov: give the joint covariance instead of variances.
            exact_conditional: use the trained V in q(f|u) also for the test points (maths 8.2): the same mean, a
                variance that is never larger, O(N³).
            neighbours: condition each test point also on this many of its nearest training rows (maths 8.4): nearer to
                the exact GP, for Gaussian noise. A joint covariance is given all neighbours of all of ``X``. 0 predicts
                from the inducing points alone; None takes the posterior's own ``neighbours``.
            input_variance: one number, (D,) or (n, D). The inputs are Gaussian about ``X``; mean and variance are those
                of the function at an input so drawn (maths 7.5), which is not Gaussian itself.

        Returns:
            Mean and variance, both (n,) where there is one function and the targets were (N,), else (n, P). The joint
            covariance is (n, n) or (P, n, n).
        """
        X = arguments.check_inputs(X, self.latents[0].Z)
        if full_cov:
            arguments.check_joint_size("full_cov", X)
        way = self._way(X, exact_conditional, neighbours, input_variance)
        if not full_cov:
            mean, var = way.marginals(X)
            return self._shaped(mean), self._shaped(var)
        mean, cov = marginals.mixed_joint(self._functions, way.joints(X), X)
        cov = jnp.broadcast_to(cov, (mean.shape[1], *cov.shape[1:]))
        return (mean[:, 0], cov[0]) if self.vector and mean.shape[1] == 1 else (mean, cov)

    @with_one_blas_thread
    def predict_y(self, X, *, full_cov: bool = False, noise_variance=None, **how):
        """Mean and variance of a new target; for several classes, probabilities (n, C) and their variances.

        Args:
            X: test inputs (n, D).
            full_cov: give the joint covariance, for Gaussian noise.
            noise_variance: (n,), the known noise of each test row.
            **how: ``exact_conditional``, ``neighbours`` or ``input_variance``, as in `predict_f`. Likelihoods other
                than Gaussian treat the function at uncertain inputs as Gaussian.
        """
        X = arguments.check_inputs(X, self.latents[0].Z)
        likelihood = arguments.with_noise(self.likelihood, arguments.known_noise(noise_variance, X))
        if full_cov:
            if not isinstance(likelihood, Gaussian):
                raise ValueError(f"full_cov=True of predict_y needs Gaussian noise, not {type(likelihood).__name__}")
            mean, cov = self.predict_f(X, full_cov=True, **how)
            noise = jnp.broadcast_to(likelihood.variance, (len(X), 1 if mean.ndim == 1 else mean.shape[1]))
            return mean, cov + (jnp.diag(noise[:, 0]) if mean.ndim == 1 else jax.vmap(jnp.diag)(noise.T))
        mean, var = marginals.apply(likelihood, "predict", *self._way(X, **how).marginals(X))
        return self._shaped(mean), self._shaped(var)

    @with_one_blas_thread
    def log_density(self, X, y, *, noise_variance=None, missing: bool = False, **how):
        """Log density of each target under the predictive distribution.

        Args:
            X: test inputs (n, D).
            y: targets, in the shape of the predictions.
            noise_variance: (n,), the known noise of each test row.
            missing: whether NaN in ``y`` stands for outputs that were not observed; their densities are NaN.
            **how: ``exact_conditional``, ``neighbours`` or ``input_variance``, as in `predict_f`.

        Returns:
            Log densities in the shape of ``y``.
        """
        X = arguments.check_inputs(X, self.latents[0].Z)
        y = self._targets(y, X, missing)
        likelihood = arguments.with_noise(self.likelihood, arguments.known_noise(noise_variance, X))
        mean, var = self._way(X, **how).marginals(X)
        gone = jnp.isnan(y)
        filled = jnp.where(gone, likelihood.filler, y)
        densities = marginals.apply(likelihood, "predictive_log_density", mean, var, filled)
        return self._shaped(jnp.where(gone, jnp.nan, densities))

    @with_one_blas_thread
    def sample_f(self, key, X, num_samples: int = 1, *, neighbours: int | None = None):
        """Joint draws of the function at ``X``: (num_samples, n) or (num_samples, n, P)."""
        checks.count("num_samples", num_samples)
        X = arguments.check_inputs(X, self.latents[0].Z)
        arguments.check_joint_size("sample_f", X)
        joints = self._way(X, neighbours=neighbours).joints(X)
        draws = marginals.draws(self._functions, joints, X, key, num_samples)
        if not isinstance(draws, jax.core.Tracer) and not bool(jnp.all(jnp.isfinite(draws))):
            raise NumericalError("the joint covariance at X could not be factorised; use float64 or fewer rows")
        return self._shaped(draws)

    def sample_y(self, key, X, num_samples: int = 1, noise_variance=None, *, neighbours: int | None = None):
        """Draws of new targets at ``X``, given joint draws of the function: (num_samples, n) or (..., n, P)."""
        function_key, target_key = jax.random.split(key)
        F = self.sample_f(function_key, X, num_samples, neighbours=neighbours)
        known = arguments.known_noise(noise_variance, arguments.check_inputs(X, self.latents[0].Z))
        likelihood = arguments.with_noise(self.likelihood, known)
        return self._shaped(likelihood.sample(target_key, F if F.ndim == 3 else F[..., None]))

    @with_one_blas_thread
    def sample_paths(self, key, num_samples: int = 1, *, num_features: int = 512, near=None, neighbours=None) -> Paths:
        """Functions drawn from the posterior, to be evaluated anywhere afterwards, and differentiable (maths 16.5).

        Their mean and covariance are those of `predict_f` with ``full_cov=True``, whatever ``num_features``; with more
        features each path is closer to a Gaussian process.

        Args:
            key: random key.
            num_samples: number of paths.
            num_features: random features of each path, for each stationary part of the kernel.
            near: inputs (n, D) about which paths of a posterior with neighbours are wanted: they are given all
                neighbours of all of these rows, and are functions everywhere.
            neighbours: as in `predict_f`; they need ``near``.

        >>> import jax
        >>> post = tgp.SGPR(tgp.kernels.Matern32(), X[:10]).posterior(tgp.Dataset(X, y))
        >>> paths = post.sample_paths(jax.random.key(0), 3)
        >>> paths(X[:5]).shape, paths[0](X[:5]).shape
        ((3, 5), (1, 5))
        """
        checks.count("num_samples", num_samples)
        checks.count("num_features", num_features)
        used = (self.neighbours if self.training is not None else 0) if neighbours is None else neighbours
        if checks.seed("neighbours", used):
            if near is None:
                raise ValueError(
                    "near must say about which inputs paths are wanted, since each input has neighbours of its own; "
                    "or pass neighbours=0 for paths from the inducing points alone"
                )
            near = arguments.check_inputs(near, self.latents[0].Z)
            ways.with_neighbours(self._functions, self.likelihood, self.training)
        given = key, num_samples, num_features, near, used
        groups = paths.draw(self._functions, self.likelihood, self.training, *given)
        return Paths(self._functions, groups, self.vector and self.num_outputs == 1)

    @property
    def noise_variance(self) -> Float[Array, "*p"]:
        """Noise variance σ²."""
        if not hasattr(self.likelihood, "noise_variance"):
            raise ValueError(f"{type(self.likelihood).__name__} has no noise variance")
        return self.likelihood.noise_variance

    @property
    def scales(self) -> Float[Array, " n"]:
        """The optimal v_i of each training row (the diagonal of V): near 1 where the inducing points suffice."""
        return ways.trained(self.training).optimal_v(self.latents[0])

    @with_one_blas_thread
    def residual_variance(self, X) -> Float[Array, "..."]:
        """The prior variance that the inducing points leave at ``X``: d (n,), or (n, G) for G kernels or sets.

        Near zero where more inducing points would not help; near the kernel's variance where none is close.
        """
        left = marginals.left_variances(self._functions, arguments.check_inputs(X, self.latents[0].Z))
        return left[:, 0] if left.shape[1] == 1 else left

    def row_log_densities(self, rows: Rows, key: jax.Array) -> Float[Array, "n p"]:
        """Log densities of the targets of `Rows`; arbitrary numbers where a target is missing. Pure."""
        likelihood = self.likelihood.of_rows(rows.noise_variance, rows.noise_factor)
        if rows.input_variance is None:
            mean, var = marginals.marginals(self._functions, rows.X)
        else:
            ways.check_averages(self._functions, len(rows.input_variance.columns))
            mean, var = marginals.averages(self._functions, rows.X, rows.input_variance)
        y = jnp.where(jnp.isnan(rows.y), likelihood.filler, rows.y)
        return likelihood.predictive_log_density(mean, var, y, key)

    @with_one_blas_thread
    def with_best_neighbours(
        self, candidates=(16, 32, 64, 128), num_rows: int = 1000, seed: int = 0, tolerance: float = 0.0
    ) -> "Posterior":
        """This posterior with the number of ``neighbours`` that predicts training rows best from their nearest others.

        Args:
            candidates: the numbers to choose from.
            num_rows: on how many training rows, drawn by ``seed``. Each is left out of its own neighbours; q(u) still
                knows it.
            tolerance: fewer neighbours, which are quicker, are preferred to a gain of less than so many nats a row.

        >>> model = tgp.SGPR(tgp.kernels.Matern32(), X[:20], bound="vecchia")
        >>> post = model.posterior(tgp.Dataset(X, y)).with_best_neighbours((4, 8))
        >>> post.neighbours in (4, 8)
        True
        """
        checks.count("num_rows", num_rows)
        training = ways.with_neighbours(self._functions, self.likelihood, self.training)
        rows = training.rows
        chosen = np.sort(np.random.default_rng(seed).permutation(rows.num_rows)[:num_rows])
        asked = rows.map(lambda a: np.asarray(a)[chosen])
        likelihood = self.likelihood.of_rows(asked.noise_variance, asked.noise_factor)
        gone = np.isnan(asked.y)
        targets = jnp.asarray(np.where(gone, likelihood.filler, asked.y))
        counts = sorted({min(checks.count("candidates", one), rows.num_rows - 1) for one in candidates} - {0})
        if not counts:
            return replace(self, neighbours=0)
        scores = []
        for mean, var in local.left_out(self._functions, training, self.likelihood.variance, chosen, counts):
            densities = marginals.apply(likelihood, "predictive_log_density", mean, var, targets)
            scores.append(float(np.mean(np.asarray(densities)[~gone])))
        good = np.asarray(scores) >= max(scores) - tolerance
        return replace(self, neighbours=counts[int(np.argmax(good))])

    @with_one_blas_thread
    def condition(self, X, y, *, noise_variance=None, window: int | None = None) -> "Posterior":
        """The posterior that also knows these rows, at the same hyperparameters and inducing inputs (maths 16.4).

        It is the posterior that the model would have of all rows together, in time that does not grow with the rows
        there were (of the exact posterior, with their square). Under Vecchia, blocks of the new rows come after all
        others. Neighbours are found among the new rows too. Gaussian noise.

        Args:
            X: inputs (n, D).
            y: targets (n,) or (n, P), as in training.
            noise_variance: the known noise variance of the new rows, one number or (n,).
            window: know the last so many rows alone, and forget all before them. None forgets nothing.

        >>> model = tgp.SGPR(tgp.kernels.Matern32(), X[:10])
        >>> post = model.posterior(tgp.Dataset(X[:50], y[:50])).condition(X[50:], y[50:])
        >>> np.allclose(post.predict_f(X)[0], model.posterior(tgp.Dataset(X, y)).predict_f(X)[0])
        True
        """
        X = arguments.check_inputs(X, self.latents[0].Z)
        y = self._targets(y, X, missing=False)
        known = arguments.known_noise(noise_variance, X)
        if window is not None:
            checks.count("window", window)
        new = Rows(X, y, jnp.ones(len(X), X.dtype), known).map(np.asarray)
        given = self.likelihood, self.training, self.neighbours, self.is_bound, window
        noise = conditioning.check(self._functions, *given)
        conditioning.check_noise(noise, known)
        latents, training = conditioning.condition(self._functions, self.training, noise, new, window)
        return replace(self, latents=latents, training=training)

    def joint_given(self, X_new, y_new, X):
        """Means (P, n) and covariances (P, n, n) at ``X``, given new rows too (see `condition`). Pure, unchecked."""
        return conditioning.joint_given(self._functions, self.likelihood.variance, X_new, y_new, X)

    def feasible_neighbours(self, X, neighbours: int) -> int:
        """``neighbours``, halved until a joint prediction at ``X`` is feasible; it may come to zero."""
        X = arguments.check_inputs(X, self.latents[0].Z)
        way = self._way(X, neighbours=neighbours)
        assert isinstance(way, ways.Local)
        return local.feasible(way.functions, way.training, way.noise, X, neighbours)

    def without_rows(self) -> "Posterior":
        """This posterior without the training rows: smaller, fit to be given away, and unable to predict locally."""
        return eqx.tree_at(lambda post: post.training, self, None, is_leaf=lambda x: x is None)

    @property
    def num_outputs(self) -> int:
        """Number of outputs P."""
        if self.likelihood.num_latents is not None:
            return 1
        return sum(group.num_functions for group in self.latents) if self.mixing is None else len(self.mixing)

    @property
    def _functions(self) -> PosteriorFunctions:
        return PosteriorFunctions(self.latents, self.mean, self.mixing, self.scale)

    def _way(self, X, exact_conditional: bool = False, neighbours: int | None = None, input_variance=None) -> ways.Way:
        if neighbours is None and self.training is not None and not exact_conditional and input_variance is None:
            neighbours = self.neighbours
        return ways.choose(
            self._functions, self.likelihood, self.training, X, exact_conditional, neighbours, input_variance
        )

    def _targets(self, y, X, missing):
        shape = (len(X),) if self.vector else (len(X), self.num_outputs)
        return arguments.check_targets(y, shape, self.likelihood, X.dtype, missing)

    def _shaped(self, values):
        return arguments.without_columns(values, self.vector)
