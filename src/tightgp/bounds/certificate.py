"""A bracket of the exact log evidence by products with K, which is never kept (maths §12).

``log p(y) = −½[P(N log 2π + log|Σ| + log|C|) + Σ_p ỹᵀC⁻¹ỹ]`` with ``C = I + Σ^-½KΣ^-½``. Each of the two terms gets a
lower and an upper bound. What is proven:

- the lower end, and the quadratic term on both sides, hold always (12.1, 12.2);
- the upper end holds always where it comes from ``log|C| ≥ log|I + AᵀA|``. The far better bound (12.3) is made of
  random probes, and holds with a probability of at least ``1 − FAILURE`` over their draw, whatever the data.
"""

import dataclasses
import math
import time
import warnings
from contextlib import nullcontext
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from threadpoolctl import threadpool_limits

from tightgp import inducing
from tightgp.bounds.evidence import Certificate, EvidenceBracket
from tightgp.bounds.probes import FAILURE, excess
from tightgp.bounds.sparse_root import (
    InducingRows,
    SparseRoot,
    conditional_logdet,
    covariance_times,
    inducing_rows,
    sparse_root,
)
from tightgp.bounds.statistics import Process, noise_of
from tightgp.bounds.structures import ScaledRows
from tightgp.data.neighbours import NeighbourSearch, arrival, earlier_rows, groups
from tightgp.data.partition import Partition
from tightgp.data.rows import Rows
from tightgp.kernels import Kernel
from tightgp.numerics import conjugate, linalg, tiles
from tightgp.numerics.device import on_cpu

#: Random probes of the log determinant. They share each product with K, so they cost little.
PROBES = 64
#: Rows that all others are given beside their neighbours, and numbers of neighbours, tried one after the other.
#: Neighbouring rows share theirs, so that a group has 256 rows, then 512, and then 1024.
INDUCING_ROWS, BLOCK, NEIGHBOURS = 512, 32, (224, 480, 992)
#: Seconds that compilation takes, roughly.
_COMPILATION = 5.0
#: With more rows than this the first number of neighbours is passed over.
_MANY = 4000
#: Steps of conjugate gradients between two looks at the bracket, and most steps.
_STEPS, _MOST_STEPS = 5, 200


class Problem(NamedTuple):
    """The rows in units of their noise, in the order of their blocks, and what is fixed for all efforts."""

    kernel: Kernel
    rows: ScaledRows
    num_data: int
    log_noise: Float[Array, ""]
    inverse_B: Float[Array, "m m"]
    metric: np.ndarray

    @property
    def logdet_B(self) -> float:
        """``log|I + AᵀA|``, a lower bound on ``log|C|``."""
        return -2 * float(jnp.sum(jnp.log(jnp.diagonal(self.inverse_B))))


def prepare(process: Process, data: Rows, metric: np.ndarray, jitter: float) -> Problem:
    """The problem of some rows under a process; ``metric`` (d,) is what inputs are divided by to find neighbours."""
    n, X = data.num_rows, np.asarray(data.X)
    order = Partition(BLOCK, "locality").order(X, metric)
    rows = data.map(np.asarray).take(order)._replace(index=None).padded(n + -n % BLOCK).map(jnp.asarray)
    scaled, log_noise, inverse = _scaled(process, rows, jitter)
    return Problem(process.kernel, scaled, n, log_noise, inverse, np.asarray(metric, np.float64))


@eqx.filter_jit
@linalg.full_precision
def _scaled(process: Process, rows: Rows, jitter: float):
    real, variance = rows.weight > 0, noise_of(process, rows)
    scale = jnp.where(real, jax.lax.rsqrt(variance), 0.0)
    y = (rows.y - process.mean(rows.X)) * scale[:, None]
    W = linalg.factorise(process.kernel(process.Z), jitter).inverse
    A = linalg.times_lower_t(process.kernel(rows.X, process.Z) * scale[:, None], W)
    B = linalg.factorise(jnp.eye(len(W), dtype=W.dtype) + A.T @ A, jitter=0.0)
    return ScaledRows(A, rows.X, y, scale), jnp.sum(jnp.where(real, jnp.log(variance), 0.0)), B.inverse


class Determinant(NamedTuple):
    """An upper bound on ``log|C|``, how it was made, and with how many neighbours."""

    value: float
    how: str
    neighbours: int


def given_rows(problem: Problem, neighbours: int, seed: int = 0) -> np.ndarray:
    """The rows (b, t) of each block: first those that it is given, then its own; -1 for none."""
    partition = Partition(BLOCK, "locality", seed, neighbours)
    X = np.asarray(problem.rows.X)[: problem.num_data] / problem.metric
    found = earlier_rows(X, partition)
    missing = len(problem.rows.X) - len(found)
    return groups(np.pad(found, ((0, missing), (0, 0)), constant_values=-1), partition, problem.num_data)


def without(table: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Groups without some rows, which all of them are given already."""
    return np.where(np.isin(table, rows), -1, table)


def choose_rows(problem: Problem, count: int) -> np.ndarray:
    """Up to ``count`` rows, each with the largest prior variance given those before it."""
    X = np.asarray(problem.rows.X)[: problem.num_data]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fewer distinct rows are as good
        chosen = inducing.greedy_variance(X, min(count, len(X)), problem.kernel)
    return np.unique(NeighbourSearch.of(X, problem.metric).nearest(chosen, 1)).astype(np.int32)


class Solution(NamedTuple):
    """Conjugate gradients on ``GCGᵀ``, for the targets and the probes together."""

    state: conjugate.State
    step: np.ndarray
    ratio: np.ndarray


def begin(root: SparseRoot, y: Float[Array, "n p"], probes: Float[Array, "n q"]) -> Solution:
    """The start, at zero."""
    none = np.zeros((0, y.shape[1] + probes.shape[1]))
    return Solution(conjugate.start(jnp.concatenate([root.apply(y), probes], axis=1)), none, none)


def advance(problem: Problem, root: SparseRoot, solution: Solution, steps: int) -> Solution:
    """Take further steps, each with one product with K."""
    state, taken = _advance(problem, root, solution.state, steps)
    step, ratio = np.asarray(taken.step), np.asarray(taken.ratio)
    return Solution(state, np.concatenate([solution.step, step]), np.concatenate([solution.ratio, ratio]))


@eqx.filter_jit
@linalg.full_precision
def _advance(problem: Problem, root: SparseRoot, state: conjugate.State, steps: int):
    def whitened(U):
        return root.apply(covariance_times(problem.kernel, problem.rows, root.transposed(U)))

    return conjugate.advance(whitened, state, steps)


@eqx.filter_jit
@linalg.full_precision
def quadratic_bounds(problem: Problem, alpha: Float[Array, "n p"]) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Both bounds on ``tr(ỹᵀC⁻¹ỹ)`` that any ``alpha`` gives (maths 12.1)."""
    y = problem.rows.y
    r = y - covariance_times(problem.kernel, problem.rows, alpha)
    lower = jnp.sum(alpha * (y + r))
    c = problem.inverse_B @ (problem.rows.A.T @ r)
    return lower, lower + jnp.sum(r * r) - jnp.sum(c * c)


class _Ends(NamedTuple):
    """The bracket so far, in nats a row where a ``gap`` says what makes it wide."""

    lower: float
    upper: float
    certain_upper: float
    estimate: float
    gap_of_solver: float
    gap_of_determinant: float


class Certifier:
    """Tightens a bracket step by step, by whatever makes it widest, until it is tight enough or time is up."""

    def __init__(self, problem: Problem, cheap: EvidenceBracket, rows_given: int, neighbours: tuple[int, ...]):
        self.problem, self._cheap = problem, cheap
        self._outputs = problem.rows.y.shape[1]
        few = [k for i, k in enumerate(neighbours) if i == 0 or neighbours[i - 1] < problem.num_data]
        # Of many rows a product with K takes longer than a better root, which saves products.
        self._left = few[1:] if len(few) > 1 and problem.num_data > _MANY else few
        self._chosen = choose_rows(problem, rows_given)
        self._inducing: InducingRows = _inducing_rows(problem, jnp.asarray(self._chosen))
        self.root: SparseRoot = _root(problem, self._inducing, self._table(self._left[0]))
        self._determinant = self._first_determinant(self._left.pop(0))
        drawn = np.random.default_rng(0).normal(size=(len(problem.rows.X), PROBES))
        probes = jnp.where(problem.rows.scale[:, None] > 0, jnp.asarray(drawn), 0.0)
        order = arrival(len(self.root.groups), 0)
        self._sizes = np.asarray(jnp.sum(probes * probes, axis=0))
        self._stretch = float(_stretch(self.root, probes, jnp.asarray(order)))
        self._solution = begin(self.root, problem.rows.y, probes)
        self._quadratic = (-math.inf, math.inf)
        self.ends = _Ends(cheap.lower, cheap.upper, cheap.upper, math.nan, math.inf, 0.0)

    @property
    def steps(self) -> int:
        """Steps of conjugate gradients."""
        return len(self._solution.step)

    @property
    def certificate(self) -> Certificate:
        """What the bracket comes from; without its time."""
        found, ends = self._determinant, self.ends
        failure = FAILURE if ends.upper < ends.certain_upper else 0.0
        rows = len(self._chosen) if found.how == "inducing rows" else 0
        made = (found.how, rows, found.neighbours, self.steps, PROBES, math.nan)
        return Certificate(ends.estimate, ends.certain_upper, failure, *made)

    def next_work(self, tolerance: float) -> str | None:
        """What to do next: "solve", "determinant", or nothing because neither would help."""
        ends = self.ends
        if (ends.upper - ends.lower) / self.problem.num_data <= tolerance:
            return None
        solver = self.steps < _MOST_STEPS and ends.gap_of_solver > 0.05 * tolerance
        if solver and (ends.gap_of_solver > 0.2 * ends.gap_of_determinant or not self._left):
            return "solve"
        return "determinant" if self._left else None

    def work(self, what: str) -> None:
        """Do it, and tighten the bracket."""
        if what == "solve":
            self._solution = advance(self.problem, self.root, self._solution, _STEPS)
            found = quadratic_bounds(self.problem, _alpha(self.root, self._solution.state, self._outputs))
            lower, upper = (float(one) for one in found)
            self._quadratic = max(self._quadratic[0], lower), min(self._quadratic[1], upper)
        else:
            self._determinant = min(self._determinant, self._by_rows(self._left.pop(0)), key=lambda one: one.value)
        self._tighten()

    def _tighten(self) -> None:
        problem, n, p = self.problem, self.problem.num_data, self._outputs
        above = excess(self._solution.step[:, p:], self._solution.ratio[:, p:], self._sizes, self._stretch)
        logdet, log_noise, (low, high) = float(self.root.logdet), float(problem.log_noise), self._quadratic

        def nats(logdet, quadratic):
            return -0.5 * (p * (n * math.log(2 * math.pi) + log_noise + logdet) + quadratic)

        certain = min(self._cheap.upper, nats(problem.logdet_B, low))
        self.ends = _Ends(
            lower=max(self.ends.lower, nats(self._determinant.value, high)),
            upper=min(self.ends.upper, certain, nats(logdet - above.most, low)),
            certain_upper=certain,
            estimate=nats(logdet - above.estimate, low),
            gap_of_solver=0.5 * (high - low + p * above.open) / n,
            gap_of_determinant=0.5 * p * (self._determinant.value - logdet + above.estimate) / n,
        )

    def _table(self, neighbours: int):
        return jnp.asarray(without(given_rows(self.problem, neighbours), self._chosen))

    def _first_determinant(self, neighbours: int) -> Determinant:
        """The smallest of the three (maths 12.2)."""
        problem, table = self.problem, jnp.asarray(given_rows(self.problem, neighbours))
        nothing = jnp.zeros((len(problem.rows.X), 0), problem.rows.X.dtype)
        values = {
            "inducing rows": float(self.root.logdet),
            "inducing points": problem.logdet_B + float(_conditional(problem, problem.rows.A, table)),
            "neighbours": float(_conditional(problem, nothing, table)),
        }
        how = min(values, key=lambda one: values[one])
        return Determinant(values[how], how, neighbours)

    def _by_rows(self, neighbours: int) -> Determinant:
        inducing = self._inducing
        value = float(inducing.logdet) + float(_conditional(self.problem, inducing.A, self._table(neighbours)))
        return Determinant(value, "inducing rows", neighbours)


def certify(
    process: Process,
    data: Rows,
    metric: np.ndarray,
    jitter: float,
    cheap: EvidenceBracket,
    tolerance: float,
    seconds: float,
    rows_given: int = INDUCING_ROWS,
    neighbours: tuple[int, ...] = NEIGHBOURS,
) -> EvidenceBracket:
    """Tighten a bracket to ``tolerance`` nats a row, or for ``seconds``.

    Args:
        process: kernel, mean, noise and inducing points.
        data: the rows, as they are.
        metric: (d,), what inputs are divided by to find neighbours.
        jitter: relative jitter of ``Kuu`` to begin with.
        cheap: the bracket that is known already.
        tolerance: the width at which to stop.
        seconds: no work is begun that is not likely to end by then; ``cheap`` is returned where that is the first.
        rows_given: most rows that all others are given.
        neighbours: how many neighbours blocks are given, one after the other.
    """
    if cheap.nats_per_point <= tolerance:
        return cheap
    # LAPACK's threads wait busily after each small factor, on the cores that the compiled program needs.
    with threadpool_limits(1, "blas") if on_cpu() else nullcontext():
        return _certify(process, data, metric, jitter, cheap, tolerance, seconds, rows_given, neighbours)


def _certify(process, data, metric, jitter, cheap, tolerance, seconds, rows_given, neighbours) -> EvidenceBracket:
    began = time.perf_counter()
    problem = prepare(process, data, metric, jitter)
    if seconds < math.inf and _first_look(problem) > seconds - (time.perf_counter() - began):
        return cheap
    certifier = Certifier(problem, cheap, rows_given, neighbours)
    took = {"solve": 0.0, "determinant": time.perf_counter() - began}
    while (what := certifier.next_work(tolerance)) is not None:
        now = time.perf_counter()
        longer = 4 if what == "determinant" else 1  # twice as many neighbours
        if certifier.steps and now - began + longer * took[what] > seconds:
            break
        certifier.work(what)
        took[what] = time.perf_counter() - now
    ends, made = certifier.ends, certifier.certificate
    made = dataclasses.replace(made, seconds=time.perf_counter() - began)
    return EvidenceBracket(ends.lower, ends.upper, certifier.problem.num_data, made)


def _first_look(problem: Problem) -> float:
    """About how many seconds the first steps take, from a trial product with some rows of K, and compilation."""
    n = len(problem.rows.X)
    some = min(n, tiles.rows_at_a_time(n, problem.rows.X.dtype.itemsize))
    X, V = problem.rows.X, jnp.zeros((n, PROBES), problem.rows.X.dtype)
    _trial(problem.kernel, X[:some], X, V).block_until_ready()
    began = time.perf_counter()
    _trial(problem.kernel, X[:some], X, V).block_until_ready()
    return _COMPILATION + 2 * (_STEPS + 1) * (time.perf_counter() - began) * n / some


_trial = eqx.filter_jit(lambda kernel, some, X, V: kernel(some, X) @ V)
_inducing_rows = eqx.filter_jit(lambda problem, which: inducing_rows(problem.kernel, problem.rows, which))
_root = eqx.filter_jit(lambda problem, chosen, table: sparse_root(problem.kernel, problem.rows, chosen, table, BLOCK))
_alpha = eqx.filter_jit(lambda root, state, outputs: root.transposed(state.solution[:, :outputs]))


@eqx.filter_jit
def _conditional(problem: Problem, A, table) -> Float[Array, ""]:
    return conditional_logdet(problem.kernel, problem.rows._replace(A=A), table, BLOCK)


@eqx.filter_jit
@linalg.full_precision
def _stretch(root: SparseRoot, probes, order) -> Float[Array, ""]:
    return jnp.max(jnp.sum(root.solve(probes, order) ** 2, axis=0))
