"""What a reader should conclude, section by section: sentences computed from the numbers of the content."""

import math
import re

from tightgp.report.content import Column, Content, Evidence, Relevance, Scales, Slice, Trace, Training
from tightgp.report.numbers import counted, duration, number, percent, whole
from tightgp.report.scored import Worst
from tightgp.report.svg import shortened

#: Nats a row under which more inducing points cannot matter, and under which they can matter but little.
ENOUGH, NEARLY = 0.01, 0.1
#: Nats a row that the objective may still move by in the last tenth of training.
SETTLED = 0.001
#: Relevance under this share of the largest is next to none.
FAINT = 0.05

NOUNS = {"regression": "regression", "classification": "classification", "counts": "count regression"}


SCALES_MEANING = (
    "v = 1/(1 + d/σ²) of each training row, where d is what the inducing points leave unexplained of the function "
    "there. Near 1 they explain the row as well as the exact Gaussian process would; small v marks rows that are "
    "under-resolved, where more inducing points would help."
)


def lead(content: Content) -> str:
    """What was fitted to what, in one sentence."""
    s, t = content.subject, content.training
    rows = counted(s.num_rows, "row") + (f" of {s.source}" if s.source else "")
    held = f"; {counted(s.num_heldout, 'further row')} {'was' if s.num_heldout == 1 else 'were'} held out"
    return (
        f"A sparse Gaussian process with {counted(s.num_inducing, 'inducing point')}, fitted to {rows} with "
        f"{counted(len(s.columns), 'input column')} in {duration(t.seconds)}{held if s.num_heldout else ''}."
    )


def training(one: Training, evidence: Evidence) -> str:
    """Whether training came to an end; ``evidence`` knows how many rows there were, and how many sizes were tried."""
    message = re.sub(r"(?<=\s)-(?=\d)", "−", one.message.rstrip("."))
    said = f" ({message})" if message else ""
    steps, time = counted(one.num_steps, one.step), duration(one.seconds)
    sizes = len(evidence.path)
    took = f"{steps} and {time}" if sizes < 2 else f"{steps} with the last of {sizes} sizes, {time} in all"
    if one.converged:
        return f"Training converged after {took}{said}."
    values = next((trace.values for trace in one.traces if trace.name in ("objective", "energy")), ())
    longer = "longer training may improve what is reported here"
    if len(values) < 10:
        return f"Training ended after {took}{said}, before it converged: {longer}."
    gain = (values[-1] - values[-max(2, len(values) // 10)]) / evidence.num_data
    if abs(gain) < SETTLED:
        end = f"but over its last tenth the objective changed by only {number(abs(gain), 2)} nats a row"
        return f"Training ended after {took}{said}. It was not seen to converge, {end}."
    moved = f"gained {number(gain, 2)}" if gain > 0 else f"lost {number(-gain, 2)}"
    return (
        f"Training ended after {took}{said}, when the objective still {moved} nats a row in its last tenth: {longer}."
    )


def drift(one: Trace, called: str) -> str:
    """Whether a followed number had settled in the last tenth of training."""
    if len(one.values) < 10:
        return f"{called} ended at {number(one.values[-1])}."
    before, last = one.values[-max(2, len(one.values) // 10)], one.values[-1]
    change = abs(last - before) / max(abs(last), 1e-300)
    if change < 0.01:
        return f"{called} settled at {number(last)}."
    return f"{called} ended at {number(last)}, having moved by {percent(change)} over the last tenth of training."


def evidence(one: Evidence, num_inducing: int, v: Scales | None) -> tuple[str, str]:
    """A verdict in a word or two on whether M is enough, and the reason."""
    points = counted(num_inducing, "inducing point")
    grown = _growth(one)
    if one.lower is None or one.upper is None:
        why = "The bracket of the evidence exists for full-batch training with Gaussian noise only"
        if grown is None:
            return "Not measured", f"{why}, so whether {points} are enough was not measured: fit with more and compare."
        return ("Probably enough" if grown[0] <= ENOUGH else "Still growing"), f"{why}. {grown[1]}"
    gap = max(0.0, one.upper - one.lower) / one.num_data
    most = "At these kernel parameters more inducing points could raise the log evidence "
    most += f"by at most {number(gap, 2)} nats a row"
    if gap <= ENOUGH:
        return "Enough", f"{most}: {points} are enough."
    if gap <= NEARLY:
        return "Nearly enough", f"{most}: {points} are nearly enough; more would change predictions little."
    clear = v is not None and v.per_row and v.share_above_nine_tenths >= 0.99
    likely = clear or (grown is not None and grown[0] <= ENOUGH)
    why = f"{most}. This limit may be loose, and does not settle whether {points} are enough."
    why += f" {grown[1]}" if grown else ""
    why += " Nearly all v, below, are above 0.9, which suggests that they are." if clear else ""
    return ("Probably enough", why) if likely else ("Not shown", f"{why} Fit with more of them and compare.")


def bracket(lower: float, upper: float) -> str:
    """The bracket in words, to so many digits that its width shows."""
    gap = upper - lower
    decimals = min(6, max(0, 1 - math.floor(math.log10(gap)))) if gap > 0 else 1
    low, high = (f"{value:,.{decimals}f}".replace("-", "−") for value in (lower, upper))
    return f"between {low} and {high} nats, {number(gap)} apart"


def path_caption(with_upper: bool) -> str:
    """What the chart of the path shows."""
    if with_upper:
        return (
            "Orange: the bound as inducing points were added. Blue: the upper bound; the exact value lies between them."
        )
    return "The bound as inducing points were added."


def _growth(one: Evidence) -> tuple[float, str] | None:
    """What the last stage of the search for M brought, in nats a row."""
    if len(one.path) < 2:
        return None
    before, last = one.path[-2:]
    gain = (last.bound - before.bound) / one.num_data
    text = f"Going from {whole(before.num_inducing)} to {whole(last.num_inducing)} inducing points"
    if gain <= ENOUGH:
        return gain, f"{text} gained only {number(max(gain, 0.0), 2)} nats a row."
    return gain, f"{text} still gained {number(gain, 2)} nats a row."


def scales(one: Scales) -> str:
    """What the v_i say."""
    if not one.per_row:
        low, high = min(one.values), max(one.values)
        shown = f"v = {number(low)}" if high - low < 5e-4 else f"v between {number(low)} and {number(high)}"
        if low >= 0.9:
            end = "near 1: the inducing points leave little of the functions unexplained."
        elif low >= 0.5:
            end = "below 1: the inducing points leave some of the functions unexplained; more could help."
        else:
            end = "well below 1: the inducing points leave much of the functions unexplained; try more."
        function = "The latent function has" if len(one.values) == 1 else "The latent functions have"
        return f"{function} {shown}, {end}"
    if one.share_above_nine_tenths == 1:
        return f"The median v is {number(one.median)}, and all training rows are above 0.9: none is under-resolved."
    well, ill = percent(one.share_above_nine_tenths), percent(one.share_below_half)
    start = f"The median v is {number(one.median)}: {well} of the training rows are above 0.9"
    if one.share_below_half < 0.01:
        return f"{start} and {ill} below 0.5, so hardly any row is under-resolved."
    if one.share_below_half < 0.2:
        return f"{start}, but {ill} below 0.5: these are under-resolved, and inducing points near them would help."
    return f"{start} and {ill} below 0.5: much of the data is under-resolved, and more inducing points would help."


def relevance(values: tuple[Relevance, ...]) -> str:
    """Which inputs the kernel listens to."""
    largest = values[0].value
    if len(values) == 1:
        return f"The only input is {_quoted(values[0].column)}."
    if largest <= 0:
        return "No input has any relevance: the predictions are nearly constant."
    faint = [one for one in values if one.value < FAINT * largest]
    ratio = largest / values[1].value if values[1].value > 0 else float("inf")
    first, second = _quoted(values[0].column), _quoted(values[1].column)
    if ratio >= 1.5:
        by = (
            f"{number(ratio, 2)} times faster than with {second}, the next"
            if ratio < 1000
            else "and hardly with others"
        )
        text = f"Predictions change fastest with {first}, {by}."
    else:
        text = f"Predictions change fastest with {first} and {second}, at about the same rate."
    if faint:
        hardly = "hardly matters" if len(faint) == 1 else "hardly matter"
        text += f" {whole(len(faint))} of {counted(len(values), 'input')} {hardly}."
    return text


def slices(values: tuple[Slice, ...], task: str) -> str:
    """Which slice moves the prediction most."""
    if task == "classification":
        return ""
    spans = {one.column: max(one.curves[0].mean) - min(one.curves[0].mean) for one in values}
    best = max(spans, key=lambda column: spans[column])
    if len(spans) == 1 or spans[best] <= 0:
        return f"Along {_quoted(best)} the prediction moves by {number(spans[best])}."
    return f"Over these ranges {_quoted(best)} moves the prediction most, by {number(spans[best])}."


def slice_caption(content: Content) -> str:
    """How to read the slices."""
    others = "All other inputs stand at their median or most frequent level; strokes on the axis show where rows are"
    if content.task == "classification":
        what = "Each chart shows predicted probabilities as one input varies."
        return f"{what} {others}."
    level = percent(content.slices[0].level or 0.95, 0)
    noun = "a new count" if content.task == "counts" else "a new observation, noise included"
    same = " All have the same scale." if len(content.slices) > 1 else ""
    return f"Each chart varies one input: the line is the mean, the band holds {level} of {noun}. {others}.{same}"


def slice_title(content: Content, one: Slice) -> str:
    """What a slice's vertical axis shows."""
    if content.task != "classification":
        return content.subject.target
    return f"probability of {one.curves[0].label}" if len(one.curves) == 1 else "probability"


def sentence(message: str) -> str:
    """A message with a capital and a full stop."""
    return f"{message[:1].upper()}{message[1:].rstrip('.')}."


def columns(values: tuple[Column, ...]) -> str:
    """The input columns by kind, in words."""
    kinds = (("number", "numeric"), ("category", "categorical"), ("time", "temporal"))
    counts = [(sum(c.kind == kind for c in values), word) for kind, word in kinds]
    shown = ", ".join(f"{whole(count)} {word}" for count, word in counts if count)
    names = ", ".join(_with_levels(c) for c in values[:30]) + (", …" if len(values) > 30 else "")
    return f"{shown}: {names}"


def _with_levels(column: Column) -> str:
    name = shortened(column.name, 60)
    return name if column.num_levels is None else f"{name} ({counted(column.num_levels, 'level')})"


def worst(one: Worst, task: str, num_rows: int) -> str:
    """Whether the worst rows are worse than they should be."""
    from scipy.stats import norm

    count = "The held-out row" if len(one.rows) == 1 else f"The {len(one.rows)} held-out rows"
    start = f"{count} that the model found most surprising, the most surprising first."
    if task == "classification":
        given = [row.probability for row in one.rows if row.probability is not None]
        return f"{start} What came there had been given {percent(max(given))} at most." if given else start
    sizes = [abs(row.deviations) for row in one.rows if row.deviations is not None]
    if not sizes or num_rows < 20:
        return start
    largest = max(sizes)
    usual = float(norm.isf(0.5 / num_rows))
    chance = -float(_expm1_log(num_rows, float(2 * norm.sf(largest))))
    measured = f" The worst is {number(largest, 2)} predicted standard deviations off"
    typical = f"of {whole(num_rows)} rows from the model itself it would be about {number(usual, 2)}"
    if chance < 0.01:
        return f"{start}{measured}; {typical}. Look here for errors in the data, or for noise with heavier tails."
    return f"{start}{measured}; {typical}, so none of them is out of the ordinary."


def _expm1_log(count: int, tail: float) -> float:
    """``(1 − tail)^count − 1`` without loss of digits."""
    return math.expm1(count * math.log1p(-tail)) if tail < 1 else -1.0


def _quoted(name: str) -> str:
    return f"“{shortened(name, 40)}”"
