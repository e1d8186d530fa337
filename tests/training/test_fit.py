"""`fit`: starts, frozen parameters, priors, callbacks and Ctrl-C."""

import os
import signal

import numpy as np
import pytest

import tightgp as tgp
from tests.training.problems import sgpr


def test_exact_gp_trains_too(snelson_like):
    result = tgp.fit(tgp.ExactGP(tgp.kernels.SquaredExponential()), snelson_like, progress=False)
    assert result.converged
    assert result.objective > float(tgp.ExactGP(tgp.kernels.SquaredExponential()).log_evidence(snelson_like))


@pytest.mark.parametrize("method", ["lbfgs", "adam"])
def test_the_same_seed_gives_the_same_result(snelson_like, method):
    runs = [
        tgp.fit(sgpr(snelson_like), snelson_like, method, steps=30, restarts=2, seed=3, progress=False)
        for _ in range(2)
    ]
    assert runs[0].objective == runs[1].objective
    np.testing.assert_array_equal(runs[0].model.Z, runs[1].model.Z)


def test_restarts_return_the_best(snelson_like):
    alone = tgp.fit(sgpr(snelson_like), snelson_like, progress=False)
    result = tgp.fit(sgpr(snelson_like), snelson_like, restarts=4, progress=False)
    assert len(result.restarts) == 5
    assert result.restarts[0] == alone.objective
    assert len(set(result.restarts)) > 1
    assert result.objective == max(result.restarts) == result.trace["objective"].max()


def test_frozen_parameters_stay(snelson_like):
    model = tgp.freeze(sgpr(snelson_like), "Z", "kernel.variance")
    trained = tgp.fit(model, snelson_like, restarts=1, progress=False).model
    np.testing.assert_array_equal(trained.Z, model.Z)
    assert float(trained.kernel.variance) == float(model.kernel.variance)
    assert float(trained.kernel.lengthscale) != float(model.kernel.lengthscale)
    with pytest.raises(ValueError, match="every one is frozen"):
        tgp.fit(tgp.freeze(model, "*"), snelson_like)


def test_priors_make_it_map_estimation(snelson_like):
    """A narrow prior pins its parameter; the objective is the bound plus the log prior density."""
    prior = tgp.priors.LogNormal(np.log(3.0), 0.001)
    model = tgp.with_priors(sgpr(snelson_like), {"kernel.lengthscale": prior})
    result = tgp.fit(model, snelson_like, progress=False)
    lengthscale = result.model.kernel.lengthscale
    assert float(lengthscale) == pytest.approx(3.0, rel=0.01)
    expected = float(result.model.elbo(snelson_like)) + float(prior.log_density(lengthscale))
    assert result.objective == pytest.approx(expected, rel=1e-9)


def test_blocks_keep_their_partition_through_training(snelson_like):
    result = tgp.fit(sgpr(snelson_like, bound=tgp.Block(8)), snelson_like, progress=False)
    np.testing.assert_array_equal(result.model.metric, [1.0])
    assert float(result.model.elbo(snelson_like)) == pytest.approx(result.objective, rel=1e-9)


def test_callback_sees_each_step_and_can_stop(snelson_like):
    seen = []

    def stop_at_three(step, row):
        seen.append((step, row["objective"]))
        return step == 3

    result = tgp.fit(sgpr(snelson_like), snelson_like, callback=stop_at_three, progress=False)
    assert [step for step, _ in seen] == [1, 2, 3]
    assert not result.converged
    assert result.reason is tgp.StopReason.CALLBACK
    assert result.objective >= seen[-1][1]


@pytest.mark.parametrize("method", ["lbfgs", "adam"])
def test_ctrl_c_returns_the_best_so_far(snelson_like, method):
    def interrupt(step, row):
        os.kill(os.getpid(), signal.SIGINT)

    result = tgp.fit(sgpr(snelson_like), snelson_like, method, steps=200, callback=interrupt, progress=False)
    assert result.interrupted
    assert result.reason is tgp.StopReason.INTERRUPTED
    assert not result.converged
    assert result.objective > float(sgpr(snelson_like).elbo(snelson_like))
    assert float(result.model.elbo(snelson_like)) == pytest.approx(result.objective, rel=1e-9)


def test_progress_bar_only_on_a_terminal(snelson_like, capsys):
    tgp.fit(sgpr(snelson_like), snelson_like, steps=5)
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


@pytest.mark.parametrize(("how", "reason"), [("stop", "CALLBACK"), ("interrupt", "INTERRUPTED")])
def test_ending_a_restart_keeps_the_best_and_says_so(snelson_like, how, reason):
    """The first start is allowed to finish; the second is ended at once, and no third is tried."""
    starts = []

    def callback(step, row):
        starts.append(step == 1)
        if sum(starts) == 2:
            if how == "stop":
                return True
            raise KeyboardInterrupt
        return False

    result = tgp.fit(sgpr(snelson_like), snelson_like, restarts=2, callback=callback, progress=False)
    assert len(result.restarts) == 2
    assert result.reason is tgp.StopReason[reason]
    assert not result.converged
    assert result.objective == max(result.restarts)
