import os
import signal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tightgp as tgp
from tightgp.data.placement import on_device
from tightgp.data.rows import Rows


@pytest.fixture
def snelson_like(rng):
    X = rng.uniform(0, 6, size=(40, 1))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=40)
    return tgp.Dataset(X, y)


def model_of(data, **kwargs):
    Z = tgp.inducing.subset(data.X, 7, seed=0)
    return tgp.SGPR(tgp.kernels.SquaredExponential(0.5, 1.0), Z, 0.26, **kwargs)


def test_lbfgs_climbs_to_a_stationary_point(snelson_like):
    result = tgp.fit(model_of(snelson_like), snelson_like, progress=False, tolerance=1e-12)
    trace = result.trace["objective"]
    assert result.converged, result.message
    assert np.all(np.diff(trace) >= -1e-9)
    assert trace[0] == pytest.approx(float(model_of(snelson_like).elbo(snelson_like)))
    assert trace[-1] == pytest.approx(float(result.model.elbo(snelson_like)), rel=1e-9)
    assert result.objective == pytest.approx(trace[-1], rel=1e-12)
    assert result.trace["gradient_norm"][-1] < 1e-2 < result.trace["gradient_norm"][0]
    assert {"noise_variance", "jitter", "clamped", "rejected"} <= set(result.trace)
    assert all(len(column) == len(trace) for column in result.trace.values())


def test_exact_gp_trains_too(snelson_like):
    result = tgp.fit(tgp.ExactGP(tgp.kernels.SquaredExponential()), snelson_like, progress=False)
    assert result.converged
    assert result.objective > float(tgp.ExactGP(tgp.kernels.SquaredExponential()).log_evidence(snelson_like))


def test_adam_reaches_the_same_optimum(snelson_like):
    best = tgp.fit(model_of(snelson_like), snelson_like, progress=False).objective
    result = tgp.fit(model_of(snelson_like), snelson_like, "adam", steps=1500, learning_rate=0.02, progress=False)
    assert result.objective == pytest.approx(best, abs=0.02)
    assert len(result.trace["objective"]) == 1500
    assert "took all 1500 steps" in result.message


def test_adam_against_optax_by_hand(snelson_like):
    """The compiled loop takes plain Adam steps."""
    import optax

    model = tgp.ExactGP(tgp.kernels.SquaredExponential())
    result = tgp.fit(model, snelson_like, "adam", steps=7, learning_rate=0.05, progress=False)
    model, rows = model.prepare(snelson_like)
    optimiser = optax.adam(0.05)
    params, static = eqx.partition(model, tgp.parameters.trainable(model))
    state, values = optimiser.init(params), []
    for _ in range(7):
        value, grad = jax.value_and_grad(lambda p: -eqx.combine(p, static).objective(rows)[0])(params)
        values.append(-float(value))
        updates, state = optimiser.update(grad, state)
        params = optax.apply_updates(params, updates)
    np.testing.assert_allclose(result.trace["objective"], values, rtol=1e-7)


@pytest.mark.parametrize("method", ["lbfgs", "adam"])
def test_the_same_seed_gives_the_same_result(snelson_like, method):
    runs = [
        tgp.fit(model_of(snelson_like), snelson_like, method, steps=30, restarts=2, seed=3, progress=False)
        for _ in range(2)
    ]
    assert runs[0].objective == runs[1].objective
    np.testing.assert_array_equal(runs[0].model.Z, runs[1].model.Z)


def test_restarts_return_the_best(snelson_like):
    alone = tgp.fit(model_of(snelson_like), snelson_like, progress=False)
    result = tgp.fit(model_of(snelson_like), snelson_like, restarts=4, progress=False)
    assert len(result.restarts) == 5
    assert result.restarts[0] == alone.objective
    assert len(set(result.restarts)) > 1
    assert result.objective == max(result.restarts) == result.trace["objective"].max()


def test_frozen_parameters_stay(snelson_like):
    model = tgp.freeze(model_of(snelson_like), "Z", "kernel.variance")
    trained = tgp.fit(model, snelson_like, restarts=1, progress=False).model
    np.testing.assert_array_equal(trained.Z, model.Z)
    assert float(trained.kernel.variance) == float(model.kernel.variance)
    assert float(trained.kernel.lengthscale) != float(model.kernel.lengthscale)
    with pytest.raises(ValueError, match="every one is frozen"):
        tgp.fit(tgp.freeze(model, "*"), snelson_like)


def test_priors_make_it_map_estimation(snelson_like):
    """A narrow prior pins its parameter; the objective is the bound plus the log prior density."""
    prior = tgp.priors.LogNormal(np.log(3.0), 0.001)
    model = tgp.with_priors(model_of(snelson_like), {"kernel.lengthscale": prior})
    result = tgp.fit(model, snelson_like, progress=False)
    lengthscale = result.model.kernel.lengthscale
    assert float(lengthscale) == pytest.approx(3.0, rel=0.01)
    expected = float(result.model.elbo(snelson_like)) + float(prior.log_density(lengthscale))
    assert result.objective == pytest.approx(expected, rel=1e-9)


def test_blocks_keep_their_partition_through_training(snelson_like):
    result = tgp.fit(model_of(snelson_like, bound=tgp.Block(8)), snelson_like, progress=False)
    np.testing.assert_array_equal(result.model.metric, [1.0])
    assert float(result.model.elbo(snelson_like)) == pytest.approx(result.objective, rel=1e-9)


def test_callback_sees_each_step_and_can_stop(snelson_like):
    seen = []

    def stop_at_three(step, row):
        seen.append((step, row["objective"]))
        return step == 3

    result = tgp.fit(model_of(snelson_like), snelson_like, callback=stop_at_three, progress=False)
    assert [step for step, _ in seen] == [1, 2, 3]
    assert not result.converged
    assert result.reason is tgp.StopReason.CALLBACK
    assert result.objective >= seen[-1][1]


@pytest.mark.parametrize("method", ["lbfgs", "adam"])
def test_ctrl_c_returns_the_best_so_far(snelson_like, method):
    def interrupt(step, row):
        os.kill(os.getpid(), signal.SIGINT)

    result = tgp.fit(model_of(snelson_like), snelson_like, method, steps=200, callback=interrupt, progress=False)
    assert result.interrupted
    assert result.reason is tgp.StopReason.INTERRUPTED
    assert not result.converged
    assert result.objective > float(model_of(snelson_like).elbo(snelson_like))
    assert float(result.model.elbo(snelson_like)) == pytest.approx(result.objective, rel=1e-9)


class Cliff(eqx.Module):
    """Maximise −(x − 3)², where everything beyond 2.5 is not a number."""

    x: tgp.parameters.Parameter

    def prepare(self, data):
        return self, on_device(Rows(np.zeros((1, 1)), np.zeros((1, 1)), np.ones(1)))

    def objective(self, rows, key=None):
        x = self.x.value
        return jnp.where(x < 2.5, -((x - 3.0) ** 2), jnp.nan), {}

    def random_start(self, key, rows):
        return self

    def explain(self, rows):
        return "beyond the cliff"


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"method": "sgd"},
            "method must be one of 'lbfgs', 'adam', 'natural', or an optax transformation .*; got 'sgd'",
        ),
        ({"steps": 0}, "steps must be a whole number of at least 1"),
        ({"learning_rate": -1.0}, "learning_rate must be positive"),
        ({"restarts": -1}, "restarts must be a whole number of at least 0"),
        ({"seed": "a"}, "seed must be a whole number"),
        ({"callback": 3}, "callback must be a function"),
        ({"learning_rate": [0.1, 0.2]}, "learning_rate must be one finite number"),
        ({"tolerance": 0.0}, "tolerance must be positive"),
    ],
)
def test_bad_arguments(snelson_like, arguments, message):
    with pytest.raises(ValueError, match=message):
        tgp.fit(model_of(snelson_like), snelson_like, **arguments)


def test_result_prints_what_happened(snelson_like):
    text = repr(tgp.fit(model_of(snelson_like), snelson_like, restarts=1, progress=False))
    assert "nats, converged" in text
    assert "starts reached" in text
    assert "kernel.lengthscale" in text


def test_progress_bar_only_on_a_terminal(snelson_like, capsys):
    tgp.fit(model_of(snelson_like), snelson_like, steps=5)
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


def test_float32_trains(rng):
    X = rng.uniform(0, 6, size=(100, 1)).astype(np.float32)
    data = tgp.Dataset(X, np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=100).astype(np.float32))
    model = tgp.SGPR(tgp.kernels.SquaredExponential(), X[:10], 0.2)
    for method in ("lbfgs", "adam"):
        result = tgp.fit(model, data, method, steps=200, learning_rate=0.05, progress=False)
        assert result.model.Z.dtype == np.float32
        assert 0.02 < float(result.model.noise_variance) < 0.08


def test_what_is_no_model(snelson_like):
    with pytest.raises(ValueError, match=r"model must be a model such as tightgp\.SGPR, got SquaredExponential"):
        tgp.fit(tgp.kernels.SquaredExponential(), snelson_like)


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


def test_ctrl_c_before_the_first_step_returns_the_start(snelson_like, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    from tightgp.training.full_batch import FirstOrderJob

    monkeypatch.setattr(FirstOrderJob, "advance", interrupt)
    result = tgp.fit(model_of(snelson_like), snelson_like, "adam", progress=False)
    assert result.interrupted
    assert result.reason is tgp.StopReason.INTERRUPTED
    assert result.objective == pytest.approx(float(model_of(snelson_like).elbo(snelson_like)))


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

    result = tgp.fit(model_of(snelson_like), snelson_like, restarts=2, callback=callback, progress=False)
    assert len(result.restarts) == 2
    assert result.reason is tgp.StopReason[reason]
    assert not result.converged
    assert result.objective == max(result.restarts)


def test_one_adam_step_has_not_converged(snelson_like):
    assert not tgp.fit(model_of(snelson_like), snelson_like, "adam", steps=1, progress=False).converged


@pytest.mark.parametrize("off", [1e-2, 1e-4, 1e-6])
def test_lbfgs_finds_an_end_that_is_close_to_its_start(snelson_like, off):
    """The first step is tried with the length of one, a million times too far."""
    data, model = snelson_like, model_of(snelson_like)
    end = tgp.fit(model, data, steps=500, tolerance=1e-14, progress=False)
    near = tgp.assign(end.model, {"noise_variance": float(end.model.noise_variance) * (1 + off)})
    again = tgp.fit(near, data, steps=500, tolerance=1e-14, progress=False)
    assert again.steps > 0
    assert again.objective >= end.objective - 1e-9 * abs(end.objective)


@pytest.mark.parametrize("batch_size", [None, 20])
def test_any_optax_transformation(snelson_like, batch_size):
    """It takes the steps that it takes by hand."""
    import optax

    model = tgp.SVGP(tgp.kernels.SquaredExponential(), tgp.likelihoods.Gaussian(0.1), snelson_like.X[:5])
    transformation = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(0.05))
    result = tgp.fit(model, snelson_like, transformation, steps=60, batch_size=batch_size, progress=False)
    assert result.objective > float(model.elbo(snelson_like)) + 10
    params, static = eqx.partition(model, tgp.parameters.trainable(model))
    _, rows = model.prepare(snelson_like)
    state = transformation.init(params)
    gradient = jax.grad(lambda p: -eqx.combine(p, static).objective(rows)[0])(params)
    expected = optax.apply_updates(params, transformation.update(gradient, state, params)[0])
    one = tgp.fit(model, snelson_like, transformation, steps=2, progress=False)
    if batch_size is None:
        value = float(eqx.combine(expected, static).objective(rows)[0])
        assert one.trace["objective"][1] == pytest.approx(value, rel=1e-9)


def test_reasons_say_whether_training_converged():
    converged = {reason.name for reason in tgp.StopReason if reason.converged}
    assert converged == {"TOLERANCE", "FLAT", "PATIENCE"}
    assert {reason.name for reason in tgp.StopReason if reason.by_user} == {"CALLBACK", "INTERRUPTED"}
