"""The sentences: each verdict follows from its numbers, and chance is not called a fault."""

from dataclasses import replace

import pytest

from tests.report import problems
from tightgp import scores
from tightgp.report import verdicts, words
from tightgp.report.content import Curve, Evidence, PathStep, Relevance, Scales, Slice, Trace, Training
from tightgp.report.scored import Coverage, Heldout, Histogram, Score, Worst, WorstRow


def covered(level, observed, count):
    return Coverage(level, observed, *scores.binomial_range(count, level))


def heldout(count, *shares, calibration=None):
    levels = (0.5, 0.8, 0.9, 0.95)
    coverage = tuple(covered(level, share, count) for level, share in zip(levels, shares, strict=True))
    return Heldout(count, (), coverage, calibration, None, None, Worst(0.95, True, (), ()))


@pytest.mark.parametrize(
    ("count", "shares", "words_"),
    [
        (
            4000,
            (0.49, 0.79, 0.895, 0.941),
            "95 % intervals held 94.1 % of 4,000 held-out rows; all intervals hold as many",
        ),
        (4000, (0.40, 0.70, 0.80, 0.88), "held 88.0 % of 4,000 held-out rows: intervals are too narrow, by more"),
        (4000, (0.60, 0.90, 0.97, 0.99), "intervals are too wide, by more than chance"),
        (4000, (0.50, 0.80, 0.90, 0.91), "intervals are too narrow at 95 %, by more"),
        (4000, (0.60, 0.85, 0.90, 0.91), "Intervals of 95 % hold too few rows and those of 50 % and 80 % too many"),
        (20, (0.35, 0.65, 0.80, 0.85), "all intervals hold as many rows as they say, as nearly as chance allows"),
        (1_000_000, (0.505, 0.805, 0.905, 0.945), "all intervals hold nearly as many rows as they say"),
    ],
)
def test_coverage(count, shares, words_):
    found = verdicts.coverage(heldout(count, *shares), "regression").replace("\u202f", " ")
    assert words_ in found


def test_counts_may_hold_more_than_they_say_but_not_less(contents):
    calibration = contents["counts"].heldout.calibration
    more = heldout(2000, 0.64, 0.88, 0.93, 0.97, calibration=calibration)
    assert "whole counts hold more than they say" in verdicts.coverage(more, "counts")
    assert verdicts.coverage_word(more, more.coverage[0], "counts") == "wider, as whole counts make it"
    wide = replace(calibration, observed=tuple(min(1.0, level + 0.1) for level in calibration.levels))
    assert "too wide" in verdicts.coverage(replace(more, calibration=wide), "counts")
    assert "too narrow" in verdicts.coverage(heldout(2000, 0.4, 0.7, 0.8, 0.9, calibration=calibration), "counts")


def test_words_of_the_table():
    held = heldout(1_000_000, 0.5, 0.7, 0.905, 0.99)
    found = [verdicts.coverage_word(held, one, "regression") for one in held.coverage]
    assert found == ["as stated", "too narrow", "nearly as stated", "too wide"]


@pytest.mark.parametrize(
    ("model", "words_"),
    [
        (3.0, "The inputs explain 91 % of the variance"),
        (9.9, "hardly better than a constant"),
        (11.0, "no better than"),
    ],
)
def test_accuracy(model, words_):
    held = replace(heldout(100, 0.5, 0.8, 0.9, 0.95), scores=(Score("RMSE", model, 10.0),))
    assert words_ in verdicts.accuracy(held, "regression").replace("\u202f", " ")


def test_density():
    held = replace(heldout(100, 0.5, 0.8, 0.9, 0.95), scores=(Score("NLPD", 1.0, 1.5),))
    assert "0.50 nats a row better" in verdicts.density(held)
    assert "0.50 nats a row worse" in verdicts.density(replace(held, scores=(Score("NLPD", 2.0, 1.5),)))
    assert verdicts.density(replace(held, scores=(Score("NLPD", 2.0),))) == ""


def test_accuracy_of_classes(contents):
    held = contents["classes"].heldout
    assert "always answering “" in verdicts.accuracy(held, "classification")
    poor = replace(held, scores=(Score("accuracy", 0.2, 0.3),))
    assert "no more than by always answering" in verdicts.accuracy(poor, "classification")


@pytest.mark.parametrize(
    ("stated", "observed", "error", "words_"),
    [
        (0.90, 0.89, 0.01, "as near as chance allows"),
        (0.90, 0.80, 0.01, "overconfident"),
        (0.80, 0.90, 0.01, "underconfident"),
        (0.90, 0.89, 0.0001, "close enough"),
        (1.0, 1.0, 0.0, "as near as chance allows"),
    ],
)
def test_confidence(contents, stated, observed, error, words_):
    one = replace(contents["binary"].heldout.classes, stated=stated, observed=observed, stated_error=error)
    assert words_ in verdicts.confidence(one)


def test_sure_and_wrong_is_overconfident(contents):
    one = replace(contents["binary"].heldout.classes, stated=1.0, observed=0.5, stated_error=0.0)
    assert "overconfident" in verdicts.confidence(one)


PATH = (PathStep(64, -1100.0, None, 1.0), PathStep(128, -1000.0, None, 2.0))


@pytest.mark.parametrize(
    ("evidence", "above", "verdict", "why"),
    [
        (Evidence(1000, -500.0, -496.0), 0.5, "Enough", "at most 0.0040 nats a row: 64 inducing points are enough"),
        (Evidence(1000, -500.0, -450.0), 0.5, "Nearly enough", "at most 0.050 nats a row"),
        (Evidence(1000, -500.0, 500.0), 0.5, "Not shown", "may be loose"),
        (Evidence(1000, -500.0, 500.0), 0.995, "Probably enough", "Nearly all v, below, are above 0.9"),
        (Evidence(1000, -500.0, 500.0, PATH), 0.5, "Not shown", "from 64 to 128 inducing points still gained 0.10"),
        (Evidence(100_000, -500.0, 5e5, PATH), 0.5, "Probably enough", "gained only 0.0010 nats a row"),
        (Evidence(1000, None, None), 0.5, "Not measured", "fit with more"),
        (Evidence(1000, None, None, PATH), 0.5, "Still growing", "still gained"),
        (Evidence(100_000, None, None, PATH), 0.5, "Probably enough", "gained only"),
    ],
)
def test_evidence(evidence, above, verdict, why):
    found = words.evidence(evidence, 64, per_row(0.0, above))
    assert found[0] == verdict
    assert why in found[1]


def test_bracket_shows_its_width():
    assert words.bracket(-12345.678, -12345.6) == "between −12,345.678 and −12,345.600 nats, 0.0780 apart"
    assert words.bracket(-500.0, 800.0) == "between −500 and 800 nats, 1,300 apart"
    assert words.bracket(-5.0, -5.0) == "between −5.0 and −5.0 nats, 0 apart"


def per_row(below, above):
    return Scales(True, (), Histogram((0.0, 1.0), (5,)), 0.9, below, above)


@pytest.mark.parametrize(
    ("below", "words_"), [(0.001, "hardly any row"), (0.1, "inducing points near them"), (0.4, "much of the data")]
)
def test_scales_of_rows(below, words_):
    assert words_ in words.scales(per_row(below, 0.5))
    assert "none is under-resolved" in words.scales(per_row(0.0, 1.0))


@pytest.mark.parametrize(
    ("values", "words_"),
    [
        ((0.95,), "The latent function has v = 0.950, near 1"),
        ((0.6, 0.9), "The latent functions have v between 0.600 and 0.900, below 1"),
        ((0.2, 0.2), "v = 0.200, well below 1"),
    ],
)
def test_scales_of_functions(values, words_):
    assert words_ in words.scales(Scales(False, values, None, 0.5, 0.0, 0.0))


ONE = Training(-5.0, True, "relative gain below 1e-9", 3.2, 41, "iteration", ())


def test_training_that_converged():
    data = Evidence(100, None, None)
    assert (
        words.training(ONE, data) == "Training converged after 41 iterations and 3.2\u202fs (relative gain below 1e-9)."
    )
    data = replace(data, path=PATH)
    assert "after 41 iterations with the last of 2 sizes, 3.2\u202fs in all (" in words.training(ONE, data)


@pytest.mark.parametrize(
    ("values", "words_"),
    [
        ((), "before it converged: longer training may improve"),
        (tuple(-100.0 + k for k in range(50)), "still gained 0.040 nats a row in its last tenth: longer"),
        (tuple(-100.0 - k for k in range(50)), "still lost 0.040 nats a row"),
        (
            (-500.0,) * 25 + (-100.0,) * 25,
            "not seen to converge, but over its last tenth the objective changed by only 0",
        ),
    ],
)
def test_training_that_did_not(values, words_):
    traces = (Trace("objective", tuple(map(float, range(len(values)))), values),) if values else ()
    one = replace(ONE, converged=False, message="the last 2 gained -0.3 nats", traces=traces)
    text = words.training(one, Evidence(100, None, None))
    assert words_ in text
    assert "gained −0.3 nats" in text


def test_drift():
    steps = tuple(map(float, range(40)))
    still = Trace("noise", steps, (1.0,) * 40)
    moving = Trace("noise", steps, tuple(1.0 + 0.05 * k for k in range(40)))
    assert words.drift(still, "The noise") == "The noise settled at 1.00."
    assert "having moved by" in words.drift(moving, "The noise")
    assert words.drift(Trace("noise", (1.0,), (2.0,)), "It") == "It ended at 2.00."


def test_relevance():
    one = words.relevance((Relevance("a", 4.0), Relevance("b", 1.0), Relevance("c", 0.01)))
    assert one.startswith("Predictions change fastest with “a”, 4.0 times faster than with “b”, the next.")
    assert one.endswith(" 1 of 3 inputs hardly matters.")
    assert "about the same rate" in words.relevance((Relevance("a", 1.1), Relevance("b", 1.0)))
    assert "hardly with others" in words.relevance((Relevance("a", 1.1), Relevance("b", 0.0)))
    assert "only input" in words.relevance((Relevance("a", 1.1),))
    assert "nearly constant" in words.relevance((Relevance("a", 0.0), Relevance("b", 0.0)))


def test_slices_name_the_one_that_moves_most():
    def one(name, high):
        return Slice(name, "number", (0.0, 1.0), (), (Curve("", (0.0, high), (), ()),), None, ())

    assert "“b” moves the prediction most, by 5.00" in words.slices((one("a", 1.0), one("b", 5.0)), "regression")
    assert words.slices((one("a", 1.0),), "classification") == ""


def worst(*deviations):
    rows = tuple(WorstRow(k, "1", "2", 0.0, 1.0, None, d, -3.0, ()) for k, d in enumerate(deviations))
    return Worst(0.95, True, (), rows)


def test_worst_rows_are_held_against_what_so_many_rows_would_give():
    assert "none of them is out of the ordinary" in words.worst(worst(-3.4, 3.1), "regression", 4000)
    assert "about 3.7" in words.worst(worst(-3.4, 3.1), "regression", 4000)
    assert "heavier tails" in words.worst(worst(9.0), "regression", 4000)
    assert "heavier tails" in words.worst(worst(4.0), "regression", 50)
    assert words.worst(worst(None), "counts", 50).endswith("the most surprising first.")


def test_worst_classes(contents):
    one = contents["classes"].heldout.worst
    largest = max(row.probability for row in one.rows)
    assert f"had been given {100 * largest:.1f}\u202f% at most" in words.worst(one, "classification", 200)


def test_lead(contents):
    assert words.lead(contents["regression"]) == (
        f"A sparse Gaussian process with 64 inducing points, fitted to 300 rows of {problems.SOURCE} with 5 input "
        "columns in 3.2\u202fs; 200 further rows were held out."
    )
    assert "held out" not in words.lead(contents["no held-out rows"])
