"""L-BFGS and first-order steps on all rows."""

import numpy as np
import pytest

import tightgp as tgp
from tests.training.problems import Cliff, sgpr
from tightgp.training.full_batch import FirstOrderJob


def test_lbfgs_climbs_to_a_stationary_point(snelson_like):
    result = tgp.fit(sgpr(snelson_like), snelson_like, progress=False, tolerance=1e-12)
    trace = result.trace["objective"]
    assert result.converged, result.message
    assert np.all(np.diff(trace) >= -1e-9)
    assert trace[0] == pytest.approx(float(sgpr(snelson_like).elbo(snelson_like)))
    assert trace[-1] == pytest.approx(float(result.model.elbo(snelson_like)), rel=1e-9)
    assert result.objective == pytest.approx(trace[-1], rel=1e-12)
    assert result.trace["gradient_norm"][-1] < 1e-2 < result.trace["gradient_norm"][0]
    assert {"noise_variance", "jitter", "clamped", "rejected"} <= set(result.trace)
    assert all(len(column) == len(trace) for column in result.trace.values())


@pytest.mark.parametrize("off", [1e-2, 1e-4, 1e-6])
def test_lbfgs_finds_an_end_that_is_close_to_its_start(snelson_like, off):
    """The first step is tried with the length of one, a million times too far."""
    data, model = snelson_like, sgpr(snelson_like)
    end = tgp.fit(model, data, steps=500, tolerance=1e-14, progress=False)
    near = tgp.assign(end.model, {"noise_variance": float(end.model.noise_variance) * (1 + off)})
    again = tgp.fit(near, data, steps=500, tolerance=1e-14, progress=False)
    assert again.steps > 0
    assert again.objective >= end.objective - 1e-9 * abs(end.objective)


def test_adam_reaches_the_same_optimum(snelson_like):
    best = tgp.fit(sgpr(snelson_like), snelson_like, progress=False).objective
    result = tgp.fit(sgpr(snelson_like), snelson_like, "adam", steps=1500, learning_rate=0.02, progress=False)
    assert result.objective == pytest.approx(best, abs=0.02)
    assert len(result.trace["objective"]) == 1500
    assert "took all 1500 steps" in result.message


def test_one_adam_step_has_not_converged(snelson_like):
    assert not tgp.fit(sgpr(snelson_like), snelson_like, "adam", steps=1, progress=False).converged


@pytest.mark.parametrize(("method", "close"), [("lbfgs", 0.3), ("adam", 0.05)])
def test_a_step_that_is_not_finite_is_rejected_and_reported(method, close):
    result = tgp.fit(Cliff(tgp.parameters.real(0.0)), None, method, steps=400, learning_rate=0.1, progress=False)
    assert result.rejected > 0
    assert 0 < result.trace["rejected"][-1] <= result.rejected
    assert 2.5 - close < float(result.model.x.value) < 2.5
    assert np.isfinite(result.objective)


def test_a_start_that_is_not_finite_is_an_error():
    with pytest.raises(tgp.NumericalError, match="beyond the cliff"):
        tgp.fit(Cliff(tgp.parameters.real(5.0)), None, progress=False)


def test_ctrl_c_before_the_first_step_returns_the_start(snelson_like, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(FirstOrderJob, "advance", interrupt)
    result = tgp.fit(sgpr(snelson_like), snelson_like, "adam", progress=False)
    assert result.interrupted
    assert result.reason is tgp.StopReason.INTERRUPTED
    assert result.objective == pytest.approx(float(sgpr(snelson_like).elbo(snelson_like)))


@pytest.mark.parametrize(("x_scale", "y_scale"), [(1e6, 1.0), (1.0, 1e6)])
def test_data_in_large_units(snelson_like, x_scale, y_scale):
    """The same problem in other units, from the same start in those units, reaches the same optimum."""
    Z = tgp.inducing.subset(snelson_like.X, 7, seed=0)
    start = tgp.SGPR(tgp.kernels.SquaredExponential(0.5, 1.0), Z, 0.26)
    plain = tgp.fit(start, snelson_like, progress=False).objective
    scaled = tgp.Dataset(snelson_like.X * x_scale, snelson_like.y * y_scale)
    kernel = tgp.kernels.SquaredExponential(0.5 * y_scale**2, 1.0 * x_scale)
    model = tgp.SGPR(kernel, Z * x_scale, 0.26 * y_scale**2)
    objective = tgp.fit(model, scaled, progress=False).objective + 40 * np.log(y_scale)
    assert objective == pytest.approx(plain, abs=0.02)


def test_float32_trains(rng):
    X = rng.uniform(0, 6, size=(100, 1)).astype(np.float32)
    data = tgp.Dataset(X, np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=100).astype(np.float32))
    model = tgp.SGPR(tgp.kernels.SquaredExponential(), X[:10], 0.2)
    for method in ("lbfgs", "adam"):
        result = tgp.fit(model, data, method, steps=200, learning_rate=0.05, progress=False)
        assert result.model.Z.dtype == np.float32
        assert 0.02 < float(result.model.noise_variance) < 0.08
