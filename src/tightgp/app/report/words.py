"""Sentences that depend on what the report's content shows."""

import math
from itertools import compress

from scipy.stats import norm

from tightgp.app.report.content import Evidence, Scales, Slice, Trace, Training, Worst
from tightgp.app.report.numbers import counted, duration, number, percent, shortened, whole
from tightgp.app.report.panel import Panel, PanelInput

#: Nats per row that more inducing points could add, below which they do not matter, or matter little.
ENOUGH, NEARLY_ENOUGH = 0.01, 0.1
#: Nats per row that the objective may still change by in the last tenth of training.
SETTLED = 0.001
#: An input whose relevance is below this share of the largest hardly matters.
IRRELEVANT = 0.05

#: The numbers recorded during training, with their units.
TRACE_NAMES = {
    "objective": "objective, nats",
    "energy": "objective (no bound), nats",
    "noise": "noise standard deviation",
    "v": "mean v of the latent functions",
    "validation": "mean log density of the validation rows, nats",
}


def training(one: Training, evidence: Evidence) -> str:
    """Whether training converged."""
    steps, message = counted(one.num_steps, one.step), one.message.rstrip(".")
    what = f"All {len(evidence.path)} numbers of inducing points together" if len(evidence.path) > 1 else "It"
    took = f"{what} took {duration(one.seconds)}."
    if one.converged:
        return f"Training converged after {steps} ({message}). {took}"
    text = f"Training did not converge in {steps}: {message}. {took}"
    values = next((trace.values for trace in one.traces if trace.name in ("objective", "energy")), ())
    longer = "Longer training may improve these results."
    if len(values) < 10:
        return f"{text} {longer}"
    gain = _late_change(values) / evidence.num_data
    text += " In the last tenth of training the objective "
    if abs(gain) < SETTLED:
        return f"{text}changed by only {number(abs(gain), 2)} nats per row."
    return f"{text}still {'rose' if gain > 0 else 'fell'} by {number(abs(gain), 2)} nats per row. {longer}"


def settled(one: Trace) -> str:
    """Whether a recorded number settled in the last tenth of training."""
    name, last = TRACE_NAMES.get(one.name, one.name).removesuffix(", nats"), one.values[-1]
    if len(one.values) < 10:
        return f"The {name} ended at {number(last)}."
    change = abs(_late_change(one.values)) / max(abs(last), 1e-300)
    if change < 0.01:
        return f"The {name} settled at {number(last)}."
    return f"The {name} ended at {number(last)}, and changed by {percent(change)} in the last tenth of training."


def _late_change(values: tuple[float, ...]) -> float:
    """The change in the last tenth of training."""
    return values[-1] - values[-max(2, len(values) // 10)]


def evidence(one: Evidence, num_inducing: int, scales: Scales | None) -> tuple[str, str]:
    """Whether there are enough inducing points, in a word or two, and why."""
    points = counted(num_inducing, "inducing point")
    growth, grown = _growth(one)
    little_growth = growth is not None and growth <= ENOUGH
    if one.lower is not None and one.lower == one.upper:
        return "Exact", "Every row is used: there are no inducing points, and nothing is approximated."
    if not one.is_bound and one.lower is None:
        return _beside_neighbours(points, grown)
    if one.lower is None or one.upper is None:
        why = "An upper bound on the log evidence exists only for full-batch training with Gaussian noise."
        if growth is None:
            return "Unclear whether enough", why
        return ("Probably enough" if little_growth else "Still improving"), f"{why} {grown}"
    gap = max(0.0, one.upper - one.lower) / one.num_data
    limit = "With these kernel parameters, more inducing points could raise the log evidence by at most "
    limit += f"{number(gap, 2)} nats per row"
    if gap <= ENOUGH:
        return "Enough", f"{limit}: {points} are enough."
    if not one.is_bound:
        return _beside_neighbours(points, grown)
    if gap <= NEARLY_ENOUGH:
        return "Nearly enough", f"{limit}: {points} are nearly enough, and more would change predictions little."
    reasons = [f"{limit}. This limit may be loose, so it does not show whether {points} are enough."]
    reasons += [grown] if grown else []
    well_explained = scales is not None and bool(scales.histogram) and scales.share_above_nine_tenths >= 0.99
    if well_explained:
        reasons.append("Nearly all v below are above 0.9, which suggests that they are.")
    if little_growth or well_explained:
        return "Probably enough", " ".join(reasons)
    return "Unclear whether enough", " ".join(reasons)


def _beside_neighbours(points: str, grown: str) -> tuple[str, str]:
    why = f"Each row is also told apart by its neighbours, so {points} need not explain everything. "
    why += "What was maximised approximates the log evidence of the exact Gaussian process, and is no bound."
    return "Helped by neighbours", f"{why} {grown}".strip()


def _growth(one: Evidence) -> tuple[float | None, str]:
    """Nats per row that the last increase of the number of inducing points gained, if there was one."""
    if len(one.path) < 2:
        return None, ""
    before, last = one.path[-2:]
    gain = (last.bound - before.bound) / one.num_data
    text = f"Going from {whole(before.num_inducing)} to {whole(last.num_inducing)} inducing points "
    if gain <= ENOUGH:
        return gain, f"{text}gained only {number(max(gain, 0.0), 2)} nats per row."
    return gain, f"{text}still gained {number(gain, 2)} nats per row."


def scales(one: Scales) -> str:
    """How much the inducing points explain, by the v of rows or latent functions."""
    if one.histogram:
        return _scales_of_rows(one)
    verdict = "well below 1: the inducing points leave much variation unexplained; try more"
    if one.low >= 0.9:
        verdict = "near 1: the inducing points explain nearly all variation"
    elif one.low >= 0.5:
        verdict = "below 1: the inducing points leave some variation unexplained; more could help"
    same = one.high - one.low < 5e-4
    shown = f"v = {number(one.low)}" if same else f"v between {number(one.low)} and {number(one.high)}"
    return f"The latent function{' has' if one.count == 1 else 's have'} {shown}, {verdict}."


def _scales_of_rows(one: Scales) -> str:
    median = f"The median v is {number(one.median)}"
    if one.share_above_nine_tenths == 1:
        return f"{median}, and all training rows are above 0.9: every row is well explained."
    above = f"{median}. {percent(one.share_above_nine_tenths)} of the training rows are above 0.9"
    below = f"{percent(one.share_below_half)} below 0.5"
    if one.share_below_half < 0.01:
        return f"{above} and {below}, so hardly any row is poorly explained."
    if one.share_below_half < 0.2:
        return f"{above}, but {below}: inducing points near those rows would help."
    return f"{above} and {below}: many rows are poorly explained, and more inducing points would help."


def relevance(values: tuple[tuple[str, float], ...]) -> str:
    """Which inputs matter; ``values`` are columns with their relevance, the largest first."""
    (first, largest), *rest = values
    if not rest:
        return f"The only input is {_quoted(first)}."
    if largest <= 0:
        return "No input has any relevance: the predictions are nearly constant."
    second, next_largest = rest[0]
    ratio = largest / next_largest if next_largest > 0 else math.inf
    if ratio < 1.5:
        text = f"Predictions change fastest along {_quoted(first)} and {_quoted(second)}, at about the same rate."
    elif ratio < 1000:
        next_input = f"{number(ratio, 2)} times as fast as along {_quoted(second)}, the next input"
        text = f"Predictions change fastest along {_quoted(first)}, {next_input}."
    else:
        text = f"Predictions change along {_quoted(first)}, and hardly along the other inputs."
    if irrelevant := sum(value < IRRELEVANT * largest for _, value in values):
        matters = "hardly matters" if irrelevant == 1 else "hardly matter"
        text += f" {whole(irrelevant)} of {counted(len(values), 'input')} {matters}."
    return text


def largest_effect(values: tuple[Slice, ...]) -> str:
    """Which input changes the prediction of a number most."""
    effects = {}
    for one in values:
        means = list(compress(one.curves[0].mean, one.known)) if any(one.known) else one.curves[0].mean
        effects[one.column] = max(means) - min(means)
    best = max(effects, key=lambda column: effects[column])
    most = " most" if len(effects) > 1 and effects[best] > 0 else ""
    return f"Over the ranges shown, {_quoted(best)} changes the prediction{most}, by {number(effects[best])}."


def sentence(message: str) -> str:
    """A message with a capital letter and a full stop.

    >>> sentence("stopped at 64")
    'Stopped at 64.'
    """
    return f"{message[:1].upper()}{message[1:].rstrip('.')}."


def panel(one: Panel, target: str) -> str:
    """What the "what if" panel is for."""
    what = "the probability of each class" if one.link == "softmax" else f"the predicted {shortened(target, 40)}"
    text = f"Change the inputs and see {what} change. It works without a network, and starts from typical values."
    if one.num_fixed:
        stay = f" {counted(one.num_fixed, 'less relevant input')} {'stays' if one.num_fixed == 1 else 'stay'}"
        text += f"{stay} at typical values."
    return text


def step(one: PanelInput) -> float:
    """The step of an input's slider."""
    if one.whole and one.high - one.low <= 1000:
        return 1.0
    return 86_400.0 if one.kind == "time" and one.high - one.low > 14 * 86_400 else (one.high - one.low) / 200


def agreement(one: Panel) -> str:
    """How close the panel is to the model."""
    found = one.agreement
    if found is None:
        return ""
    text = "The page holds a small copy of the model. On "
    text += f"{counted(found.num_rows, 'held-out row')}, as they are and with one input changed, its "
    text += "probabilities differ" if one.link == "softmax" else "mean differs"
    text += f" from the model's by {number(found.centre, 2)} (root mean square)"
    if one.link == "softmax":
        return f"{text}."
    share = f", {percent(found.centre / found.width)} of half an interval" if found.width else ""
    return f"{text}{share}, and the ends of intervals by {number(found.ends, 2)}."


def worst(one: Worst, num_rows: int) -> str:
    """Whether the worst-predicted rows are worse than is to be expected."""
    rows = "The held-out row" if len(one.rows) == 1 else f"The {len(one.rows)} held-out rows"
    if one.level is None:
        highest = max(row.probability or 0.0 for row in one.rows)
        return f"{rows} whose observed class had the lowest predicted probability, at most {percent(highest)}."
    text = f"{rows} with the lowest predictive density, lowest first."
    largest = _largest_error(one)
    if largest is None or num_rows < 20:
        return text
    usual = norm.isf(0.5 / num_rows)
    text += f" The largest error is {number(largest, 2)} predicted standard deviations;"
    text += f" among {whole(num_rows)} rows it is usually about {number(usual, 2)}"
    if has_unusual_errors(one, num_rows):
        return f"{text}. Look for mistakes in the data, or for noise with heavier tails than a Gaussian's."
    return f"{text}, so none of these rows is unusual."


def has_unusual_errors(one: Worst, num_rows: int) -> bool:
    """Whether the largest error is larger than the largest of so many Gaussian ones."""
    largest = _largest_error(one)
    if largest is None or num_rows < 20:
        return False
    return -math.expm1(num_rows * math.log1p(-min(2 * norm.sf(largest), 1 - 1e-16))) < 0.01


def _largest_error(one: Worst) -> float | None:
    return max((abs(row.deviations) for row in one.rows if row.deviations is not None), default=None)


def _quoted(name: str) -> str:
    return f"“{shortened(name, 40)}”"
