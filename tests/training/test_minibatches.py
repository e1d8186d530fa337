"""Minibatches, streams, natural gradients, validation."""

import logging
import os
import signal
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import tightgp as tgp
from tightgp import likelihoods as lk
from tightgp.data.placement import on_device
from tightgp.training import minibatches

N = 203


@pytest.fixture
def data(rng):
    X = rng.uniform(-3, 3, size=(N, 1))
    return tgp.Dataset(X, np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=N))


def model_of(data, **options):
    Z = np.linspace(-3, 3, 8)[:, None]
    return tgp.SVGP(tgp.kernels.SquaredExponential(1.0, 1.0), lk.Gaussian(0.1), Z, **options)


def run(model, data, **options):
    settings = {"batch_size": 50, "epochs": 8, "learning_rate": 0.02, "progress": False}
    return tgp.fit(model, data, **{**settings, **options})


def test_batches_are_equal_and_hold_every_row_once():
    index, weight = minibatches.plan(N, 5, (0, 3))
    assert index.shape == weight.shape == (5, 41)
    assert sorted(index[weight > 0]) == list(range(N))
    np.testing.assert_allclose(weight.sum(axis=1), N)
    assert set((weight > 0).sum(axis=1)) <= {40, 41}
    assert not np.array_equal(index, minibatches.plan(N, 5, (0, 4))[0])


def test_an_epoch_against_steps_by_hand(data):
    """The compiled epoch takes Adam's steps on the planned batches."""
    model = model_of(data)
    result = run(model, data, epochs=2, seed=5)
    import equinox as eqx

    params, static = eqx.partition(model, tgp.parameters.trainable(model))
    optimiser = optax.adam(0.02)
    state = optimiser.init(params)
    rows = on_device(data.rows())

    @jax.jit
    def loss(params, batch):
        return -eqx.combine(params, static).objective(batch)[0]

    values = []
    for epoch in range(2):
        for index, weight in zip(*minibatches.plan(N, 5, (5, epoch)), strict=True):
            batch = rows.take(index, jnp.asarray(weight))
            value, gradient = jax.value_and_grad(loss)(params, batch)
            updates, state = optimiser.update(gradient, state)
            params = optax.apply_updates(params, updates)
            values.append(-float(value))
    trained = eqx.partition(result.model, tgp.parameters.trainable(result.model))[0]
    for ours, theirs in zip(jax.tree.leaves(trained), jax.tree.leaves(params), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(result.trace["objective"], [np.mean(values[:5]), np.mean(values[5:])], rtol=1e-10)
    assert result.evaluations == 10


def test_streams_and_memory_maps_train_like_arrays_on_the_device(data, tmp_path):
    model = model_of(data)
    resident = run(model, data)
    streamed = run(model, data, stream=True)
    np.save(tmp_path / "X.npy", data.X)
    np.save(tmp_path / "y.npy", data.y)
    mapped = tgp.Dataset(*(np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in "Xy"))
    assert isinstance(minibatches.choose(model, mapped, 50, 0, None)[1], minibatches.Streamed)
    assert isinstance(minibatches.choose(model, data, 50, 0, None)[1], minibatches.Resident)
    for other in (streamed, run(model, mapped)):
        for a, b in zip(jax.tree.leaves(resident.model), jax.tree.leaves(other.model), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)
    assert np.all(resident.trace["steps_per_second"] > 0)
    assert {"objective", "noise_variance", "divergence", "learning_rate"} <= set(resident.trace)
    assert len(resident.trace["objective"]) == 8


def test_the_same_seed_gives_the_same_result(data):
    one, again, other = (run(model_of(data), data, epochs=3, seed=s).objective for s in (1, 1, 2))
    assert one == again != other


@pytest.mark.parametrize("pieces", [[N], [1, 100, 102], [60, 60, 60, 23]])
def test_an_iterator_is_cut_into_equal_batches(data, pieces):
    """However the rows come; what is left over begins the next epoch, so no short batch carries all the weight."""
    ends = np.cumsum(pieces)
    parts = [data.take(slice(e - p, e)) for e, p in zip(ends, pieces, strict=True)]
    source = minibatches.Iterated(tgp.Batches(lambda: iter(parts), N), model_of(data), 50, 0)
    seen, sizes = [], []
    for epoch in range(5):
        for segment in source.epoch(epoch):
            sizes.append(segment.rows.X.shape)
            seen.extend(np.asarray(segment.rows.X[0, :, 0]))
            assert float(segment.rows.weight.sum()) == pytest.approx(N)
    assert set(sizes) == {(1, 50, 1)}
    assert len(sizes) == 5 * N // 50
    np.testing.assert_array_equal(seen, np.tile(data.X[:, 0], 5)[: len(seen)])


def test_training_from_an_iterator(data):
    def endless():
        rng = np.random.default_rng(0)
        while True:
            rows = rng.permutation(N)[:37]
            yield data.X[rows], data.y[rows]

    before = float(model_of(data).elbo(data))
    result = run(model_of(data), tgp.Batches(endless, N), epochs=10)
    assert float(result.model.elbo(data)) > before + 100
    result = run(model_of(data), tgp.Batches([(data.X, data.y[:, None])], N), epochs=1)
    assert result.model.posterior().predict_f(data.X[:3])[0].shape == (3, 1)


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
def test_bad_iterators(data, source, message):
    with pytest.raises(ValueError, match=message):
        run(model_of(data), tgp.Batches(source, 20), batch_size=10)


def test_an_error_in_the_iterator_is_the_users_own(data):
    def broken():
        yield data.X[:60], data.y[:60]
        raise OSError("disk gone")

    with pytest.raises(OSError, match="disk gone"):
        run(model_of(data), tgp.Batches(broken, N))


def test_known_noise_for_some_batches_only_is_refused(data):
    parts = [tgp.Dataset(data.X[:30], data.y[:30], np.ones(30)), data.take(slice(30, None))]
    with pytest.raises(ValueError, match="for all or for none"):
        run(model_of(data), tgp.Batches(parts, N))
    with pytest.raises(ValueError, match="iterated again"):
        tgp.Batches(iter(parts), N)


def test_validation_returns_the_best_and_stops(data):
    train, held_out = data.take(slice(0, 40)), data.take(slice(40, None))
    result = run(model_of(data), train, epochs=400, learning_rate=0.1, validation=held_out, patience=5, batch_size=20)
    scores = result.trace["validation"]
    assert result.converged
    assert "has not improved for 5 epochs" in result.message
    assert len(scores) < 400
    assert np.argmax(scores) == len(scores) - 6
    best = float(np.mean(result.model.posterior().log_density(held_out.X, held_out.y)))
    assert best == pytest.approx(scores.max(), rel=1e-9)
    assert result.objective == result.trace["objective"][np.argmax(scores)]


def test_natural_gradients_reach_the_collapsed_optimum(data):
    collapsed = tgp.fit(tgp.SGPR(tgp.kernels.SquaredExponential(1.0, 1.0), model_of(data).Z, 0.1), data, progress=False)
    result = tgp.fit(model_of(data), data, "natural", steps=400, learning_rate=0.05, progress=False)
    assert result.objective == pytest.approx(collapsed.objective, abs=0.5)
    assert result.trace["natural_scale"][-1] == 1
    stochastic = run(model_of(data), data, method="natural", epochs=30, batch_size=100)
    assert float(stochastic.model.elbo(data)) == pytest.approx(collapsed.objective, abs=8)
    # What is reported of an epoch is what the batches said before q saw them: no better than the bound itself.
    assert stochastic.objective == pytest.approx(float(stochastic.model.elbo(data)), abs=10)


@pytest.mark.parametrize("model", ["counts", "odvgp", "fixed"])
def test_natural_gradients_do_not_blow_up(data, model):
    """Large counts from a start at the prior; covariances held fixed: steps that lower the bound are taken back."""
    if model == "counts":
        data = tgp.Dataset(data.X, np.floor(1000 + 500 * data.y))
        start = tgp.SVGP(tgp.kernels.SquaredExponential(), lk.Poisson(), np.linspace(-3, 3, 8)[:, None])
    elif model == "odvgp":
        start = tgp.ODVGP(tgp.kernels.SquaredExponential(), lk.Gaussian(0.01), data.X[:6], data.X[10:20])
    else:
        start = model_of(data, covariance="fixed")
    before = float(start.elbo(data))
    result = tgp.fit(start, data, "natural", steps=150, natural_rate=1.0, progress=False)
    assert result.objective > before
    assert np.isfinite(float(result.model.elbo(data)))
    assert result.rejected == 0


def test_natural_steps_leave_what_is_frozen(data):
    model = tgp.freeze(model_of(data), "q.root", "kernel.*")
    result = tgp.fit(model, data, "natural", steps=20, progress=False)
    np.testing.assert_array_equal(result.model.q.root, model.q.root)
    assert float(result.model.kernel.variance) == float(model.kernel.variance)
    assert not np.array_equal(result.model.q.mean, model.q.mean)


def test_schedules(data):
    schedule = optax.cosine_decay_schedule(0.05, 20)
    result = run(model_of(data), data, learning_rate=schedule, epochs=3)
    expected = [float(np.mean([schedule(5 * e + i) for i in range(5)])) for e in range(3)]
    np.testing.assert_allclose(result.trace["learning_rate"], expected, rtol=1e-6)


def test_another_learning_rate_needs_no_other_program(data, caplog):
    run(model_of(data), data, epochs=1)
    with jax.log_compiles(), caplog.at_level(logging.WARNING, "jax"):
        run(model_of(data), data, epochs=1, learning_rate=0.003)
        assert not [record for record in caplog.records if "Compiling jit(program)" in record.getMessage()]
        run(model_of(data), data, epochs=1, method="natural")
        assert [record for record in caplog.records if "Compiling jit(program)" in record.getMessage()]


def test_a_row_that_overflows_does_not_stop_learning(rng):
    X = rng.normal(size=(60, 1))
    y = rng.poisson(3.0, size=60).astype(float)
    y[7] = 1e308
    model = tgp.SVGP(tgp.kernels.SquaredExponential(), lk.Poisson(), X[:5])
    result = run(model, tgp.Dataset(X, y), batch_size=10, epochs=10)
    assert 1 <= result.rejected <= 10
    assert "steps were not finite" in result.message
    assert result.trace["learning_rate"][-1] > 0.01
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(result.model))


def test_ctrl_c_within_an_epoch_keeps_what_it_brought(data):
    def slow():
        for i in range(10**6):
            if i == 12:
                os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)
            yield data.X[:50], data.y[:50]

    before = float(model_of(data).elbo(data))
    result = run(model_of(data), tgp.Batches(slow, 10**7), epochs=1)
    assert result.interrupted
    assert result.evaluations > 1
    assert float(result.model.elbo(data)) > before + 10
    assert threading.active_count() < 10


def test_callback_ends_after_an_epoch(data):
    rows = []
    result = run(model_of(data), data, epochs=50, callback=lambda step, row: rows.append(row) or step == 2)
    assert result.reason is tgp.StopReason.CALLBACK
    assert [row["objective"] for row in rows] == list(result.trace["objective"])


def test_draws_are_fresh_each_step_and_the_same_again_by_seed(rng):
    X, y = rng.normal(size=(40, 1)), rng.integers(0, 3, size=40)
    model = tgp.SVGP(tgp.kernels.SquaredExponential(), lk.Softmax(3), X[:5])
    data = tgp.Dataset(X, y)
    one, again = (run(model, data, batch_size=40, epochs=2, learning_rate=1e-12) for _ in range(2))
    np.testing.assert_array_equal(one.trace["objective"], again.trace["objective"])
    assert one.trace["objective"][0] != one.trace["objective"][1]
    assert float(model.elbo(data)) == float(model.elbo(data)) != float(model.elbo(data, key=jax.random.key(9)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "lbfgs"}, "batch_size goes with method='adam' or 'natural'"),
        ({"batch_size": 0}, "batch_size must be a whole number"),
        ({"epochs": 0}, "epochs must be"),
        ({"patience": 0}, "patience must be"),
        ({"stream": "no"}, "stream must be"),
        ({"restarts": 2}, "restarts go with full-batch"),
        ({"validation": (1, 2)}, "validation must be a tightgp.Dataset"),
        ({"validation": tgp.Dataset(np.ones((2, 3)), np.ones(2))}, "validation: X has 3 column"),
        ({"validation": tgp.Dataset(np.ones((1, 1)), [np.nan], missing=True)}, "no target that is not missing"),
        ({"learning_rate": lambda step: -1.0}, "learning_rate must be positive"),
        ({"learning_rate": lambda step: 0.1 if step > 1 else 0.2}, "use jnp.where"),
        ({"learning_rate": lambda step: jnp.ones(2)}, "learning_rate must be one finite number"),
        ({"natural_rate": 0.1}, "natural_rate goes with"),
        ({"batch_size": None, "epochs": 3}, "epochs goes with minibatches"),
    ],
)
def test_bad_arguments(data, options, message):
    with pytest.raises(ValueError, match=message):
        run(model_of(data), data, **{"epochs": None, **options} if options.get("batch_size", 1) is None else options)


def test_what_cannot_be_trained_so(data):
    sgpr = tgp.SGPR(tgp.kernels.SquaredExponential(), data.X[:5])
    with pytest.raises(ValueError, match=r"explicit q\(u\) such as SVGP; SGPR sees all rows"):
        run(sgpr, data)
    with pytest.raises(ValueError, match=r"such as SVGP, not SGPR"):
        tgp.fit(sgpr, data, "natural")
    with pytest.raises(ValueError, match="batch_size is needed"):
        tgp.fit(model_of(data), tgp.Batches([data], N))
    with pytest.raises(ValueError, match="got tuple"):
        run(model_of(data), (data.X, data.y))
