"""The Bayesian GP-LVM as a scikit-learn transformer."""

import time
from dataclasses import KW_ONLY, dataclass
from types import SimpleNamespace

import numpy as np
import pandas as pd
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from tightgp import checks, distributed
from tightgp.bounds import structures
from tightgp.bounds.structures import Structure
from tightgp.data import Dataset
from tightgp.data.scaling import mean_and_scale
from tightgp.estimators import latent_training
from tightgp.estimators.base import GPEstimator
from tightgp.estimators.cells import as_table, columns_of, is_frame, read
from tightgp.estimators.distributions import on_padded_rows
from tightgp.estimators.recipes import final_bound
from tightgp.estimators.row_lookup import find_rows, row_digests
from tightgp.estimators.settings import Settings
from tightgp.kernels import Kernel
from tightgp.models import SVGP
from tightgp.models.latent_inputs import LatentInputs
from tightgp.placing import place, row_bounds


@dataclass(eq=False, repr=False)
class BayesianGPLVM(ClassNamePrefixFeaturesOutMixin, TransformerMixin, GPEstimator):
    """A Bayesian Gaussian process latent variable model: rows as noisy smooth functions of a few latent inputs.

    Each row has a Gaussian over its latent inputs, under a standard normal prior, and every column of X is a function
    of them: principal components with curves in place of lines. Columns are standardised inside; predictions are in
    their own units. ``objective_`` and ``trace_`` are in nats, of the standardised columns.

    X is an array or a pandas frame of numbers, NaN where a cell is missing. A row without any number is refused, and in
    training a column without any.

    Args:
        n_components: number of latent inputs. Those that are not needed are switched off (``relevance_`` near zero), so
            it may be larger than the expected number.
        n_inducing: number of inducing points, at most the number of different rows.
        kernel: None is a squared exponential with a lengthscale for each latent input; a name ("matern32", ...) another
            such kernel, for at most three of them; or one of ``tightgp.kernels`` to start from.
        bound: "diagonal", "spherical" or "standard".
        standardise: True divides each column by its own standard deviation; False divides all by a common one, for
            columns with the same unit such as pixels.
        method: "collapsed" (L-BFGS on all rows, q(u) in closed form), "full" (natural gradients and Adam on all rows),
            "minibatch" (the same on minibatches), or "auto": if no cell is missing, "collapsed" if rows × inducing
            points² is at most 5e7, about a third of a second an evaluation on two cores; else "full" up to 1e7.
            Large tables, and minibatches, start from a model of some of the rows.
        max_iter: most iterations of L-BFGS (None: 1000), steps on all rows (None: 1000), or passes through minibatches
            (None: enough for 3000 batches).
        n_init: number of starts of "collapsed" and "full", the first from principal components and the others at random
            about it; the best result is returned.
        batch_size: rows of a minibatch.
        learning_rate: Adam's, for the first half of training; then it falls to a hundredth. None is 0.4 on all rows,
            and 0.03 with minibatches.
        random_state: decides the first inducing points, the random starts and the order of minibatches.
        checkpoint: a folder for unfinished work; ``resume=True`` continues a fit that was interrupted.
        resume: continue from ``checkpoint``, which is not removed at the end.
        verbose: 1 shows progress.

    Attributes:
        model_, posterior_: the trained `tightgp.GPLVM`, and its functions of the latent inputs.
        embedding_, embedding_std_: means and standard deviations (N, n_components) of the training rows' latent inputs.
        relevance_: one over the lengthscale of each latent input; None if the kernel has none. The most relevant comes
            first, unless ``kernel`` is an object, whose inputs stay in order.
        noise_variance_, feature_mean_, feature_scale_: of each column, in its own units.
        scales_: v of each training row ("collapsed"), near 1 where the inducing points suffice; otherwise of each
            column, or None if each row has its own ("diagonal").
        training_: how it was trained and why, in one sentence.
        converged_, stop_reason_, message_, n_iter_, seconds_: how training ended.
        objective_, trace_: the bound on the log evidence in total nats; the numbers of each training step.
        n_inducing_: number of inducing points.
        row_digests_: digests of the training rows, by which `transform` finds them again.

    >>> model = tgp.BayesianGPLVM(n_components=1, n_inducing=5, max_iter=10).fit(np.column_stack([X, y]))
    >>> model.transform(np.column_stack([X, y])).shape
    (60, 1)
    >>> model.inverse_transform([[0.0], [1.0]]).shape
    (2, 3)
    """

    n_components: int = 2
    n_inducing: int = 50
    _: KW_ONLY
    bound: Structure | str = "diagonal"
    standardise: bool = True
    n_init: int = 1
    learning_rate: float | None = None

    @property
    def _n_features_out(self) -> int:
        return self.embedding_.shape[1]

    def check_parameters(self) -> Settings:
        """Check the parameters as `fit` does, without data."""
        if distributed.is_multiprocess():
            raise ValueError("several processes fit SparseGPRegressor together, not BayesianGPLVM")
        for name in ("n_components", "n_inducing", "n_init"):
            checks.count(name, getattr(self, name))
        checks.choice("standardise", self.standardise, (True, False))
        rate = 1.0 if self.learning_rate is None else self.learning_rate
        parameters = {**self.get_params(deep=False), "learning_rate": rate, "max_inducing": 1, "tolerance": 1.0}
        settings = Settings.of(SimpleNamespace(**parameters), latent_training.METHODS)
        structure = structures.named(self.bound)
        if not structure.partition.trivial or not structure.is_bound:
            raise ValueError(f"bound must be 'diagonal', 'spherical' or 'standard', got {self.bound!r}")
        self._check_starts(self.method)
        latent_training.check_kernel(self.kernel, self.n_components)
        return settings

    def _check_starts(self, method: str) -> None:
        if method == "minibatch" and self.n_init > 1:
            raise ValueError(
                f'n_init={self.n_init} goes with training on all rows; pass n_init=1, or method="collapsed" or "full"'
            )

    def fit(self, X, y=None):
        """Train on the rows of ``X``; ``y`` is not used."""
        settings = self.check_parameters()
        table = self._table(X, training=True)
        missing = int(np.sum(np.isnan(table)))
        if missing and self.method == "collapsed":
            row, column = np.argwhere(np.isnan(table))[0]
            raise ValueError(
                f'method="collapsed" needs every cell, but {missing} of X are missing, the first in row {row}, column '
                f'{column} (counted from 0); pass method="full", "minibatch" or "auto"'
            )
        size = min(self.n_inducing, len(np.unique(np.nan_to_num(table, nan=np.inf), axis=0)))
        plan = latent_training.plan_training(settings, len(table), size, missing)
        self._check_starts(plan.method)
        checks.squarable("X", table)
        self.feature_mean_, self.feature_scale_ = mean_and_scale(table, common=not self.standardise)
        data = Dataset.latent(self._standardised(table), self.n_components, missing=missing > 0)
        start = time.perf_counter()
        recipe = latent_training.LatentRecipe(plan, settings, self.kernel, self.bound, self.learning_rate)
        result = recipe.train(data, size, self.n_init)
        model = result.model if isinstance(self.kernel, Kernel) else latent_training.order_by_relevance(result.model)
        posterior = model.posterior(data)
        self.model_, self.posterior_ = model, posterior.without_rows()
        # 1024 rows at a time, because averages over latent inputs need much memory.
        self.objective_ = final_bound(result, plan, len(table), lambda rows: result.model.elbo(data, rows=rows), 1024)
        self._record_training(result, plan, len(table), time.perf_counter() - start)
        if first := latent_training.num_first_rows(len(table), size, plan.method):
            self.training_ += f" It started from a model of {first} of the rows."
        self.n_inducing_ = len(model.model.Z)
        relevance = np.asarray(model.relevance)
        self.relevance_ = relevance if np.any(relevance) else None
        self.noise_variance_ = float(posterior.noise_variance) * self.feature_scale_**2
        v = model.model.v if isinstance(model.model, SVGP) else posterior.scales
        self.scales_ = None if v is None else np.asarray(v)
        self.embedding_ = np.asarray(model.inputs.mean)
        self.embedding_std_ = np.sqrt(np.asarray(model.inputs.variance))
        self.row_digests_ = row_digests(table)
        return self

    def transform(self, X, return_std=False):
        """Means (n, n_components) of the latent inputs of rows, and their standard deviations if ``return_std``.

        A row is placed by the cells that it has. A row that equals a training row gets its latent inputs. Others are
        placed by L-BFGS, many at a time, so the last digits of an answer depend on the other rows.
        """
        mean, variance = self._latent_inputs(self._table(X))
        return (mean, np.sqrt(variance)) if return_std else mean

    def inverse_transform(self, X, return_std=False):
        """Means (n, P) of rows whose latent inputs are ``X`` (n, n_components), and standard deviations if wanted.

        The standard deviations are those of new rows, with noise.
        """
        check_is_fitted(self, "posterior_")
        X = np.asarray(checks.matrix("X", np.asarray(X, np.float64), self.embedding_.shape[1]))
        mean, sd = self._in_units(*on_padded_rows(self.posterior_.predict_y, X))
        return (mean, sd) if return_std else mean

    def reconstruct(self, X, return_std=False):
        """``X`` with each missing cell filled by its mean given the other cells of the row; a frame if it is one.

        With ``return_std=True`` also the standard deviations, with noise: zero where a cell was given.
        """
        table = self._table(X)
        latent = self._latent_inputs(table)
        mean, sd = self._in_units(*on_padded_rows(lambda m, v: self.posterior_.predict_y(m, input_variance=v), *latent))
        missing = np.isnan(table)
        answers = [np.where(missing, mean, table), np.where(missing, sd, 0.0)]
        if is_frame(X):
            answers = [pd.DataFrame(values, index=X.index, columns=X.columns) for values in answers]
        return tuple(answers) if return_std else answers[0]

    def score_samples(self, X):
        """A lower bound on the log density of each row (n,), in nats and the columns' own units (maths 7.8).

        The density is ``∫ p(y|f, x) p(x) q(f) dx df`` with the trained q(f), and the bound uses the q(x) that
        `transform` finds. Missing cells are left out.
        """
        table = self._table(X)

        def bounds(Y, mean, variance):
            return row_bounds(self.model_, self.posterior_, LatentInputs(mean, variance), self._as_data(Y))

        values = on_padded_rows(bounds, self._standardised(table), *self._latent_inputs(table))
        return values - np.sum(~np.isnan(table) * np.log(self.feature_scale_), axis=1)

    def score(self, X, y=None):
        """The mean of `score_samples`; ``y`` is not used."""
        return float(np.mean(self.score_samples(X)))

    def _latent_inputs(self, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances (n, n_components) of the latent inputs of rows."""
        rows = find_rows(self.row_digests_, row_digests(table))
        mean, variance = self.embedding_[rows], self.embedding_std_[rows] ** 2
        new = rows < 0
        if np.any(new):
            n, p = len(self.embedding_), len(self.feature_mean_)
            training = self._as_data(np.zeros((n, p)))
            found = self._as_data(self._standardised(table[new]))
            q = place(self.model_, training, found, posterior=self.posterior_, starts=min(3, n))
            mean[new], variance[new] = q.mean, q.variance
        return mean, variance

    def _table(self, X, training: bool = False) -> np.ndarray:
        """The cells (n, P) of training rows or new ones, NaN where one is missing."""
        if not training:
            check_is_fitted(self, "posterior_")
        X = as_table(X)
        X = self._checked_rows(X, training=training, as_frame=is_frame(X), least=2 if training else 1)
        columns = [_numbers(name, column, training) for name, column in columns_of(X).items()]
        table = np.stack(columns, axis=1)
        empty = np.all(np.isnan(table), axis=1)
        if np.any(empty):
            raise ValueError(
                f"row {int(np.argmax(empty))} of X (counted from 0) has no values at all, so it cannot be placed among "
                "the latent inputs; drop it"
            )
        return table

    def _standardised(self, table: np.ndarray) -> np.ndarray:
        return (table - self.feature_mean_) / self.feature_scale_

    def _in_units(self, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation in the columns' own units."""
        return mean * self.feature_scale_ + self.feature_mean_, np.sqrt(variance) * self.feature_scale_

    def _as_data(self, Y: np.ndarray) -> Dataset:
        return Dataset.latent(Y, self.embedding_.shape[1], missing=True)


def _numbers(name: str, column, training: bool) -> np.ndarray:
    """A column of numbers, NaN where one is missing."""
    cells = read(name, column)
    if cells.kind == "empty" and training:
        raise ValueError(f"column {name!r} has no values at all in the training rows; drop it")
    if cells.kind not in ("number", "empty"):
        raise ValueError(f"column {name!r} does not hold numbers; BayesianGPLVM needs them: drop it or encode it")
    return cells.values
