"""Every bad verdict ends in what to try, and a good one in nothing."""

from dataclasses import replace

import pytest

from tightgp.app.report import content as parts
from tightgp.app.report import render
from tightgp.app.report.remedies import most_urgent, remedies
from tightgp.app.report.verdicts import summary


def test_a_good_model_needs_nothing(contents):
    held = contents["regression"].heldout
    stated = with_coverage(held, [one.level for one in held.coverage])
    assert not set(remedies(changed(contents["regression"], coverage=stated, by_prediction=()))) - {"worst"}


def changed(content, **fields):
    return replace(content, heldout=replace(content.heldout, **fields))


def with_coverage(held, observed):
    return tuple(
        parts.Coverage(one.level, o, one.low, one.high) for one, o in zip(held.coverage, observed, strict=True)
    )


def with_score(held, name, **values):
    return tuple(replace(one, **values) if one.name == name else one for one in held.scores)


BAD = {
    "linear": (
        "regression",
        "accuracy",
        "a linear model does better",
        lambda h: {"scores": with_score(h, "RMSE", linear=1.0)},
    ),
    "boosting": (
        "regression",
        "accuracy",
        "boosted trees do better",
        lambda h: {"scores": with_score(h, "RMSE", boosting=1.0)},
    ),
    "useless": ("regression", "accuracy", "tightgp inspect", lambda h: {"scores": with_score(h, "RMSE", baseline=1.0)}),
    "density": ("regression", "accuracy", "--noise student-t", lambda h: {"scores": with_score(h, "NLPD", model=1e3)}),
    "narrow": (
        "regression",
        "calibration",
        "calibrate",
        lambda h: {"coverage": with_coverage(h, (0.2, 0.3, 0.4, 0.5))},
    ),
    "wide": (
        "counts",
        "calibration",
        "negative_binomial",
        lambda h: {"coverage": with_coverage(h, (0.2, 0.3, 0.4, 0.5))},
    ),
    "shape": (
        "regression",
        "calibration",
        "heavy tails",
        lambda h: {"coverage": with_coverage(h, (0.8, 0.9, 0.8, 0.8))},
    ),
    "inputs": ("regression", "inputs", "other columns", lambda h: {"importance": (("area", -0.1),)}),
    "region": ("regression", "worst", "area", lambda h: {"regions": (parts.Region("area", "1 to 2", 30, 4.0, 0.5),)}),
    "sure": ("binary", "calibration", "matern12", lambda h: {"classes": replace(h.classes, observed=0.1)}),
    "unsure": ("binary", "calibration", "--inducing", lambda h: {"classes": replace(h.classes, predicted=0.1)}),
    "classes": ("classes", "accuracy", "inspect", lambda h: {"scores": with_score(h, "accuracy", baseline=1.0)}),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_verdict_has_a_remedy(contents, name):
    kind, section, words, change = BAD[name]
    content = changed(contents[kind], **change(contents[kind].heldout))
    found = remedies(content)[section]
    assert any(words in one for one in found)
    assert all(one.startswith("Try ") for one in found)
    assert not any("Python" in one for one in most_urgent(content, 9))
    page = render(content)
    assert page.count('<p class="advice">') == sum(map(len, remedies(content).values()))


def test_training_that_was_cut_short(contents):
    content = contents["regression"]
    content = replace(content, training=replace(content.training, converged=False, message="stopped at the limit"))
    assert most_urgent(content)[0].startswith("Try --max-iter 120")


def test_training_that_the_time_limit_ended(contents):
    training = replace(contents["regression"].training, converged=False, by_time=True)
    (found,) = remedies(replace(contents["regression"], training=training))["training"]
    assert "--time-limit" in found
    assert "--max-iter" not in found


def test_what_a_model_has_is_no_remedy(contents):
    content = contents["regression"]
    bad = changed(content, **BAD["linear"][3](content.heldout))
    exact = replace(bad, evidence=replace(bad.evidence, lower=-1.0, upper=-1.0))
    assert "--inducing" in " ".join(remedies(bad)["accuracy"])
    assert "--inducing" not in " ".join(remedies(exact)["accuracy"])
    for name, noise in (("density", "student-t"), ("shape", "student-t")):
        section = BAD[name][1]
        one = replace(changed(content, **BAD[name][3](content.heldout)), noise=noise)
        found = " ".join(remedies(one)[section])
        assert "--target-transform" in found
        assert "--noise student-t" not in found


def test_the_first_sentence(contents):
    for kind, content in contents.items():
        if content.heldout is None:
            continue
        text = summary(content.heldout, content.task, content.subject.target, len(content.subject.columns))
        assert text.count(". ") == 0
        assert "a linear model" in text
        assert "boosted trees" in text
        told = "told correctly" if content.heldout.classes else "usual error"
        assert told in text, kind
