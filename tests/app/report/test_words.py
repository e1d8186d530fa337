"""Sentences of the report: each follows from its numbers."""

from dataclasses import replace

import pytest

from tightgp.app.report import words
from tightgp.app.report.content import (
    Coverage,
    Curve,
    Evidence,
    Heldout,
    PathStep,
    Scales,
    Slice,
    Trace,
    Training,
    Worst,
    WorstRow,
)
from tightgp.app.scores import binomial_range

NO_ROWS = Worst(0.95, True, (), ())


def heldout(count, *shares, calibration=()):
    levels = (0.5, 0.8, 0.9, 0.95)
    coverage = tuple(
        Coverage(level, share, *binomial_range(count, level)) for level, share in zip(levels, shares, strict=True)
    )
    return Heldout(count, (), NO_ROWS, coverage, calibration)


PATH = (PathStep(64, -1100.0, None, 1.0), PathStep(128, -1000.0, None, 2.0))


@pytest.mark.parametrize(
    ("evidence", "above", "verdict", "why"),
    [
        (Evidence(1000, -500.0, -496.0), 0.5, "Enough", "at most 0.0040 nats per row: 64 inducing points are enough"),
        (Evidence(1000, -500.0, -450.0), 0.5, "Nearly enough", "at most 0.050 nats per row"),
        (Evidence(1000, -500.0, 500.0), 0.5, "Unclear whether enough", "may be loose"),
        (Evidence(1000, -500.0, 500.0), 0.995, "Probably enough", "Nearly all v below are above 0.9"),
        (
            Evidence(1000, -500.0, 500.0, PATH),
            0.5,
            "Unclear whether enough",
            "from 64 to 128 inducing points still gained 0.10",
        ),
        (Evidence(100_000, -500.0, 5e5, PATH), 0.5, "Probably enough", "gained only 0.0010 nats per row"),
        (Evidence(1000, None, None), 0.5, "Unclear whether enough", "exists only"),
        (Evidence(1000, None, None, PATH), 0.5, "Still improving", "still gained"),
        (Evidence(100_000, None, None, PATH), 0.5, "Probably enough", "gained only"),
    ],
)
def test_evidence(evidence, above, verdict, why):
    found = words.evidence(evidence, 64, per_row(0.0, above))
    assert found[0] == verdict
    assert why in found[1]


def per_row(below, above):
    return Scales(5, 0.1, 1.0, 0.9, below, above, histogram=(1, 4))


@pytest.mark.parametrize(
    ("below", "expected"), [(0.001, "hardly any row"), (0.1, "inducing points near those rows"), (0.4, "many rows")]
)
def test_scales_of_rows(below, expected):
    assert expected in words.scales(per_row(below, 0.5))
    assert "every row is well explained" in words.scales(per_row(0.0, 1.0))


@pytest.mark.parametrize(
    ("count", "low", "high", "expected"),
    [
        (1, 0.95, 0.95, "The latent function has v = 0.950, near 1"),
        (2, 0.6, 0.9, "The latent functions have v between 0.600 and 0.900, below 1"),
        (2, 0.2, 0.2, "v = 0.200, well below 1"),
    ],
)
def test_scales_of_functions(count, low, high, expected):
    assert expected in words.scales(Scales(count, low, high, 0.5, 0.0, 0.0))


ONE = Training(-5.0, True, "relative gain below 1e-9", 3.2, 41, "iteration", ())


def test_training_that_converged():
    data = Evidence(100, None, None)
    start = "Training converged after 41 iterations (relative gain below 1e-9)."
    assert words.training(ONE, data) == f"{start} It took 3.2\u202fs."
    several = "All 2 numbers of inducing points together took 3.2\u202fs."
    assert words.training(ONE, replace(data, path=PATH)) == f"{start} {several}"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((), "It took 3.2\u202fs. Longer training may improve"),
        (tuple(-100.0 + k for k in range(50)), "still rose by 0.040 nats per row. Longer"),
        (tuple(-100.0 - k for k in range(50)), "still fell by 0.040 nats per row. Longer"),
        (
            (-500.0,) * 25 + (-100.0,) * 25,
            "In the last tenth of training the objective changed by only 0 nats per row.",
        ),
    ],
)
def test_training_that_did_not_converge(values, expected):
    traces = (Trace("objective", tuple(map(float, range(len(values)))), values),) if values else ()
    one = replace(ONE, converged=False, message="stopped at the iteration limit", traces=traces)
    text = words.training(one, Evidence(100, None, None))
    assert text.startswith("Training did not converge in 41 iterations: stopped at the iteration limit. It took")
    assert expected in text


def test_settled_numbers():
    steps = tuple(map(float, range(40)))
    still = Trace("noise", steps, (1.0,) * 40)
    moving = Trace("noise", steps, tuple(1.0 + 0.05 * k for k in range(40)))
    assert words.settled(still) == "The noise standard deviation settled at 1.00."
    assert "ended at 2.95, and changed by" in words.settled(moving)
    assert words.settled(Trace("dispersion", (1.0,), (2.0,))) == "The dispersion ended at 2.00."


def test_relevance():
    one = words.relevance((("a", 4.0), ("b", 1.0), ("c", 0.01)))
    assert one.startswith("Predictions change fastest along “a”, 4.0 times as fast as along “b”, the next input.")
    assert one.endswith(" 1 of 3 inputs hardly matters.")
    assert "about the same rate" in words.relevance((("a", 1.1), ("b", 1.0)))
    assert "hardly along the other inputs" in words.relevance((("a", 1.1), ("b", 0.0)))
    assert "only input" in words.relevance((("a", 1.1),))
    assert "nearly constant" in words.relevance((("a", 0.0), ("b", 0.0)))


def test_the_input_with_the_largest_effect_is_named():
    def one(name, high):
        return Slice(name, "number", (Curve("", (0.0, high)),), None, at=(0.0, 1.0))

    assert "“b” changes the prediction most, by 5.00" in words.largest_effect((one("a", 1.0), one("b", 5.0)))
    assert "“a” changes the prediction, by 1.00" in words.largest_effect((one("a", 1.0),))


def worst(*deviations):
    rows = tuple(WorstRow(k, "1", "2", (), low=0.0, high=1.0, deviations=d) for k, d in enumerate(deviations))
    return Worst(0.95, True, (), rows)


def test_errors_of_the_worst_rows_are_compared_with_those_to_be_expected():
    assert "none of these rows is unusual" in words.worst(worst(-3.4, 3.1), 4000)
    assert "about 3.7" in words.worst(worst(-3.4, 3.1), 4000)
    assert "heavier tails" in words.worst(worst(9.0), 4000)
    assert "heavier tails" in words.worst(worst(4.0), 50)
    assert words.worst(worst(None), 50).endswith("the lowest predictive density, lowest first.")


def test_worst_rows_of_classes(contents):
    one = contents["classes"].heldout.worst
    largest = max(row.probability for row in one.rows)
    assert f"lowest predicted probability, at most {100 * largest:.1f}\u202f%" in words.worst(one, 200)
