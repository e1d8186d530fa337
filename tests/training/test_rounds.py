"""Partitions recomputed from what was learnt: each is an objective of its own, and the last one's result counts."""

import os
import shutil
import signal

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import tightgp as tgp
from tests.training.problems import assert_same
from tightgp.data.placement import on_device
from tightgp.data.rows import Rows
from tightgp.io import modelfile
from tightgp.progress import ProgressBar
from tightgp.training.full_batch import FirstOrderJob

RNG = np.random.default_rng(1)
X = RNG.uniform(-2, 2, size=(60, 4))
DATA = tgp.Dataset(X, np.sin(3 * X[:, 0]) + 0.5 * np.sin(X[:, 1]) + 0.1 * RNG.normal(size=60))
KERNEL = tgp.kernels.SquaredExponential(1.0, [1.0] * 4)
START = (1.0,) * 4
MODEL = tgp.SGPR(KERNEL, X[:5], 0.1, tgp.Block(8))  # two inputs say nothing, which training finds out
LBFGS = {"steps": 4}
ADAM = {"method": "adam", "steps": 100, "learning_rate": 0.05}


def run(model=MODEL, data=DATA, **options):
    return tgp.fit(model, data, progress=False, **options)


@pytest.mark.parametrize("options", [LBFGS, ADAM], ids=["lbfgs", "adam"])
def test_training_goes_on_with_neighbours_by_what_was_learnt(options):
    plain, first, result = run(**options), run(**options, refresh=1), run(**options, refresh=2)
    assert "partition" not in plain.trace
    np.testing.assert_array_equal(plain.model.metric, START)
    np.testing.assert_array_equal(first.model.metric, plain.model.kernel.lengthscale)
    np.testing.assert_array_equal(result.model.metric, first.model.kernel.lengthscale)
    assert float(result.model.elbo(DATA)) == pytest.approx(result.objective, rel=1e-9)

    number = result.trace["partition"]
    np.testing.assert_array_equal(number, np.repeat([0, 1, 2], len(plain.trace["objective"])))
    for name, column in plain.trace.items():
        np.testing.assert_array_equal(result.trace[name][number == 0], column)
        np.testing.assert_array_equal(result.trace[name][number < 2], first.trace[name])
    assert result.objective == result.trace["objective"][number == 2].max()
    assert result.restarts == plain.restarts == [plain.objective]
    assert result.evaluations > first.evaluations > plain.evaluations
    assert result.message.endswith("; partition recomputed 2 times")
    assert first.message.endswith("; partition recomputed once")


def test_a_second_training_groups_rows_by_what_the_first_learnt():
    plain = run(**LBFGS)
    again = run(plain.model, **LBFGS)
    np.testing.assert_array_equal(again.model.metric, plain.model.kernel.lengthscale)
    assert_same(
        again, run(tgp.SGPR(plain.model.kernel, plain.model.Z, plain.model.noise_variance, tgp.Block(8)), **LBFGS)
    )


def test_a_round_begins_with_the_parameters_of_the_one_before():
    plain, result = run(**LBFGS), run(**LBFGS, refresh=1)
    regrouped, rows = plain.model.regrouped(DATA)
    assert result.trace["objective"][result.trace["partition"] == 1][0] == pytest.approx(
        float(regrouped.objective(rows)[0]), rel=1e-12
    )


def test_better_neighbours_give_a_higher_bound():
    """At the same parameters, where two inputs came out as irrelevant."""
    learnt, _ = MODEL.prepare(DATA)
    learnt = tgp.assign(learnt, {"kernel.lengthscale": [1.0, 2.0, 50.0, 50.0]})
    regrouped, _ = learnt.regrouped(DATA)
    np.testing.assert_allclose(regrouped.metric, (1.0, 2.0, 50.0, 50.0))
    assert float(regrouped.elbo(DATA)) > float(learnt.elbo(DATA)) + 1.0
    assert regrouped.regrouped(DATA) is None


def test_power_ep_too():
    model, _ = tgp.SGPR(KERNEL, X[:5], 0.1, tgp.PowerEP(1.0, block=8)).prepare(DATA)
    assert model.groups_neighbours
    assert model.regrouped(DATA) is None
    learnt = tgp.assign(model, {"kernel.lengthscale": [1.0, 2.0, 50.0, 50.0]})
    regrouped, laid = learnt.regrouped(DATA)
    np.testing.assert_allclose(regrouped.metric, (1.0, 2.0, 50.0, 50.0))
    new, old = (np.asarray(one.sample(one.real()).y) for one in (laid, model.prepare(DATA)[1]))
    np.testing.assert_array_equal(np.sort(new, axis=0), np.sort(DATA.targets, axis=0))
    assert not np.array_equal(new, old)


def test_natural_gradients_too():
    model = tgp.SVGP(KERNEL, tgp.likelihoods.Gaussian(0.1), X[:5], tgp.Block(8))
    options = {"method": "natural", "steps": 50, "learning_rate": 0.05}
    plain, result = run(model, **options), run(model, **options, refresh=1)
    np.testing.assert_array_equal(plain.model.metric, START)
    np.testing.assert_array_equal(result.model.metric, plain.model.kernel.lengthscale)
    assert float(result.model.elbo(DATA)) == pytest.approx(result.objective, rel=1e-9)


def test_a_partition_that_stays_ends_it():
    result = run(steps=30, refresh=50)
    rounds = int(result.trace["partition"][-1])
    assert 0 < rounds < 50
    assert "; partition unchanged after being recomputed " in result.message
    assert result.model.regrouped(DATA) is None
    assert float(result.model.elbo(DATA)) == pytest.approx(result.objective, rel=1e-9)


def test_rounds_continue_from_the_best_start():
    alone = run(**LBFGS, restarts=2)
    result = run(**LBFGS, restarts=2, refresh=1)
    assert alone.restarts.index(max(alone.restarts)) > 0  # else it says nothing about starts
    assert result.restarts == alone.restarts
    number = result.trace["partition"]
    np.testing.assert_array_equal(result.trace["objective"][number == 0], alone.trace["objective"])
    np.testing.assert_array_equal(result.model.metric, alone.model.kernel.lengthscale)
    assert result.evaluations > alone.evaluations


class Falling(eqx.Module):
    """Maximise −(x − 3)² − 10·number: a new number each time, up to ``last``; not finite from ``breaks`` on."""

    x: tgp.parameters.Parameter
    number: int = eqx.field(static=True, default=0)
    breaks: int = eqx.field(static=True, default=9)
    last: int = eqx.field(static=True, default=9)

    groups_neighbours = True

    def ungrouped(self):
        return self

    def prepare(self, data):
        return self, on_device(Rows(np.zeros((1, 1)), np.zeros((1, 1)), np.ones(1)))

    def regrouped(self, data):
        if self.number == self.last:
            return None
        return Falling(self.x, self.number + 1, self.breaks, self.last).prepare(data)

    def objective(self, rows, key=None):
        value = -((self.x.value - 3.0) ** 2) - 10.0 * self.number
        return (value if self.number < self.breaks else value * jnp.nan), {}

    def random_start(self, key, rows):
        return self

    def explain(self, rows):
        return "broken"


@pytest.mark.parametrize("method", ["lbfgs", "adam"])
def test_a_lower_objective_of_a_later_partition_is_the_result(method):
    result = run(Falling(tgp.parameters.real(0.0)), None, method=method, learning_rate=0.3, refresh=2, steps=50)
    assert result.model.number == 2
    assert -20.1 < result.objective < -19.99
    assert result.trace["objective"].max() > -1.0
    assert result.message.endswith("; partition recomputed 2 times")


@pytest.mark.parametrize(
    ("last", "after"), [(0, "training"), (1, "being recomputed once"), (2, "being recomputed 2 times")]
)
def test_the_message_says_when_it_settled(last, after):
    result = run(Falling(tgp.parameters.real(0.0), last=last), None, refresh=5)
    assert result.message.endswith(f" steps; partition unchanged after {after}")
    assert result.converged
    assert result.model.number == last == result.trace["partition"][-1]


def test_training_goes_on_where_the_partition_stays_but_nothing_had_settled():
    start = Falling(tgp.parameters.real(50.0), last=0)
    short = run(start, None, method="adam", steps=20, learning_rate=0.3)
    result = run(start, None, method="adam", steps=20, learning_rate=0.3, refresh=1)
    assert not short.converged
    assert result.steps == 2 * short.steps == 40
    assert result.objective > short.objective
    assert set(result.trace["partition"]) == {0}
    assert result.message.endswith("; partition unchanged after training")


@pytest.mark.parametrize("method", ["lbfgs", "adam"])
def test_a_partition_without_a_finite_objective_leaves_the_one_before(method):
    result = run(
        Falling(tgp.parameters.real(0.0), breaks=2), None, method=method, learning_rate=0.3, refresh=4, steps=50
    )
    assert result.model.number == 1
    assert -10.1 < result.objective < -9.99
    assert set(result.trace["partition"]) == {0, 1}
    assert np.all(np.isfinite(result.trace["objective"]))
    assert "the objective was not finite in partition 2, 1 stays" in result.message
    assert not result.converged


def test_the_callback_counts_on_and_hears_the_partition():
    seen = []
    result = run(**LBFGS, restarts=1, refresh=2, callback=lambda step, row: seen.append((step, row)))
    assert [step for step, _ in seen] == [1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
    assert [row["partition"] for _, row in seen] == [0] * 8 + [1] * 4 + [2] * 4
    assert seen[-1][1]["objective"] == result.trace["objective"][-1]


@pytest.mark.parametrize(("how", "reason"), [("stop", "CALLBACK"), ("interrupt", "INTERRUPTED")])
@pytest.mark.parametrize("options", [LBFGS, ADAM], ids=["lbfgs", "adam"])
def test_ending_a_round_returns_its_best(how, reason, options):
    def callback(step, row):
        if row["partition"] == 1 and how == "interrupt":
            os.kill(os.getpid(), signal.SIGINT)
        return row["partition"] == 1

    whole, result = run(**options, refresh=2), run(**options, refresh=2, callback=callback)
    assert result.reason is tgp.StopReason[reason]
    assert not result.converged
    assert set(result.trace["partition"]) == {0, 1}
    rows = len(result.trace["partition"])
    np.testing.assert_array_equal(result.trace["objective"], whole.trace["objective"][:rows])
    assert result.objective >= result.trace["objective"][result.trace["partition"] == 1].max()
    assert float(result.model.elbo(DATA)) == pytest.approx(result.objective, rel=1e-9)


def test_ending_the_first_training_makes_no_partition():
    result = run(**LBFGS, restarts=1, refresh=2, callback=lambda step, row: step == 2)
    assert result.reason is tgp.StopReason.CALLBACK
    assert len(result.restarts) == 1
    assert set(result.trace["partition"]) == {0}


@pytest.mark.parametrize("moment", ["grouping", "training"])
def test_ctrl_c_before_a_round_has_anything_returns_the_one_before(moment, monkeypatch):
    options = {**ADAM, "steps": 50}
    before, step, calls = run(**options, refresh=1), FirstOrderJob.advance, iter(range(2))
    grouped = tgp.SGPR.regrouped

    def interrupted(original):
        def call(*arguments):
            if next(calls, None) is None:
                raise KeyboardInterrupt
            return original(*arguments)

        return call

    if moment == "training":
        monkeypatch.setattr(FirstOrderJob, "advance", interrupted(step))
    else:
        next(calls)
        monkeypatch.setattr(tgp.SGPR, "regrouped", interrupted(grouped))
    result = run(**options, refresh=2)
    assert result.interrupted
    assert not result.converged
    assert result.objective == before.objective
    np.testing.assert_array_equal(result.model.metric, before.model.metric)
    np.testing.assert_array_equal(result.trace["partition"], before.trace["partition"])


def test_the_progress_bar_tells_the_round(monkeypatch):
    shown, begin = [], ProgressBar.__init__

    def noted(self, total, enabled, title, state):
        shown.append(title)
        begin(self, total, enabled, title, state)

    monkeypatch.setattr(ProgressBar, "__init__", noted)
    run(**LBFGS, refresh=2)
    run(**LBFGS)
    assert shown == ["partition 1 of 3", "partition 2 of 3", "partition 3 of 3", "fit"]


@pytest.mark.parametrize("options", [{**LBFGS, "restarts": 1}, ADAM], ids=["lbfgs", "adam"])
def test_killed_anywhere_it_resumes_to_the_same_bits(options, tmp_path, monkeypatch):
    """What a kill leaves at a step is the file as it is then."""
    path, left = tmp_path / "run.safetensors", []

    def keep(step, row):
        left.append(tmp_path / f"{len(left)}.safetensors")
        shutil.copy(path, left[-1])

    whole = run(**options, refresh=2)
    assert_same(run(**options, refresh=2, checkpoint=path, checkpoint_seconds=0, callback=keep), whole)
    assert len(left) == (16 if "restarts" in options else 6)
    for file in left[1::2]:
        assert_same(run(**options, refresh=2, checkpoint=file, resume=True), whole)
    monkeypatch.setattr("tightgp.training.objective.Objective.advance", lambda *_: pytest.fail("evaluated"))
    monkeypatch.setattr(FirstOrderJob, "advance", lambda *_: pytest.fail("stepped"))
    assert_same(run(**options, refresh=2, checkpoint=path, resume=True), whole)


@pytest.mark.parametrize(
    "changed", [{"steps": 100}, {"restarts": 1}, {"refresh": 2}], ids=["steps", "starts", "rounds"]
)
def test_a_resume_that_changes_what_a_round_begins_with_starts_it_over(changed, tmp_path):
    """A longer first training, or another start that is better, leads to another partition and another point."""
    path, options = tmp_path / "run.safetensors", {**ADAM, "steps": 50, "refresh": 1}
    run(**options, checkpoint=path)
    options |= changed
    assert_same(run(**options, checkpoint=path, resume=True), run(**options))
    sections = modelfile.read(path, "checkpoint")["sections"]
    assert len(sections) == options["refresh"] + options.get("restarts", 0) + 1
