"""Minibatches from arrays, files and iterators: single rows, and whole blocks of neighbours."""

import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tightgp as tgp
from tests.training.problems import assert_same
from tightgp import likelihoods as lk
from tightgp.data import partition
from tightgp.data.placement import OnDevice
from tightgp.training import epochs, minibatches
from tightgp.training.minibatches import batch_of

N, SIZE = 61, 8  # eight blocks, the last of five rows


def problem():
    """More wiggles than inducing inputs, and known noise."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(N, 1))
    return tgp.Dataset(X, np.sin(7 * X[:, 0]) + 0.1 * rng.normal(size=N), rng.uniform(0.0, 0.05, size=N))


def model_of(bound=None, lengthscale=0.3):
    Z = np.linspace(-3, 3, 4)[:, None]
    return tgp.SVGP(tgp.kernels.SquaredExponential(1.0, lengthscale), lk.Gaussian(0.05), Z, bound or tgp.Block(SIZE))


def run(model, data, **options):
    settings = {"batch_size": 2 * SIZE + 3, "epochs": 2, "learning_rate": 0.02, "progress": False}
    return tgp.fit(model, data, **{**settings, **options})


def assert_alike(one, other):
    for a, b in zip(jax.tree.leaves(one.model), jax.tree.leaves(other.model), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(one.trace["objective"], other.trace["objective"], rtol=1e-9)


def gathered(source, number):
    """All batches of an epoch, stacked."""
    rows = []
    for segment in source.epoch(number):
        for i in range(len(segment.keys)):
            one = jax.tree.map(lambda a, i=i: a[i], segment)
            rows.append(batch_of(one, source.resident, source.mesh).rows)
    return jax.tree.map(lambda *a: np.stack(a), *rows)


def test_batches_are_equal_and_hold_every_row_once():
    index, weight = minibatches.plan(203, 5, (0, 3))
    assert index.shape == weight.shape == (5, 41)
    assert sorted(index[weight > 0]) == list(range(203))
    np.testing.assert_allclose(weight.sum(axis=1), 203)
    assert set((weight > 0).sum(axis=1)) <= {40, 41}
    assert not np.array_equal(index, minibatches.plan(203, 5, (0, 4))[0])


@pytest.mark.parametrize("pieces", [[N], [1, 30, 30], [20, 20, 20, 1]])
def test_an_iterator_is_cut_into_equal_batches(pieces):
    """However the rows come; what is left over begins the next epoch, so no short batch carries all the weight."""
    data, ends = problem(), np.cumsum(pieces)
    parts = [data.take(slice(e - p, e)) for e, p in zip(ends, pieces, strict=True)]
    source = minibatches.Iterated(tgp.Batches(lambda: iter(parts), N), model_of("diagonal"), 15, 0)
    seen, sizes = [], []
    for epoch in range(5):
        for segment in source.epoch(epoch):
            sizes.append(segment.rows.X.shape)
            seen.extend(np.asarray(segment.rows.X[0, :, 0]))
            assert float(segment.rows.weight.sum()) == pytest.approx(N)
    assert set(sizes) == {(1, 15, 1)}
    assert len(sizes) == 5 * N // 15
    np.testing.assert_array_equal(seen, np.tile(data.X[:, 0], 5)[: len(seen)])


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.integers(1, 90), st.integers(1, 100), st.integers(1, 20), st.integers(0, 3))
def test_every_block_is_whole_and_comes_once_an_epoch(num_data, batch_size, size, epoch):
    size = min(size, num_data)
    steps = minibatches.count_steps(num_data, batch_size, size)
    index, weight = minibatches.plan(num_data, steps, (0, epoch), size)
    blocks, real = -(-num_data // size), weight > 0
    assert sorted(index[real]) == list(range(num_data))
    assert index.shape[1] <= max(batch_size, size) or len(index) == 1
    assert index.shape[1] % size == 0
    for rows, here in zip(index.reshape(-1, size), real.reshape(-1, size), strict=True):
        block = set(rows[here] // size)
        assert len(block) <= 1
        assert here.sum() in {0} | {min(size, num_data - b * size) for b in block}
    held = np.array([len(set(rows[here] // size)) for rows, here in zip(index, real, strict=True)])
    assert held.max() - held.min() <= 1
    np.testing.assert_allclose(weight.max(axis=1), blocks / held)
    assert all(len(set(row[row > 0])) == 1 for row in weight)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.integers(1, 300), st.integers(1, 320), st.integers(0, 5), st.integers(0, 5))
def test_single_rows_are_dealt_as_ever(num_data, batch_size, seed, epoch):
    """Bit for bit what checkpoints of former training go on with."""
    steps = -(-num_data // batch_size)
    each = -(-num_data // steps)
    place = np.arange(steps * each).reshape(each, steps).T
    real = place < num_data
    order = np.random.default_rng((seed, epoch)).permutation(num_data)
    assert minibatches.count_steps(num_data, batch_size) == steps
    index, weight = minibatches.plan(num_data, steps, (seed, epoch))
    np.testing.assert_array_equal(index, order[np.minimum(place, num_data - 1)])
    np.testing.assert_array_equal(weight, real * (num_data / real.sum(axis=1, keepdims=True)))


@pytest.mark.parametrize("how", ["locality", "rows", "random"])
@pytest.mark.parametrize("stream", [True, False])
def test_batches_hold_the_blocks_of_the_partition_of_all_rows(how, stream):
    data = problem()
    model, source = minibatches.choose(model_of(tgp.Block(SIZE, how)), data, 2 * SIZE, 0, stream)
    order = model.bound.partition.order(data.X, np.array([0.3]))
    order = np.arange(N) if order is None else order
    expected = {frozenset(data.X[order[i : i + SIZE], 0]) for i in range(0, N, SIZE)}
    for epoch in range(2):
        rows = gathered(source, epoch)
        assert rows.X.shape == (source.steps, 2 * SIZE, 1) == (4, 16, 1)
        blocks = rows.X.reshape(-1, SIZE)
        here = rows.weight.reshape(-1, SIZE) > 0
        assert {frozenset(b[h]) for b, h in zip(blocks, here, strict=True) if h.any()} == expected
        assert here.sum() == N
        where = np.searchsorted(np.sort(data.X[:, 0]), rows.X[rows.weight > 0][:, 0])
        for name, column in (("y", rows.y[..., 0]), ("noise_variance", rows.noise_variance)):
            wanted = getattr(data, name)[np.argsort(data.X[:, 0])][where]
            np.testing.assert_array_equal(column[rows.weight > 0], wanted)


def test_an_epochs_mean_is_the_bound_itself():
    """Also with a short last block, as batches hold equally many blocks; else blocks weigh as there are in each."""
    data = problem()
    model = model_of()
    whole, rows = model.prepare(data)
    full = float(whole.objective(rows)[0])

    def part(batches, i):
        return OnDevice(jax.tree.map(lambda a: jnp.asarray(a[i]), batches))

    _, source = minibatches.choose(model, data, 2 * SIZE, 0, None)

    @jax.jit
    def objective(batch):
        return whole.objective(batch)[0]

    batches = gathered(source, 0)
    values = [float(objective(part(batches, i))) for i in range(4)]
    assert np.mean(values) == pytest.approx(full, rel=1e-10)
    assert np.std(values) > 1
    _, uneven = minibatches.choose(model, data, 3 * SIZE, 0, None)  # three, three and two blocks
    batches = gathered(uneven, 0)
    held = (batches.weight.reshape(3, -1, SIZE) > 0).any(axis=2).sum(axis=1)
    divergence = float(whole.objective(rows)[1]["divergence"])
    values = [float(whole.objective(part(batches, i))[0]) for i in range(3)]
    assert sorted(held) == [2, 3, 3]
    assert np.sum(held / 8 * (np.array(values) + divergence)) - divergence == pytest.approx(full, rel=1e-10)


def with_neighbours():
    return model_of(tgp.Neighbours(6, block=4))


def test_the_mean_over_all_blocks_is_the_bound_with_neighbours():
    """All rows for the likelihood and one block to pay; the last block is short."""
    data, model = problem(), with_neighbours()
    made, source = minibatches.choose(model, data, N, 0, False)
    count = -(-N // 4)
    assert len(source.resident.groups) == count
    everything, ones = np.arange(N), np.ones(N)

    @jax.jit
    def value(block):
        draw = minibatches.Draw(everything, ones, block[None], jnp.array([float(count)]))
        return made.objective(source.resident.take(draw))[0]

    values = [float(value(jnp.asarray(block))) for block in range(count)]
    assert np.mean(values) == pytest.approx(float(model.elbo(data)), rel=1e-10)
    assert np.std(values) > 1


def test_a_block_comes_with_its_earlier_neighbours():
    """From arrays and from the host alike; each block's own rows come last."""
    data = problem()
    batches = []
    for stream in (False, True):
        _, source = minibatches.choose(with_neighbours(), data, 40, 0, stream)
        segment = next(iter(source.epoch(3)))
        one = jax.tree.map(lambda a: a[0], segment)
        batches.append(batch_of(one, source.resident, source.mesh))
    for of in (lambda batch: batch.rows, lambda batch: batch.blocks.rows):
        here = np.asarray(of(batches[0]).weight) > 0
        for name in ("X", "y", "weight", "noise_variance"):
            np.testing.assert_array_equal(*(np.asarray(getattr(of(batch), name))[here] for batch in batches))
    rows = batches[0].blocks.rows
    assert rows.X.shape == (2 * 12, 1)  # two blocks of four rows, each with up to eight places for what it is given
    own = rows.X.reshape(2, 12)[:, -4:]
    assert np.all(np.ptp(own, axis=1) < 2)
    assert np.all(rows.weight.reshape(2, 12)[:, -4] == 8)


def test_drawn_blocks_come_equally_often():
    numbers, weights = minibatches.draw_blocks(7, 5, 3, (0, 1))
    counts = np.bincount(numbers.ravel(), minlength=7)
    assert numbers.shape == weights.shape == (5, 3)
    assert set(counts) <= {2, 3}
    np.testing.assert_allclose(weights, 7 / 3)


def test_minibatches_with_neighbours_train_towards_the_full_bound():
    data = problem()
    start = float(with_neighbours().elbo(data))
    result = run(with_neighbours(), data, method="natural", epochs=40, learning_rate=0.02)
    streamed = run(with_neighbours(), data, method="natural", epochs=40, learning_rate=0.02, stream=True)
    assert_alike(result, streamed)
    exact = float(tgp.ExactGP(result.model.kernel, result.model.likelihood.noise_variance).log_evidence(data))
    assert start + 100 < float(result.model.elbo(data)) < exact


def test_neighbours_need_rows_at_hand():
    batches = tgp.Batches([problem()], N)
    with pytest.raises(ValueError, match="a bound with neighbours searches them among all rows"):
        run(with_neighbours(), batches)


def test_a_batch_of_ones_own_has_its_own_blocks():
    """`elbo` with ``num_data`` groups the rows it is given; whole blocks stay what they were."""
    data, model = problem(), model_of()
    model = model.grouped_by(data.X)
    assert model.batch_partition.size == SIZE
    order = model.bound.partition.order(data.X, model.metric)
    parts = [data.take(np.sort(order[i : i + 16])) for i in range(0, 48, 16)]
    rows = data.take(order[:48])
    values = [float(model.elbo(part, num_data=48)) for part in parts]
    assert np.mean(values) == pytest.approx(float(model.elbo(rows)), rel=1e-9)


def test_streams_and_files_train_like_arrays_on_the_device(tmp_path, monkeypatch):
    data = problem()
    for name in ("X", "y", "noise_variance"):
        np.save(tmp_path / f"{name}.npy", getattr(data, name))
    mapped = tgp.Dataset(*(np.load(tmp_path / f"{n}.npy", mmap_mode="r") for n in ("X", "y", "noise_variance")))
    resident, streamed = run(model_of(), data), run(model_of(), data, stream=True)
    monkeypatch.setattr(partition, "_PIECE_BYTES", 80)
    from_file = run(model_of(), mapped)
    assert isinstance(minibatches.choose(model_of(), mapped, SIZE, 0, None)[1], minibatches.Streamed)
    assert_alike(resident, streamed)
    assert_alike(resident, from_file)
    np.testing.assert_array_equal([resident.model.metric, from_file.model.metric], [[0.3], [0.3]])
    other = run(model_of(lengthscale=0.4), data, epochs=1)  # the same compiled program
    np.testing.assert_array_equal(other.model.metric, [0.4])


def test_all_rows_at_once_are_the_full_bound():
    data = problem()
    result = run(model_of(), data, batch_size=N, epochs=1)
    assert result.objective == pytest.approx(float(model_of().elbo(data)), rel=1e-9)
    result = run(model_of(tgp.Block(10 * N)), data, batch_size=1, epochs=1)
    assert result.objective == pytest.approx(float(model_of("block").elbo(data)), rel=1e-9)


def test_block_by_name_still_takes_the_batch_as_it_comes():
    model, source = minibatches.choose(model_of("block"), problem(), 20, 0, None)
    assert (model.batch_partition.size, source.steps) == (1, 4)
    np.testing.assert_array_equal(source.plan(2).index, minibatches.plan(N, 4, (0, 2))[0])
    assert model.bound.partition.how == "rows"


def test_batches_of_an_iterator_are_put_in_the_order_of_their_neighbours():
    data = problem()
    parts = [data.take(slice(0, 30)), data.take(slice(30, None))]
    batches = tgp.Batches(parts, N)
    model, source = minibatches.choose(model_of(), batches, 2 * SIZE + 3, 0, None)
    np.testing.assert_array_equal(model.metric, [0.3])
    assert (source.batch_size, source.steps) == (16, 3)
    rows = gathered(source, 0)
    for i in range(3):
        X = rows.X[i, :, 0]
        assert X[:SIZE].max() < X[SIZE:].min()
        assert set(X) == set(data.X[16 * i : 16 * (i + 1), 0])
        where = [int(np.flatnonzero(data.X[:, 0] == x)[0]) for x in X]
        np.testing.assert_array_equal(rows.y[i, :, 0], data.y[where])
        np.testing.assert_array_equal(rows.noise_variance[i], data.noise_variance[where])
    result = run(model_of(), batches)
    np.testing.assert_array_equal(result.model.metric, [0.3])
    own = [float(model_of().elbo(data.take(slice(16 * i, 16 * i + 16)), num_data=N)) for i in range(3)]
    first = run(model_of(), batches, epochs=1, learning_rate=1e-12)
    assert first.objective == pytest.approx(np.mean(own), rel=1e-8)


@pytest.mark.parametrize("way", ["resident", "streamed", "iterated"])
def test_an_epoch_can_be_broken_off_in_its_middle(way, tmp_path, monkeypatch):
    """And goes on to the same bits."""
    monkeypatch.setattr(minibatches, "_SEGMENT_STEPS", 1)
    monkeypatch.setattr(minibatches, "_SEGMENT_BYTES", 1)
    data = problem() if way != "iterated" else tgp.Batches([problem()], N)
    options = {"stream": True} if way == "streamed" else {}
    path, whole = tmp_path / "run.safetensors", run(model_of(), data, **options)
    step, calls = epochs.MinibatchJob.advance, iter(range(4 + (way != "iterated")))

    def broken(*arguments):
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return step(*arguments)

    monkeypatch.setattr(epochs.MinibatchJob, "advance", broken)
    assert run(model_of(), data, checkpoint=path, **options).interrupted
    monkeypatch.setattr(epochs.MinibatchJob, "advance", step)
    assert_same(run(model_of(), data, checkpoint=path, resume=True, **options), whole)


def test_blocks_gain_over_single_rows():
    """From the same start: what eight inducing inputs leave unsaid, neighbours know of each other."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(N, 1))
    data = tgp.Dataset(X, np.sin(4 * X[:, 0]) + 0.1 * rng.normal(size=N))
    start, Z = (tgp.kernels.SquaredExponential(1.0, 0.3), lk.Gaussian(0.05)), np.linspace(-3, 3, 8)[:, None]
    options = {"method": "natural", "epochs": 60, "learning_rate": 0.05}
    blocks, single = (run(tgp.SVGP(*start, Z, bound), data, **options).model for bound in (tgp.Block(16), "diagonal"))
    assert float(blocks.elbo(data)) > float(single.elbo(data)) + 5
    evidence = tgp.ExactGP(blocks.kernel, blocks.likelihood.noise_variance).log_evidence(data)
    assert float(blocks.elbo(data)) < float(evidence)


def test_several_outputs_with_some_missing():
    data = problem()
    y = np.stack([data.y, np.where(np.arange(N) % 3, np.nan, data.y)], axis=1)
    both = tgp.Dataset(data.X, y, data.noise_variance, missing=True)
    kernels = [tgp.kernels.SquaredExponential(1.0, 0.3), tgp.kernels.Matern32(1.0, 0.5)]
    model = tgp.SVGP(kernels, lk.Gaussian([0.05, 0.05]), model_of().Z, tgp.Block(SIZE))
    result = run(model, both, learning_rate=1e-12, batch_size=2 * SIZE, epochs=1)
    assert result.objective == pytest.approx(float(model.elbo(both)), rel=1e-6)
    gradient = eqx.filter_grad(lambda m, rows: m.objective(rows)[0])(*model.prepare(both))
    assert all(bool(jnp.all(jnp.isfinite(g))) for g in jax.tree.leaves(gradient))


def test_mapped_rows_can_be_put_on_the_device(tmp_path):
    data = problem()
    np.save(tmp_path / "X.npy", data.X)
    mapped = tgp.Dataset(np.load(tmp_path / "X.npy", mmap_mode="r"), data.y, data.noise_variance)
    one, other = (gathered(minibatches.choose(model_of(), d, 2 * SIZE, 0, False)[1], 0) for d in (data, mapped))
    for name in ("X", "y", "weight", "noise_variance"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_an_epoch_that_is_left_early_makes_few_segments_ahead():
    made, data = [], problem()

    def batches():
        for i in range(10**6):
            made.append(i)
            yield data.take(slice(0, 10))

    epoch = minibatches.Iterated(tgp.Batches(batches, 10**7), model_of("diagonal"), 10, 0).epoch(0)
    for _ in range(2):
        next(epoch)
    epoch.close()
    assert 2 <= len(made) <= 5
    time.sleep(0.05)
    assert len(made) <= 5
