"""What to try where a verdict is bad, as commands: sentences by the section of the report that they belong to."""

from tightgp.app.report.content import Content, Heldout
from tightgp.app.report.numbers import percent
from tightgp.app.report.verdicts import deviates, explained_share, verdict_on
from tightgp.app.report.words import evidence, has_unusual_errors

#: A rival must be better by this share of the error to be worth a word.
_CLEARLY = 0.02
_TRANSFORMS = "log, yeo-johnson, sinh-arcsinh, none"
_CALIBRATE = ", or in Python calibrate(X, y) of the model on rows that it was not fitted to, which corrects intervals"


def remedies(content: Content, python: bool = True) -> dict[str, list[str]]:
    """The sentences, each of which begins with "Try", by the name of the section; sections without one are left out.

    ``python`` says whether to name what Python alone can do.
    """
    correct = _CALIBRATE if python else ""
    found = {"training": _training(content), "evidence": _evidence(content)}
    if content.heldout is not None:
        held = content.heldout
        found |= {
            "accuracy": _accuracy(content, held, correct),
            "calibration": _calibration(content, held, correct),
            "inputs": _inputs(held),
            "worst": _worst(content, held),
        }
    return {section: sentences for section, sentences in found.items() if sentences}


def most_urgent(content: Content, count: int = 2) -> list[str]:
    """The first remedies, as commands, those of training and of accuracy before others."""
    found = remedies(content, python=False)
    order = ("training", "accuracy", "calibration", "inputs", "worst")
    return [sentence for section in order for sentence in found.get(section, [])][:count]


def _training(content: Content) -> list[str]:
    one = content.training
    if one.converged:
        return []
    if one.by_time:
        return [f"Try a longer --time-limit: training ended before it was done ({one.message})."]
    return [f"Try --max-iter {max(2 * one.num_steps, 20)}: training ended before it was done ({one.message})."]


def _evidence(content: Content) -> list[str]:
    verdict, _ = evidence(content.evidence, content.subject.num_inducing, content.scales)
    if verdict in ("Unclear whether enough", "Still improving"):
        return [
            f"Try --inducing {2 * content.subject.num_inducing}, or --inducing auto, which adds more while they help."
        ]
    return []


def _accuracy(content: Content, held: Heldout, correct: str) -> list[str]:
    found, task = [], content.task
    score = held.score("log loss" if task == "classification" else "RMSE")
    if score is None:
        return []
    if task == "classification":
        right = held.score("accuracy")
        useless = right is not None and right.baseline is not None and right.model <= right.baseline
    else:
        useless = explained_share(held) < 0.05
    if useless:
        found.append(
            "Try `tightgp inspect TABLE --target TARGET` to see how the columns are read, and columns that say more "
            "about the target."
        )
    exact = evidence(content.evidence, content.subject.num_inducing, content.scales)[0] == "Exact"
    more = "" if exact else " or --inducing 512"
    rivals = (
        ("a linear model does", score.linear, f"--kernel squared_exponential{more}"),
        ("boosted trees do", score.boosting, f"--kernel matern12{more}"),
    )
    for name, rival, options in rivals:
        if rival is not None and score.model > (1 + _CLEARLY) * rival:
            lower = percent(1 - rival / score.model, 0)
            found.append(f"Try {options}: {name} better ({score.name} lower by {lower}).")
    density = held.score("NLPD")
    if density is not None and density.baseline is not None and density.model > density.baseline:
        found.append(_likelihood(correct) if task == "counts" else _tails(content, correct))
    return found


def _tails(content: Content, correct: str) -> str:
    """What to try for heavy tails of numbers."""
    if content.noise == "student-t":
        return f"Try another --target-transform ({_TRANSFORMS}){correct}."
    return f"Try --noise student-t for heavy tails{correct}."


def _likelihood(correct: str) -> str:
    return f"Try --likelihood negative_binomial or --likelihood gaussian{correct}."


def _calibration(content: Content, held: Heldout, correct: str) -> list[str]:
    task = content.task
    if held.classes is not None:
        gap = held.classes.observed - held.classes.predicted
        if verdict_on(held.classes) != "off":
            return []
        if gap < 0:
            return ["Try more rows, or --kernel matern12: probabilities near zero and one are claimed too often."]
        return ["Try --inducing 512, or --max-iter for a longer training: the model is less sure than it could be."]
    verdicts = [deviates(held, one, task) for one in held.coverage]
    if "too narrow" in verdicts and "too wide" in verdicts and task == "regression":
        return [_tails(content, correct)]
    if "too narrow" in verdicts or "too wide" in verdicts:
        if task == "counts":
            return [_likelihood(correct)]
        return [f"Try another --target-transform ({_TRANSFORMS}){correct}."]
    if task == "regression" and any(deviates(held, one, task) for one in held.by_prediction):
        noise = "" if content.noise == "heteroscedastic" else "--noise heteroscedastic, or "
        return [
            f"Try {noise}--target-transform log or yeo-johnson: the noise is larger at some predictions than at others."
        ]
    return []


def _inputs(held: Heldout) -> list[str]:
    if held.importance and all(rise <= 0 for _, rise in held.importance):
        return ["Try other columns, or `tightgp inspect TABLE` to see which were left out."]
    return []


def _worst(content: Content, held: Heldout) -> list[str]:
    found = []
    if held.regions:
        first = held.regions[0].column
        found.append(
            f"Try more rows of these kinds, columns that tell them apart, or a model of their own; “{first}” is the "
            "column to look at first."
        )
    if content.task == "regression" and has_unusual_errors(held.worst, held.num_rows):
        noise = "" if content.noise == "student-t" else ", or --noise student-t for heavy tails"
        found.append(f"Try correcting mistakes among the rows below{noise}.")
    return found
