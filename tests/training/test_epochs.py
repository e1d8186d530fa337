"""Training on minibatches: epochs, streams, iterators, validation."""

import logging
import os
import signal
import threading
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import tightgp as tgp
from tests.training.problems import svgp, train_on_batches
from tightgp import likelihoods as lk
from tightgp.data.placement import Draw, on_device
from tightgp.training import minibatches


def test_an_epoch_against_steps_by_hand(waves):
    """The compiled epoch takes Adam's steps on the planned batches."""
    model = svgp(waves)
    result = train_on_batches(model, waves, epochs=2, seed=5)
    params, static = eqx.partition(model, tgp.parameters.trainable(model))
    optimiser = optax.adam(0.02)
    state = optimiser.init(params)
    rows = on_device(waves.rows())

    @jax.jit
    def loss(params, batch):
        return -eqx.combine(params, static).objective(batch)[0]

    values = []
    for epoch in range(2):
        for index, weight in zip(*minibatches.plan(203, 5, (5, epoch)), strict=True):
            batch = rows.take(Draw(index, jnp.asarray(weight)))
            value, gradient = jax.value_and_grad(loss)(params, batch)
            updates, state = optimiser.update(gradient, state)
            params = optax.apply_updates(params, updates)
            values.append(-float(value))
    trained = eqx.partition(result.model, tgp.parameters.trainable(result.model))[0]
    for ours, theirs in zip(jax.tree.leaves(trained), jax.tree.leaves(params), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(result.trace["objective"], [np.mean(values[:5]), np.mean(values[5:])], rtol=1e-10)
    assert result.evaluations == 10


def test_streams_and_memory_maps_train_like_arrays_on_the_device(waves, tmp_path):
    model = svgp(waves)
    resident = train_on_batches(model, waves)
    streamed = train_on_batches(model, waves, stream=True)
    np.save(tmp_path / "X.npy", waves.X)
    np.save(tmp_path / "y.npy", waves.y)
    mapped = tgp.Dataset(*(np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in "Xy"))
    assert isinstance(minibatches.choose(model, mapped, 50, 0, None)[1], minibatches.Streamed)
    assert isinstance(minibatches.choose(model, waves, 50, 0, None)[1], minibatches.Resident)
    for other in (streamed, train_on_batches(model, mapped)):
        for a, b in zip(jax.tree.leaves(resident.model), jax.tree.leaves(other.model), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)
    assert np.all(resident.trace["steps_per_second"] > 0)
    assert {"objective", "noise_variance", "divergence", "learning_rate"} <= set(resident.trace)
    assert len(resident.trace["objective"]) == 8


def test_the_same_seed_gives_the_same_result(waves):
    one, again, other = (train_on_batches(svgp(waves), waves, epochs=3, seed=s).objective for s in (1, 1, 2))
    assert one == again != other


def test_training_from_an_iterator(waves):
    def endless():
        rng = np.random.default_rng(0)
        while True:
            rows = rng.permutation(203)[:37]
            yield waves.X[rows], waves.y[rows]

    before = float(svgp(waves).elbo(waves))
    result = train_on_batches(svgp(waves), tgp.Batches(endless, 203), epochs=10)
    assert float(result.model.elbo(waves)) > before + 100
    result = train_on_batches(svgp(waves), tgp.Batches([(waves.X, waves.y[:, None])], 203), epochs=1)
    assert result.model.posterior().predict_f(waves.X[:3])[0].shape == (3, 1)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (lambda: iter([]), "gave nothing"),
        ([(np.zeros((5, 1)), np.zeros(5))], "num_data of Batches is 20, but its source gave 5"),
        ([np.zeros((5, 1))], "Dataset or"),
        ([(np.zeros((5, 2)), np.zeros(5))], "X has 2 column"),
        ([(np.zeros((20, 1)), np.full(20, np.nan))], "y has NaN"),
    ],
)
def test_bad_iterators(waves, source, message):
    with pytest.raises(ValueError, match=message):
        train_on_batches(svgp(waves), tgp.Batches(source, 20), batch_size=10)


def test_an_error_in_the_iterator_is_the_users_own(waves):
    def broken():
        yield waves.X[:60], waves.y[:60]
        raise OSError("disk gone")

    with pytest.raises(OSError, match="disk gone"):
        train_on_batches(svgp(waves), tgp.Batches(broken, 203))


def test_known_noise_for_some_batches_only_is_refused(waves):
    parts = [tgp.Dataset(waves.X[:30], waves.y[:30], np.ones(30)), waves.take(slice(30, None))]
    with pytest.raises(ValueError, match="for all or for none"):
        train_on_batches(svgp(waves), tgp.Batches(parts, 203))
    with pytest.raises(ValueError, match="iterated again"):
        tgp.Batches(iter(parts), 203)


def test_validation_returns_the_best_and_stops(waves):
    train, held_out = waves.take(slice(0, 40)), waves.take(slice(40, None))
    result = train_on_batches(
        svgp(waves), train, epochs=400, learning_rate=0.1, validation=held_out, patience=5, batch_size=20
    )
    scores = result.trace["validation"]
    assert result.converged
    assert "has not improved for 5 epochs" in result.message
    assert len(scores) < 400
    assert np.argmax(scores) == len(scores) - 6
    best = float(np.mean(result.model.posterior().log_density(held_out.X, held_out.y)))
    assert best == pytest.approx(scores.max(), rel=1e-9)
    assert result.objective == result.trace["objective"][np.argmax(scores)]


def test_schedules(waves):
    schedule = optax.cosine_decay_schedule(0.05, 20)
    result = train_on_batches(svgp(waves), waves, learning_rate=schedule, epochs=3)
    expected = [float(np.mean([schedule(5 * e + i) for i in range(5)])) for e in range(3)]
    np.testing.assert_allclose(result.trace["learning_rate"], expected, rtol=1e-6)


def test_another_learning_rate_needs_no_other_program(waves, caplog):
    train_on_batches(svgp(waves), waves, epochs=1)
    with jax.log_compiles(), caplog.at_level(logging.WARNING, "jax"):
        train_on_batches(svgp(waves), waves, epochs=1, learning_rate=0.003)
        assert not [record for record in caplog.records if "Compiling jit(program)" in record.getMessage()]
        train_on_batches(svgp(waves), waves, epochs=1, method="natural")
        assert [record for record in caplog.records if "Compiling jit(program)" in record.getMessage()]


def test_a_row_that_overflows_does_not_stop_learning(rng):
    X = rng.normal(size=(60, 1))
    y = rng.poisson(3.0, size=60).astype(float)
    data = tgp.Dataset(X, y)
    data.y.setflags(write=True)
    data.y[7] = 1e308  # a data set with this value would be refused
    model = tgp.SVGP(tgp.kernels.SquaredExponential(), lk.Poisson(), X[:5])
    result = train_on_batches(model, data, batch_size=10, epochs=10)
    assert 1 <= result.rejected <= 10
    assert "steps were not finite" in result.message
    assert result.trace["learning_rate"][-1] > 0.01
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(result.model))


def test_ctrl_c_within_an_epoch_keeps_what_it_brought(waves):
    def slow():
        for i in range(10**6):
            if i == 12:
                os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)
            yield waves.X[:50], waves.y[:50]

    before = float(svgp(waves).elbo(waves))
    result = train_on_batches(svgp(waves), tgp.Batches(slow, 10**7), epochs=1)
    assert result.interrupted
    assert result.evaluations > 1
    assert float(result.model.elbo(waves)) > before + 10
    assert threading.active_count() < 10


def test_callback_ends_after_an_epoch(waves):
    rows = []
    result = train_on_batches(svgp(waves), waves, epochs=50, callback=lambda step, row: rows.append(row) or step == 2)
    assert result.reason is tgp.StopReason.CALLBACK
    assert [row["objective"] for row in rows] == list(result.trace["objective"])


def test_draws_are_fresh_each_step_and_the_same_again_by_seed(rng):
    X, y = rng.normal(size=(40, 1)), rng.integers(0, 3, size=40)
    model = tgp.SVGP(tgp.kernels.SquaredExponential(), lk.Softmax(3), X[:5])
    waves = tgp.Dataset(X, y)
    one, again = (train_on_batches(model, waves, batch_size=40, epochs=2, learning_rate=1e-12) for _ in range(2))
    np.testing.assert_array_equal(one.trace["objective"], again.trace["objective"])
    assert one.trace["objective"][0] != one.trace["objective"][1]
    assert float(model.elbo(waves)) == float(model.elbo(waves)) != float(model.elbo(waves, key=jax.random.key(9)))
