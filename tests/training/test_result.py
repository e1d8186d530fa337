"""What `fit` returns: reasons, their flags, the trace, and how it prints."""

import numpy as np

import tightgp as tgp
from tightgp.training.result import Trace


def result_of(reason, **more):
    facts = {"model": tgp.kernels.Matern32(), "trace": {}, "message": "a sentence", "objective": -3.5}
    return tgp.FitResult(reason=reason, seconds=0.5, evaluations=7, **facts, **more)


def test_reasons_say_whether_training_converged():
    converged = {reason.name for reason in tgp.StopReason if reason.converged}
    assert converged == {"TOLERANCE", "FLAT", "PATIENCE"}
    assert {reason.name for reason in tgp.StopReason if reason.by_user} == {"CALLBACK", "TIME_LIMIT", "INTERRUPTED"}
    for reason in tgp.StopReason:
        result = result_of(reason)
        assert result.converged == reason.converged
        assert result.interrupted == (reason.name == "INTERRUPTED")


def test_result_prints_what_happened():
    text = repr(result_of(tgp.StopReason.TOLERANCE, rejected=2, restarts=[-4.0, -3.5]))
    assert "objective -3.5 nats, converged (a sentence)" in text
    assert "7 evaluations in 0.5 s, 2 non-finite" in text
    assert "starts reached -4, -3.5" in text
    assert "lengthscale" in text
    text = repr(result_of(tgp.StopReason.STEP_LIMIT, restarts=[-3.5]))
    assert "not converged" in text
    assert "starts reached" not in text


def test_trace_collects_steps_one_by_one_and_many_at_once():
    trace = Trace()
    assert len(trace) == 0
    trace.add({"objective": np.float32(1.5), "jitter": 0})
    trace.extend({"objective": np.array([2.0, 3.0]), "jitter": [0, 1]})
    assert len(trace) == 3
    columns = Trace(trace.arrays()).arrays()
    np.testing.assert_array_equal(columns["objective"], [1.5, 2.0, 3.0])
    np.testing.assert_array_equal(columns["jitter"], [0.0, 0.0, 1.0])
