"""Sentences about scores: each verdict follows from its numbers, and chance is not called a fault."""

from dataclasses import replace

import pytest

from tightgp.app.report import verdicts
from tightgp.app.report.content import (
    Coverage,
    Heldout,
    Score,
    Worst,
)
from tightgp.app.scores import binomial_range

NO_ROWS = Worst(0.95, True, (), ())


def heldout(count, *shares, calibration=()):
    levels = (0.5, 0.8, 0.9, 0.95)
    coverage = tuple(
        Coverage(level, share, *binomial_range(count, level)) for level, share in zip(levels, shares, strict=True)
    )
    return Heldout(count, (), NO_ROWS, coverage, calibration)


@pytest.mark.parametrize(
    ("count", "shares", "expected"),
    [
        (
            4000,
            (0.49, 0.79, 0.895, 0.941),
            "94.1 % of 4,000 held-out rows lie inside their 95 % interval. All intervals contain as many",
        ),
        (
            4000,
            (0.40, 0.70, 0.80, 0.88),
            "88.0 % of 4,000 held-out rows lie inside their 95 % interval. All intervals are too narrow",
        ),
        (4000, (0.60, 0.90, 0.97, 0.99), "All intervals are too wide, by more than chance"),
        (4000, (0.50, 0.80, 0.90, 0.91), "The 95 % intervals are too narrow, by more"),
        (
            4000,
            (0.60, 0.85, 0.90, 0.91),
            "The 95 % intervals contain too few rows and the 50 % and 80 % intervals too many",
        ),
        (20, (0.35, 0.65, 0.80, 0.85), "All intervals contain as many rows as stated, up to chance"),
        (1_000_000, (0.505, 0.805, 0.905, 0.945), "All intervals contain nearly as many rows as stated"),
    ],
)
def test_coverage(count, shares, expected):
    found = verdicts.coverage(heldout(count, *shares), "regression").replace("\u202f", " ")
    assert expected in found


def test_intervals_of_counts_may_contain_more_rows_than_stated_but_not_fewer(contents):
    calibration = contents["counts"].heldout.calibration
    more = heldout(2000, 0.64, 0.88, 0.93, 0.97, calibration=calibration)
    assert "whole counts contain more rows than stated" in verdicts.coverage(more, "counts")
    assert verdicts.coverage_label(more, more.coverage[0], "counts") == "wide because counts are whole numbers"
    wide = tuple(replace(one, observed=min(1.0, one.level + 0.1)) for one in calibration)
    assert "too wide" in verdicts.coverage(replace(more, calibration=wide), "counts")
    assert "too narrow" in verdicts.coverage(heldout(2000, 0.4, 0.7, 0.8, 0.9, calibration=calibration), "counts")


def test_labels_of_coverage():
    held = heldout(1_000_000, 0.5, 0.7, 0.905, 0.99)
    found = [verdicts.coverage_label(held, one, "regression") for one in held.coverage]
    assert found == ["as stated", "too narrow", "nearly as stated", "too wide"]


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (3.0, "The inputs explain 91 % of the variance"),
        (9.9, "hardly better than a constant"),
        (11.0, "no better than"),
    ],
)
def test_accuracy(model, expected):
    held = replace(heldout(100, 0.5, 0.8, 0.9, 0.95), scores=(Score("RMSE", model, 10.0),))
    assert expected in verdicts.accuracy(held, "regression").replace("\u202f", " ")


def test_density():
    held = replace(heldout(100, 0.5, 0.8, 0.9, 0.95), scores=(Score("NLPD", 1.0, 1.5),))
    assert "0.50 nats per row better" in verdicts.density(held)
    assert "0.50 nats per row worse" in verdicts.density(replace(held, scores=(Score("NLPD", 2.0, 1.5),)))
    assert verdicts.density(replace(held, scores=(Score("NLPD", 2.0),))) == ""


def test_accuracy_of_classes(contents):
    held = contents["classes"].heldout
    assert "always predicting “" in verdicts.accuracy(held, "classification")
    poor = replace(held, scores=(Score("accuracy", 0.2, 0.3),))
    assert "no more than by always predicting" in verdicts.accuracy(poor, "classification")


@pytest.mark.parametrize(
    ("predicted", "observed", "error", "expected"),
    [
        (0.90, 0.89, 0.01, "no larger than chance explains"),
        (0.90, 0.80, 0.01, "overconfident"),
        (0.80, 0.90, 0.01, "underconfident"),
        (0.90, 0.89, 0.0001, "too small to matter"),
        (1.0, 1.0, 0.0, "no larger than chance explains"),
    ],
)
def test_confidence(contents, predicted, observed, error, expected):
    one = replace(contents["binary"].heldout.classes, predicted=predicted, observed=observed, standard_error=error)
    assert expected in verdicts.confidence(one)


def test_wrong_certainty_is_overconfident(contents):
    one = replace(contents["binary"].heldout.classes, predicted=1.0, observed=0.5, standard_error=0.0)
    assert "overconfident" in verdicts.confidence(one)
