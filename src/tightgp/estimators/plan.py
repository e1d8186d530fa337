"""How to train and for how long, decided by the number of rows and by what one evaluation on all of them costs."""

import math
from dataclasses import dataclass

from tightgp import distributed
from tightgp.estimators.settings import Settings
from tightgp.numerics.device import on_cpu

#: Most rows for the exact GP: on two cores it is as quick there as the sparse one, and needs no approximation.
EXACT_ROWS = 2000
#: Inducing points where the user asks for no number: neighbours tell what so few leave open.
FEW_POINTS, POINTS = 64, 256
#: An accelerator takes one for so many rows, up to so many, where `MOST_WORK` allows it.
ROWS_A_POINT, MOST_POINTS = 50, 512
#: Most rows × inducing points² for the collapsed bound on all rows: about a second an evaluation on two cores.
MOST_WORK = 7e9
#: Most rows for natural gradients on all of them; more are trained by minibatches.
MOST_ROWS = 4000
#: If ``max_iter`` is None: most iterations of L-BFGS, steps on all rows, and steps on minibatches.
LBFGS_STEPS = 100
FULL_STEPS = 500
BATCH_STEPS = 3000


@dataclass(frozen=True)
class Plan:
    """How a model is trained.

    Attributes:
        method: "exact", "collapsed", "full" or "minibatch".
        amount: number of iterations, steps or passes through the data.
        batches: minibatches in a pass; 1 on all rows.
        reason: the choice and why, in one sentence.
    """

    method: str
    amount: int
    batches: int
    reason: str

    @property
    def steps(self) -> int:
        """How many steps are taken in all."""
        return self.amount * self.batches


def few_points(rows: int) -> int:
    """Inducing points beside neighbours where the user asks for no number: more only where they cost little."""
    if on_cpu():
        return FEW_POINTS
    return max(FEW_POINTS, min(rows // ROWS_A_POINT, MOST_POINTS, math.isqrt(int(MOST_WORK / rows))))


def for_regression(settings: Settings, rows: int, exact: bool = False) -> Plan:
    """The exact GP up to `EXACT_ROWS` rows, then the collapsed bound if it is affordable, else minibatches.

    ``exact`` says whether the user left the choice open, so that there need be no inducing points.
    """
    if settings.method == "exact" or (settings.method == "auto" and exact and rows <= EXACT_ROWS):
        return choose(settings, "exact", LBFGS_STEPS, rows, f"{rows} rows are at most {EXACT_ROWS}")
    size = min(settings.n_inducing or max(1, settings.max_inducing // 2), rows)
    small = rows * size**2 <= MOST_WORK
    why = f"a pass over {rows} rows with {size} inducing points is {'quick' if small else 'slow'}"
    method = "collapsed" if small else "minibatch"
    if distributed.is_multiprocess():
        method, why = "collapsed", "several processes share the rows"
    return choose(settings, method, LBFGS_STEPS, rows, why)


def for_likelihood(settings: Settings, rows: int) -> Plan:
    """Natural gradients on all rows if they are few, else on minibatches."""
    few = rows <= MOST_ROWS
    why = f"{rows} rows are {'at most' if few else 'more than'} {MOST_ROWS}"
    return choose(settings, "full" if few else "minibatch", FULL_STEPS, rows, why)


def choose(settings: Settings, best: str, steps: int, rows: int, why: str) -> Plan:
    """The plan for the user's method, or for the ``best`` method and ``why`` if the user's is "auto".

    ``steps`` is the number of iterations or steps on all rows if ``max_iter`` is None.
    """
    method = settings.method
    if method == "auto":
        method = best
    else:
        why = f"asked for by method={method!r}"
    if method == "minibatch":
        batches = math.ceil(rows / settings.batch_size)
        amount = settings.max_iter or math.ceil(BATCH_STEPS / batches)
        passes = f"{amount} pass{'es' if amount > 1 else ''} through minibatches of at most {settings.batch_size} rows"
        how = f"Natural gradients and Adam, {passes} ({amount * batches} steps)"
    else:
        batches, amount = 1, settings.max_iter or steps
        how = f"Natural gradients and Adam, {amount} steps on all rows"
        if method == "exact":
            how = f"Exact Gaussian process by at most {amount} iterations of L-BFGS"
        elif method == "collapsed":
            how = f"Collapsed bound by at most {amount} iterations of L-BFGS"
    return Plan(method, amount, batches, f"{how}: {why}.")
