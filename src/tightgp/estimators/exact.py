"""The exact GP as a way to train: every row is used, so there are no inducing points."""

import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tightgp.bounds.evidence import EvidenceBracket
from tightgp.data.dataset import Dataset
from tightgp.estimators import dense
from tightgp.estimators.plan import Plan
from tightgp.estimators.settings import Settings
from tightgp.estimators.start import CLEAR, REST, Start, as_parts, hyperparameters, noise_alone
from tightgp.models import ExactGP
from tightgp.numerics.threads import one_blas_thread
from tightgp.parameters import log_prior
from tightgp.posterior.posterior import Posterior
from tightgp.progress import ProgressBar
from tightgp.training import FitResult, StopReason, fit

#: The signal's variance where everything is noise: as small as `dense` allows.
_NO_SIGNAL = 1e-8


@dataclass(frozen=True)
class Exact:
    """Gaussian noise and all rows. ``name`` is that of the estimators' own kernel; None where it is the user's."""

    start: Start
    plan: Plan
    name: str | None

    #: Predictions need no neighbours.
    keep_rows: ClassVar[bool] = False

    def train(self, data: Dataset, settings: Settings) -> FitResult:
        """Train on all rows from the best of the starts."""
        if self.name is None:
            model = ExactGP(self.start.kernel, self.start.noise)
            options = settings.fit_options("exact") | {"min_gain": REST * data.num_data}
            return fit(model, data, "lbfgs", steps=self.plan.amount, **options)
        began, name = time.perf_counter(), self.name
        X, y = np.asarray(data.X), np.asarray(data.targets)
        starts = [hyperparameters(*one) for one in ((self.start.kernel, self.start.noise), *self.start.others)]
        length = self.plan.amount

        def trained(start: dense.Hyperparameters) -> dense.Trained:
            with ProgressBar(length, settings.verbose > 0, "fit") as bar:

                def report(step: int, value: float) -> None:
                    bar.update(step, f"objective {value:.6g}")

                return dense.train(
                    start, name, X, y, length, REST * len(X), settings.deadline, report, data.noise_factor
                )

        with one_blas_thread():
            runs: list[dense.Trained] = []
            for start in starts:
                runs.append(trained(start))
                if _REASONS[runs[-1].end].by_user or runs[-1].evidence >= noise_alone(y, data.noise_factor) + CLEAR:
                    break
            if max(run.evidence for run in runs) < noise_alone(y, data.noise_factor) < np.inf:
                nothing = starts[0]._replace(
                    variance=_NO_SIGNAL,
                    noise=float(np.mean(y * y / (1.0 if data.noise_factor is None else data.noise_factor[:, None]))),
                )
                runs.append(trained(nothing))
        best = max(runs, key=lambda run: run.evidence)
        path = np.array(best.path)
        return FitResult(
            model=ExactGP(*as_parts(best.best, self.name)),
            trace={"objective": path[:, 0], "noise_variance": path[:, 1]},
            reason=_REASONS[best.end],
            message=_message(best),
            objective=best.evidence,
            seconds=time.perf_counter() - began,
            evaluations=sum(run.evaluations for run in runs),
            steps=best.steps,
            restarts=[run.evidence for run in runs],
        )

    def evidence(self, result: FitResult, data: Dataset) -> tuple[float, EvidenceBracket]:
        """The log evidence of all rows, in total nats, from both sides."""
        value = result.objective - float(log_prior(result.model))
        return value, EvidenceBracket(value, value, data.num_data)

    def posterior(self, model: ExactGP, data: Dataset) -> tuple[Posterior, None]:
        """The exact posterior; there is no v."""
        return model.posterior(data), None


_REASONS = {
    "rest": StopReason.TOLERANCE,
    "steps": StopReason.STEP_LIMIT,
    "time": StopReason.TIME_LIMIT,
    "interrupted": StopReason.INTERRUPTED,
}


def _message(run: dense.Trained) -> str:
    return {
        "rest": f"the last of {run.steps} steps gained too little to go on",
        "steps": f"stopped at the limit of {run.steps} steps",
        "time": f"stopped at the time limit, after {run.steps} steps",
        "interrupted": "interrupted",
    }[run.end]
