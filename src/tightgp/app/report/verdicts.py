"""Sentences about scores on held-out rows. A deviation that chance explains is not called a fault."""

from tightgp.app.report.content import Classes, Coverage, Heldout, LevelShares, ReliabilityBin, Score
from tightgp.app.report.numbers import counted, number, percent, shortened

#: Coverage, or a frequency, that is off by less than this share does not matter, however many rows show it.
SLIGHT = 0.015
#: The number of standard errors that chance exceeds with probability 1 %.
_STANDARD_ERRORS = 2.576


def accuracy(heldout: Heldout, task: str) -> str:
    """How accurate predictions are, compared with the baseline."""
    if task == "classification":
        return _accuracy_of_classes(heldout)
    error = heldout.score("RMSE")
    if error is None or not error.baseline:
        return ""
    explained = explained_share(heldout)
    rows = f"On {counted(heldout.num_rows, 'held-out row')} the typical error (RMSE) is {number(error.model)}"
    constant = f"predicting the training mean for every row would give {number(error.baseline)}"
    if explained <= 0:
        return f"{rows}, no better than a constant: {constant}."
    if explained < 0.05:
        return f"{rows}, hardly better than a constant: {constant}."
    return f"{rows}; {constant}. The inputs explain {percent(explained, 0)} of the variance."


def explained_share(heldout: Heldout) -> float:
    """The share of the variance of numbers that the predictions explain; it may be negative."""
    error = heldout.score("RMSE")
    return 0.0 if error is None or not error.baseline else 1 - (error.model / error.baseline) ** 2


def summary(heldout: Heldout, task: str, target: str, num_inputs: int) -> str:
    """How good the model is and whether it can be trusted, in one sentence."""
    start = f"From {counted(num_inputs, 'input')}, “{shortened(target, 40)}” is"
    if heldout.classes is not None:
        right = heldout.score("accuracy")
        more = heldout.classes.observed > heldout.classes.predicted
        usual = "more often than" if more else "less often than"
        often = {"chance": "as often as", "slight": "nearly as often as"}.get(verdict_on(heldout.classes), usual)
        share = percent(None if right is None else right.model, 0)
        told = f"{start} told correctly for {share} of new rows{_beside_rivals(heldout, 'log loss')}"
        return f"{told}; it is right {often} its probabilities say."
    error, explained, widest = heldout.score("MAE"), explained_share(heldout), heldout.coverage[-1]
    share = (
        f"explaining {percent(explained, 0)} of its variance" if explained >= 0.05 else "hardly better than its mean"
    )
    told = f"{start} predicted with a usual error of {number(None if error is None else error.model)}, {share}"
    off = {"too narrow": "are too narrow", "too wide": "are too wide"}
    reliable = off.get(deviates(heldout, widest, task), "can be relied on")
    inside = f"{percent(widest.level, 0)} intervals {reliable} (they hold {percent(widest.observed)} of new rows)"
    return f"{told}{_beside_rivals(heldout, 'RMSE')}; its {inside}."


def _beside_rivals(heldout: Heldout, name: str) -> str:
    """Whether the model is better than the rivals by a score that should be small."""
    score = heldout.score(name)
    rivals = {} if score is None else {"a linear model": score.linear, "boosted trees": score.boosting}
    known = {rival: value for rival, value in rivals.items() if value is not None}
    if score is None or not known:
        return ""
    words = {rival: _compared(score.model, value) for rival, value in known.items()}
    if len(set(words.values())) == 1:
        return f", {next(iter(words.values()))} {' and '.join(words)}"
    return ", " + " and ".join(f"{word} {rival}" for rival, word in words.items())


def _compared(model: float, rival: float) -> str:
    if abs(model - rival) <= 0.02 * abs(rival):
        return "about as well as"
    return "better than" if model < rival else "worse than"


def _accuracy_of_classes(heldout: Heldout) -> str:
    correct = heldout.score("accuracy")
    if correct is None or correct.baseline is None or heldout.classes is None:
        return ""
    rows = f"{percent(correct.model)} of {counted(heldout.num_rows, 'held-out row')} are predicted correctly"
    if (distance := heldout.score("level error")) is not None:
        rows += f", and the predicted level is {number(distance.model, 2)} levels off on average"
    constant = f"always predicting “{shortened(heldout.classes.most_frequent, 40)}”, the most frequent training class"
    if correct.model <= correct.baseline:
        return f"{rows}, no more than by {constant}: {percent(correct.baseline)}."
    return f"{rows}; {constant}, would be correct for {percent(correct.baseline)}."


def density(heldout: Heldout) -> str:
    """How the predictive density compares with the baseline's."""
    score = heldout.score("NLPD")
    if score is None or score.baseline is None:
        return ""
    gain = score.baseline - score.model
    text = f"The predictive density is {number(abs(gain), 2)} nats per row"
    if gain > 0:
        return f"{text} better than the baseline's."
    return f"{text} worse than the baseline's: some rows lie far outside the range predicted for them."


def coverage(heldout: Heldout, task: str) -> str:
    """Whether intervals contain as many rows as stated."""
    widest = heldout.coverage[-1]
    start = f"{percent(widest.observed)} of {counted(heldout.num_rows, 'held-out row')} lie inside their "
    start += f"{percent(widest.level, 0)} interval"
    verdicts = [deviates(heldout, one, task) for one in heldout.coverage]
    if "too narrow" in verdicts and "too wide" in verdicts:
        narrow, wide = (_levels(heldout, verdicts, verdict) for verdict in ("too narrow", "too wide"))
        start += f". The {narrow} intervals contain too few rows and the {wide} intervals too many"
        return f"{start}: the noise does not have the shape that the model assumes."
    for verdict in ("too narrow", "too wide"):
        if verdict in verdicts:
            which = "All" if set(verdicts) == {verdict} else f"The {_levels(heldout, verdicts, verdict)}"
            return f"{start}. {which} intervals are {verdict}, by more than chance explains."
    if "rounded" in verdicts:
        start += ". Intervals of whole counts contain more rows than stated, short ones most; apart from that,"
        return f"{start} all intervals contain as many rows as stated, up to chance."
    if all(one.low <= one.observed <= one.high for one in heldout.coverage):
        return f"{start}. All intervals contain as many rows as stated, up to chance."
    return f"{start}. All intervals contain nearly as many rows as stated."


def coverage_label(heldout: Heldout, one: Coverage, task: str) -> str:
    """The verdict on one level, for its row of the table."""
    verdict = deviates(heldout, one, task)
    if verdict == "rounded":
        return "wide because counts are whole numbers"
    return verdict or ("as stated" if one.low <= one.observed <= one.high else "nearly as stated")


def worst_fifth(heldout: Heldout) -> str:
    """How reliable the widest intervals are where they are least so, by the size of the prediction."""
    level = heldout.by_prediction[0].level
    worst = max(range(5), key=lambda i: abs(heldout.by_prediction[i].observed - level))
    which = ("lowest", "second lowest", "middle", "second highest", "highest")[worst]
    shares = [percent(one.observed, 0) for one in heldout.by_prediction]
    text = f"By fifths of the predictions, lowest first, the {percent(level, 0)} intervals contain "
    text += f"{', '.join(shares[:-1])} and {shares[-1]} of the rows"
    if not _is_off(heldout.by_prediction[worst]):
        return f"{text}: as reliable everywhere, up to chance."
    verdict = "few" if heldout.by_prediction[worst].observed < level else "many"
    return f"{text}. Too {verdict} among the {which} predictions: the noise differs, or the target needs a transform."


def importance(heldout: Heldout, task: str) -> str:
    """Which inputs held-out predictions need most."""
    needed = [(name, rise) for name, rise in heldout.importance if rise > 0][:3]
    if not needed:
        return "No input by itself improves the predictions of held-out rows."
    error = "log loss" if task == "classification" else "RMSE"
    named = [f"“{shortened(name, 40)}” ({number(rise, 2)})" for name, rise in needed]
    listed = " and ".join([", ".join(named[:-1]), named[-1]] if len(named) > 1 else named)
    return f"Held-out predictions need {listed} most: by so much the {error} rises if the column is shuffled."


def confidence(one: Classes) -> str:
    """Whether predicted probabilities match observed frequencies on the whole."""
    start = f"The predicted class has a mean probability of {percent(one.predicted)}, and is correct for "
    start += f"{percent(one.observed)} of the rows"
    gap = one.observed - one.predicted
    verdict = verdict_on(one)
    if verdict == "chance":
        return f"{start}: the difference is no larger than chance explains."
    if verdict == "slight":
        return f"{start}: the difference is too small to matter for most purposes."
    return f"{start}: the model is {'over' if gap < 0 else 'under'}confident, by more than chance explains."


def verdict_on(one: Classes) -> str:
    """Whether predicted probabilities are "off", or by a "slight" difference, or by no more than "chance" explains."""
    gap = abs(one.observed - one.predicted)
    if gap < _STANDARD_ERRORS * max(one.standard_error, 1e-12):
        return "chance"
    return "slight" if gap < SLIGHT else "off"


def level_label(one: LevelShares) -> str:
    """The verdict on the probability of one ordered level, for its row of the table."""
    off = [part for part in (one.likeliest, one.every) if _is_off_bin(part)]
    if not off:
        return "as stated"
    return "claimed too often" if off[0].observed < off[0].predicted else "claimed too rarely"


def _is_off_bin(one: ReliabilityBin) -> bool:
    return not one.low <= one.observed <= one.high and abs(one.observed - one.predicted) >= SLIGHT


def regions(heldout: Heldout, task: str) -> str:
    """Where errors are larger than elsewhere, in words."""
    if not heldout.regions:
        return "No level of an input, and no part of its range, is predicted worse than chance explains."
    named = []
    for one in heldout.regions[:3]:
        times = f"{number(one.ratio**0.5 if task != 'classification' else one.ratio, 2)} times"
        named.append(f"where “{shortened(one.column, 40)}” is {shortened(one.part, 40)} ({times} the usual error)")
    return f"Predictions are worst {', '.join(named[:-1])}{' and ' if len(named) > 1 else ''}{named[-1]}."


def shown(score: Score, value: float | None) -> str:
    """The value of a score as text."""
    return percent(value) if score.name == "accuracy" else number(value)


def deviates(heldout: Heldout, one: Coverage, task: str) -> str:
    """The verdict "too narrow" or "too wide" if coverage is off by more than chance explains and enough to matter.

    Intervals of counts contain more rows than stated, because their ends are whole numbers. The verdict on them is
    "rounded" unless the randomised P(Y ≤ y), which has no such effect, shows that they are too wide as well.
    """
    if not _is_off(one):
        return ""
    if one.observed < one.level:
        return "too narrow"
    if task != "counts":
        return "too wide"
    near = min(heldout.calibration, key=lambda other: abs(other.level - one.level), default=None)
    return "too wide" if near and _is_off(near) and near.observed > near.level else "rounded"


def _is_off(one: Coverage) -> bool:
    return not one.low <= one.observed <= one.high and abs(one.observed - one.level) >= SLIGHT


def _levels(heldout: Heldout, verdicts: list[str], verdict: str) -> str:
    levels = [percent(one.level, 0) for one, found in zip(heldout.coverage, verdicts, strict=True) if found == verdict]
    return " and ".join([", ".join(levels[:-1]), levels[-1]] if len(levels) > 1 else levels)
