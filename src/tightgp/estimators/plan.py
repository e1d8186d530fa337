"""Which way to train, and how long: by what an evaluation on all rows would cost."""

import math
from dataclasses import dataclass

from tightgp import distributed
from tightgp.estimators.settings import Settings

#: Rows × inducing points² up to which the collapsed bound is evaluated on all rows: about a second on two cores.
MOST_WORK = 7e9
#: Rows up to which natural gradients see all of them at each step.
MOST_ROWS = 4000
#: Iterations of L-BFGS at most, steps on all rows, and steps on minibatches, where ``max_iter`` is None.
LBFGS_STEPS = 400
FULL_STEPS = 500
BATCH_STEPS = 3000


@dataclass(frozen=True)
class Plan:
    """``method``; ``amount`` of iterations, steps or passes; batches in a pass; and the reason, in one sentence."""

    method: str
    amount: int
    batches: int
    reason: str

    @property
    def steps(self) -> int:
        """How many steps are taken in all."""
        return self.amount * self.batches


def for_regression(settings: Settings, rows: int) -> Plan:
    """The collapsed bound where it is affordable, and where several processes share its cost; else minibatches."""
    size = settings.n_inducing or max(1, settings.max_inducing // 2)
    size = min(size, rows)
    work = rows * size**2
    small = work <= MOST_WORK
    half = "" if settings.n_inducing else " (half of max_inducing)"
    judged = f"{rows} rows × {size}² inducing points{half} = {work / 1e9:.2g} billion"
    why = f"{judged} is {'at most' if small else 'more than'} {MOST_WORK / 1e9:g} billion"
    if distributed.is_multiprocess():
        why = "several processes share the rows"
    elif settings.method == "minibatch" or (settings.method == "auto" and not small):
        return minibatch(settings, rows, why)
    return collapsed(settings, LBFGS_STEPS, why)


def for_likelihood(settings: Settings, rows: int) -> Plan:
    """Natural gradients on all rows where these are few, else on minibatches."""
    few = rows <= MOST_ROWS
    why = f"{rows} rows are {'at most' if few else 'more than'} {MOST_ROWS}"
    if settings.method == "minibatch" or (settings.method == "auto" and not few):
        return minibatch(settings, rows, why)
    return full(settings, FULL_STEPS, why)


def collapsed(settings: Settings, iterations: int, why: str) -> Plan:
    """L-BFGS on all rows, with this many iterations unless ``max_iter`` is given."""
    amount = settings.max_iter or iterations
    reason = f"Collapsed bound by at most {amount} iterations of L-BFGS: {_why(settings, why)}."
    return Plan("collapsed", amount, 1, reason)


def full(settings: Settings, steps: int, why: str) -> Plan:
    """Natural gradients on all rows, with this many steps unless ``max_iter`` is given."""
    amount = settings.max_iter or steps
    return Plan("full", amount, 1, f"Natural gradients and Adam, {amount} steps on all rows: {_why(settings, why)}.")


def minibatch(settings: Settings, rows: int, why: str) -> Plan:
    """Natural gradients on minibatches, with about `BATCH_STEPS` steps unless ``max_iter`` is given."""
    batches = math.ceil(rows / settings.batch_size)
    amount = settings.max_iter or math.ceil(BATCH_STEPS / batches)
    how = f"{amount} pass{'es' if amount > 1 else ''} through minibatches of at most {settings.batch_size} rows"
    said = f"Natural gradients and Adam, {how} ({amount * batches} steps): {_why(settings, why)}."
    return Plan("minibatch", amount, batches, said)


def _why(settings: Settings, why: str) -> str:
    return why if settings.method == "auto" else f"asked for by method={settings.method!r}"
