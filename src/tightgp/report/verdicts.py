"""What to conclude from held-out scores. Chance is taken into account before anything is called wrong."""

from tightgp.report.numbers import counted, number, percent
from tightgp.report.scored import Classes, Coverage, Heldout, Score
from tightgp.report.svg import shortened

#: Coverage that is off by less than this share matters to nobody, however many rows show it.
SLIGHT = 0.015

#: What each score says, for who does not know it.
MEANING = {
    "RMSE": "root mean squared error, in the target's units",
    "MAE": "mean absolute error, in the target's units",
    "NLPD": "negative log predictive density, nats a row; smaller is better",
    "CRPS": "continuous ranked probability score, in the target's units; smaller is better",
    "accuracy": "share of rows whose most probable class came",
    "log loss": "negative log probability of what came, nats a row; smaller is better",
    "Brier score": "mean squared error of the probabilities; smaller is better",
}
BASELINE = {
    "regression": "one Gaussian with the training targets' mean and variance",
    "classification": "the training rows' class frequencies",
    "counts": "the training counts' own mean and distribution",
}


def accuracy(heldout: Heldout, task: str) -> str:
    """How good predictions are, against a prediction that ignores the inputs."""
    if task == "classification":
        return _classes(heldout)
    error = heldout.score("RMSE")
    if error is None or not error.baseline:
        return ""
    ratio = error.model / error.baseline
    rows = f"Over {counted(heldout.num_rows, 'held-out row')} the root mean squared error is {number(error.model)}"
    mean = f"predicting the training mean would give {number(error.baseline)}"
    if ratio >= 1.0:
        return f"{rows}, no better than a constant: {mean}."
    explained = 1 - ratio * ratio
    if explained < 0.05:
        return f"{rows}, hardly better than a constant: {mean}."
    return f"{rows}; {mean}. The inputs explain {percent(explained, 0)} of the variance."


def _classes(heldout: Heldout) -> str:
    right = heldout.score("accuracy")
    if right is None or heldout.classes is None:
        return ""
    text = f"The predicted class is right in {percent(right.model)} of {counted(heldout.num_rows, 'held-out row')}"
    if right.baseline is None:
        return f"{text}."
    answer = f"always answering “{shortened(heldout.classes.most_frequent, 40)}”, the most frequent class in training"
    if right.model <= right.baseline:
        return f"{text}, no more than by {answer}: {percent(right.baseline)}."
    return f"{text}; {answer}, would be right in {percent(right.baseline)}."


def coverage(heldout: Heldout, task: str) -> str:
    """Whether intervals hold as many rows as they say."""
    widest = heldout.coverage[-1]
    held = f"{percent(widest.level, 0)} intervals held {percent(widest.observed)} of "
    held += counted(heldout.num_rows, "held-out row")
    off = [(one, side(one)) for one in heldout.coverage]
    if task == "counts":
        # Intervals of whole counts hold more than asked, so that more alone is no fault.
        off = [(one, word if word == "narrow" or _wide_beyond_rounding(heldout, one) else "") for one, word in off]
    narrow = [one for one, word in off if word == "narrow"]
    wide = [one for one, word in off if word == "wide"]
    if narrow and wide:
        return (
            f"{held}. Intervals of {_levels(narrow)} hold too few rows and those of {_levels(wide)} too many: the "
            "shape of the noise is not what the model takes it for."
        )
    if narrow or wide:
        found, word = (narrow, "narrow") if narrow else (wide, "wide")
        others = "" if len(found) == len(heldout.coverage) else f" at {_levels(found)}"
        return f"{held}: intervals are too {word}{others}, by more than chance explains."
    if task == "counts" and any(side(one) for one in heldout.coverage):
        more = "Intervals of whole counts hold more than they say, narrow ones most"
        return f"{held}. {more}; apart from that, coverage is what chance allows."
    if all(one.low <= one.observed <= one.high for one in heldout.coverage):
        return f"{held}; all intervals hold as many rows as they say, as nearly as chance allows."
    return f"{held}; all intervals hold nearly as many rows as they say."


def side(one: Coverage) -> str:
    """ "narrow" or "wide" where coverage is off by more than chance, and by enough to matter; else nothing."""
    if one.low <= one.observed <= one.high or abs(one.observed - one.level) < SLIGHT:
        return ""
    return "narrow" if one.observed < one.level else "wide"


def coverage_word(heldout: Heldout, one: Coverage, task: str) -> str:
    """A level's verdict for its row of the table."""
    word = side(one)
    if task == "counts" and word == "wide" and not _wide_beyond_rounding(heldout, one):
        return "wider, as whole counts make it"
    if word:
        return f"too {word}"
    return "as stated" if one.low <= one.observed <= one.high else "nearly as stated"


def _wide_beyond_rounding(heldout: Heldout, one: Coverage) -> bool:
    """Whether the randomised P(Y ≤ y), which is not rounded to whole counts, finds intervals too wide as well."""
    if heldout.calibration is None or not heldout.calibration.levels:
        return False
    c = heldout.calibration
    level, observed, high = min(zip(c.levels, c.observed, c.high, strict=True), key=lambda at: abs(at[0] - one.level))
    return observed > high and observed - level >= SLIGHT


def confidence(one: Classes) -> str:
    """Whether stated probabilities come true, on the whole."""
    z = (one.observed - one.stated) / max(one.stated_error, 1e-12)
    said = f"On average the model gave the class that it predicted {percent(one.stated)}, and was right in "
    said += percent(one.observed)
    if abs(z) < 2.576:
        return f"{said}: as near as chance allows."
    if abs(one.observed - one.stated) < SLIGHT:
        return f"{said}: close enough for most purposes."
    return f"{said}: it is {'over' if z < 0 else 'under'}confident, by more than chance explains."


def shown(score: Score, value: float | None) -> str:
    """A score's value in its own form."""
    if value is None:
        return "–"
    return percent(value) if score.name == "accuracy" else number(value)


def _levels(found: list[Coverage]) -> str:
    words = [percent(one.level, 0) for one in found]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def density(heldout: Heldout) -> str:
    """What the log density says beyond the error."""
    score = heldout.score("NLPD")
    if score is None or score.baseline is None:
        return ""
    gain = score.baseline - score.model
    if gain <= 0:
        return (
            f"Its predictive distributions score {number(-gain, 2)} nats a row worse than one Gaussian for all rows: "
            "some rows lie far outside of what was predicted for them."
        )
    return f"Its predictive distributions score {number(gain, 2)} nats a row better than one Gaussian for all rows."
