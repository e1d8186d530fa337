"""A Bayesian GP-LVM: a table in, where its rows lie among a few latent inputs out."""

import time
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from tightgp import checks, conditionals, distributed, psi
from tightgp.data import Dataset
from tightgp.estimators.base import ask
from tightgp.estimators.latent_training import METHODS, Training, bound_of, by_relevance, first_rows, plan_of, settled
from tightgp.estimators.plain_table import found, is_frame, like, marks, numbers, standards
from tightgp.estimators.settings import KERNELS, Settings
from tightgp.kernels import Kernel
from tightgp.models import SVGP
from tightgp.models.latent_inputs import LatentInputs
from tightgp.placing import place, row_bounds

#: New rows are placed so many at a time, the last ones filled up to one of these numbers: JAX compiles for each.
_PARTS = (16, 64, 256, 1024)


class BayesianGPLVM(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A Bayesian Gaussian process latent variable model: rows as noisy smooth functions of a few latent inputs.

    Each row has a Gaussian over its latent inputs, under a standard normal prior, and every column of X is a function
    of them. It is what principal components are, with curves in place of lines. Columns are standardised inside; every
    answer is in their own units. ``objective_`` and ``trace_`` are in nats, of the standardised columns.

    Args:
        n_components: number of latent inputs. Those that are not needed are switched off (``relevance_`` near zero), so
            that it may be larger than what is expected.
        n_inducing: number of inducing points, at most the number of different rows.
        kernel: None is a squared exponential with a lengthscale for each latent input; a name ("matern32", ...) another
            such kernel, for at most three of them; or one of ``tightgp.kernels`` to start from.
        bound: "diagonal", "spherical" or "standard".
        standardise: True divides each column by its own standard deviation; False all by a common one, for columns of
            like units such as pixels.
        method: "collapsed" (L-BFGS on all rows, q(u) in closed form), "full" (natural gradients and Adam on all rows),
            "minibatch" (the same on minibatches), or "auto": where no cell is missing, collapsed if rows × inducing
            points² is at most 5e7, about a third of a second an evaluation on two cores; else on all rows up to 1e7.
            Where there are many rows, and before minibatches, some of the rows are trained first.
        max_iter: most iterations of L-BFGS (None: 1000), steps on all rows (None: 1000), or passes through minibatches
            (None: enough for 3000 batches).
        n_init: how many starts "collapsed" and "full" try, the first from principal components and further ones at
            random about it; the best is kept.
        batch_size: rows of a minibatch.
        learning_rate: Adam's, for the first half of training; then it falls to a hundredth. None is 0.4 on all rows,
            and 0.03 with minibatches.
        random_state: decides first inducing points, further starts and the order of minibatches.
        checkpoint: a folder for unfinished work; a fit that was killed goes on from there with ``resume=True``.
        resume: go on from ``checkpoint``, which stays until it is removed.
        verbose: 1 shows progress.

    X is an array or a pandas frame of numbers, NaN where a cell is missing. A row without any number is refused, and
    in training a column without any.

    Attributes:
        model_, posterior_: the trained `tightgp.GPLVM`, and its functions of the latent inputs.
        embedding_, embedding_std_: means and standard deviations (N, n_components) of the training rows' latent inputs.
        relevance_: one over the lengthscale of each latent input; None where the kernel has none. The most relevant
            comes first, unless ``kernel`` is an object, whose inputs keep their order.
        noise_variance_, feature_mean_, feature_scale_: of each column, in its own units.
        scales_: v of each training row ("collapsed"), near 1 where the inducing points suffice; otherwise of each
            column, or None where each row has its own ("diagonal").
        training_, converged_, message_, n_iter_, seconds_: how it was trained and why so; how that ended.
        objective_, trace_: the bound on the log evidence in total nats; training's numbers, step by step.
        n_inducing_: how many inducing points there are.

    >>> model = BayesianGPLVM(n_components=5).fit(X)
    >>> mean, sd = model.transform(X_new, return_std=True)
    >>> whole = model.reconstruct(X_with_gaps)
    """

    def __init__(
        self,
        n_components=2,
        n_inducing=50,
        *,
        kernel=None,
        bound="diagonal",
        standardise=True,
        method="auto",
        max_iter=None,
        n_init=1,
        batch_size=1024,
        learning_rate=None,
        random_state=0,
        checkpoint=None,
        resume=False,
        verbose=0,
    ):
        self.n_components = n_components
        self.n_inducing = n_inducing
        self.kernel = kernel
        self.bound = bound
        self.standardise = standardise
        self.method = method
        self.max_iter = max_iter
        self.n_init = n_init
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.resume = resume
        self.verbose = verbose

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    @property
    def _n_features_out(self) -> int:
        return self.embedding_.shape[1]

    def check_parameters(self) -> None:
        """Refuse parameters that `fit` would refuse, without data."""
        self._settings()

    def _settings(self) -> Settings:
        if distributed.several():
            raise ValueError("several processes fit SparseGPRegressor together, not BayesianGPLVM")
        checks.count("n_components", self.n_components)
        checks.count("n_inducing", self.n_inducing)
        checks.count("n_init", self.n_init)
        if self.standardise not in (True, False):
            raise ValueError(f"standardise must be True or False, got {self.standardise!r}")
        given = {**self.get_params(deep=False), "max_inducing": self.n_inducing, "tolerance": 1.0}
        if self.learning_rate is None:
            given["learning_rate"] = 1.0  # each way has its own
        settings = Settings.of(SimpleNamespace(**given), METHODS)
        structure = conditionals.named(self.bound)
        if structure.size > 1 or not structure.is_bound:
            raise ValueError(f"bound must be 'diagonal', 'spherical' or 'standard', got {self.bound!r}")
        if self.method == "minibatch":
            self._check_minibatch()
        _check_kernel(self.kernel, self.n_components)
        return settings

    def _check_minibatch(self) -> None:
        if self.n_init > 1:
            raise ValueError(
                f'n_init={self.n_init} goes with training on all rows; pass n_init=1, or method="collapsed" or "full"'
            )

    def fit(self, X, y=None):
        """Train on the rows of ``X``; ``y`` is not used."""
        settings = self._settings()
        table = self._table(X, reset=True)
        gaps = int(np.sum(np.isnan(table)))
        if gaps and self.method == "collapsed":
            row, column = np.argwhere(np.isnan(table))[0]
            raise ValueError(
                f'method="collapsed" needs every cell, but {gaps} of X are missing, the first in row {row}, column '
                f'{column} (counted from 0); pass method="full", "minibatch" or "auto"'
            )
        size = min(self.n_inducing, len(np.unique(np.nan_to_num(table, nan=np.inf), axis=0)))
        plan = plan_of(settings, len(table), size, gaps)
        if plan.method == "minibatch":
            self._check_minibatch()
        self.feature_mean_, self.feature_scale_ = standards(table, self.standardise)
        data = Dataset.latent(self._standardised(table), self.n_components, missing=gaps > 0)
        began = time.perf_counter()
        rate = None if self.learning_rate is None else settings.learning_rate
        training = Training(plan, settings, self.kernel, self.bound, rate)
        result = training.run(training.start(data, size), data, self.n_init)
        first = first_rows(len(table), size, plan.method)
        model = result.model if isinstance(self.kernel, Kernel) else by_relevance(result.model)
        posterior = model.posterior(data)
        self.model_ = model
        self.trace_ = result.trace
        self.objective_ = bound_of(result, data, plan)
        self.converged_ = settled(result, len(table), plan)
        self.message_, self.seconds_ = result.message, time.perf_counter() - began
        self.n_iter_ = max(1, result.steps)
        self.training_ = plan.reason + (f" It began at what {first} of the rows led to." if first else "")
        self.n_inducing_ = len(model.model.Z)
        relevance = np.asarray(model.relevance)
        self.relevance_ = relevance if np.any(relevance) else None
        self.noise_variance_ = float(posterior.noise_variance) * self.feature_scale_**2
        v = model.model.v if isinstance(model.model, SVGP) else posterior.scales
        self.scales_ = None if v is None else np.asarray(v)
        self.embedding_ = np.asarray(model.inputs.mean)
        self.embedding_std_ = np.sqrt(np.asarray(model.inputs.variance))
        self.row_marks_ = marks(table)
        self.posterior_ = posterior.without_rows()
        return self

    def transform(self, X, return_std=False):
        """Means (n, n_components) of the latent inputs of rows, and if wanted their standard deviations.

        A row is placed by the cells that it has. One that is equal to a training row lies where training put it. Others
        are placed many at a time by L-BFGS, so that those beside a row change the last digits of its answer.
        """
        mean, variance = self._placed(self._known(X))
        return (mean, np.sqrt(variance)) if return_std else mean

    def inverse_transform(self, X, return_std=False):
        """Means (n, P) of rows whose latent inputs are ``X`` (n, n_components), and if wanted standard deviations.

        They are those of new rows, noise included.
        """
        check_is_fitted(self, "posterior_")
        X = np.asarray(checks.matrix("X", np.asarray(X, np.float64), self.embedding_.shape[1]))
        return self._in_units(ask(self.posterior_.predict_y, X), return_std)

    def reconstruct(self, X, return_std=False):
        """``X`` with its missing cells filled by their means given the others of their row; a frame where it is one.

        With ``return_std=True`` also their standard deviations, noise included: zero where a cell was given.
        """
        table = self._known(X)
        answer = ask(lambda m, v: self.posterior_.predict_y(m, input_variance=v), *self._placed(table))
        mean, sd = self._in_units(answer, True)
        gone = np.isnan(table)
        filled, spread = like(X, np.where(gone, mean, table)), like(X, np.where(gone, sd, 0.0))
        return (filled, spread) if return_std else filled

    def score_samples(self, X):
        """A lower bound on the log density of each row (n,), in nats and the columns' own units.

        It is that of the trained functions q(f), integrated over the latent inputs by their prior: ``log ∫ p(y|f, x)
        p(x) q(f) dx df``, bounded by the q(x) that `transform` finds. Missing cells are left out.
        """
        table = self._known(X)

        def each(Y, mean, variance):
            inputs = LatentInputs(mean, variance)
            return (row_bounds(self.model_, self.posterior_, inputs, self._as_data(Y)),)

        (values,) = _in_parts(each, self._standardised(table), *self._placed(table))
        return values - np.sum(~np.isnan(table) * np.log(self.feature_scale_), axis=1)

    def score(self, X, y=None):
        """The mean of `score_samples`; ``y`` is not used."""
        return float(np.mean(self.score_samples(X)))

    def _placed(self, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of the latent inputs of rows."""
        here = found(self.row_marks_, marks(table))
        known = here >= 0
        mean, variance = self.embedding_[here], self.embedding_std_[here] ** 2
        if not np.all(known):
            n, p = len(self.embedding_), len(self.feature_mean_)
            data, starts = self._as_data(np.zeros((n, p))), min(3, n)

            def placed(Y):
                q = place(self.model_, data, self._as_data(Y), posterior=self.posterior_, starts=starts)
                return q.mean, q.variance

            mean[~known], variance[~known] = _in_parts(placed, self._standardised(table[~known]))
        return mean, variance

    def _table(self, X, reset: bool) -> np.ndarray:
        """The cells (n, P), NaN where one is missing."""
        least = 2 if reset else 1
        if is_frame(X):
            validate_data(self, X, skip_check_array=True, reset=reset)
            if len(X) < least or not X.shape[1]:
                raise ValueError(f"X has {len(X)} sample(s) of {X.shape[1]} column(s); it needs {least} of 1 or more")
            columns = {str(name): X.iloc[:, i] for i, name in enumerate(X.columns)}
            if len(columns) < X.shape[1]:
                raise ValueError("X has several columns of one name; rename or drop all but one")
        else:
            how: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": "allow-nan", "ensure_min_samples": least}
            X = validate_data(self, X, reset=reset, **how)
            columns = {f"x{i}": X[:, i] for i in range(X.shape[1])}
        table = np.stack([numbers(name, column, reset) for name, column in columns.items()], axis=1)
        empty = np.all(np.isnan(table), axis=1)
        if np.any(empty):
            raise ValueError(
                f"row {int(np.argmax(empty))} of X (counted from 0) has no values at all, and nothing says where it "
                "lies; drop it"
            )
        return table

    def _known(self, X) -> np.ndarray:
        check_is_fitted(self, "posterior_")
        return self._table(X, reset=False)

    def _standardised(self, table: np.ndarray) -> np.ndarray:
        return (table - self.feature_mean_) / self.feature_scale_

    def _in_units(self, answer, both: bool):
        mean, sd = answer[0] * self.feature_scale_ + self.feature_mean_, np.sqrt(answer[1]) * self.feature_scale_
        return (mean, sd) if both else mean

    def _as_data(self, Y: np.ndarray) -> Dataset:
        return Dataset.latent(Y, self.embedding_.shape[1], missing=True)


def _check_kernel(kernel, count: int) -> None:
    if kernel is None:
        return
    first = kernel if isinstance(kernel, Kernel) else KERNELS[kernel](lengthscale=np.ones(count))
    try:
        jax.eval_shape(first, jnp.zeros((1, count)))
        psi.check(first, count, count)
    except ValueError as error:
        raise ValueError(f"kernel does not go with n_components={count} latent inputs: {error}") from None


def _in_parts(function, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """``function``'s answers about each row, for few numbers of rows; those that fill up have no values at all."""
    answers = []
    for start in range(0, len(arrays[0]), _PARTS[-1]):
        part = [a[start : start + _PARTS[-1]] for a in arrays]
        n = len(part[0])
        extra = next(size for size in _PARTS if size >= n) - n
        answer = function(*(np.concatenate([a, _filler(a, extra, first=i == 0)]) for i, a in enumerate(part)))
        answers.append([np.asarray(a)[:n] for a in answer])
    return tuple(np.concatenate(of_parts) for of_parts in zip(*answers, strict=True))


def _filler(a: np.ndarray, count: int, first: bool) -> np.ndarray:
    return np.full((count, a.shape[1]), np.nan if first else 1.0)
