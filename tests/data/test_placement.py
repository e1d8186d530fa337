"""Where rows lie makes no difference but to memory and time."""

import gc
import json
import logging
import os
import re
import weakref

import jax
import numpy as np
import pytest

import tightgp as tgp
from tests import devices, processes
from tightgp.bounds import statistics
from tightgp.data import partition, placement
from tightgp.data.placement import HostRows, OnHost, on_device
from tightgp.data.rows import Rows


@pytest.fixture(scope="module")
def data():
    return tgp.Dataset(*devices.rows())


@pytest.fixture(scope="module")
def alone(data):
    """What one device finds with all rows in memory."""
    return devices.values(data, data.X[:5] + 0.1)


def close(actual, desired):
    np.testing.assert_allclose(actual, desired, rtol=1e-10, atol=1e-10 * float(np.max(np.abs(desired))))


@pytest.fixture(scope="module")
def found():
    """What four devices find."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    (ended,) = processes.run([[processes.ROOT / "tests" / "devices.py"]], XLA_FLAGS=flags)
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert found["devices"] == 4
    return found


def given_rows(bound: str) -> bool:
    """Whether blocks are given rows, which on several devices are others than on one."""
    return "neighbours" in bound or "vecchia" in bound


def test_four_devices_find_what_one_does(alone, data, found):
    for bound, numbers in alone.items():
        for name, value in numbers.items() if not given_rows(bound) else ():
            close(found["values"][bound][name], value)
    for method, numbers in devices.trained(data, data.X[:5] + 0.1).items():
        for name, value in numbers.items():
            np.testing.assert_allclose(found["trained"][method][name], value, rtol=1e-8)


def test_on_four_devices_blocks_are_given_rows_of_the_same_device(alone, data, found):
    """Fewer rows to choose from: still a bound, above blocks of the same size, and no other kind of model."""
    evidence = float(tgp.ExactGP(tgp.kernels.Matern32(1.3, [0.8, 1.7]), 0.1).log_evidence(data))
    value = found["values"]["neighbours"]["elbo"]
    assert float(devices.model(data.X, tgp.Block(4)).elbo(data)) < value < evidence
    assert found["values"]["vecchia"]["elbo"] == pytest.approx(evidence, abs=0.1 * len(data.X))


@pytest.mark.parametrize("pieces", [1, 3])
def test_neighbours_of_rows_in_a_file(mapped, data, monkeypatch, pieces):
    monkeypatch.setattr(partition, "_PIECE_ROWS", 120 // pieces)
    jax.clear_caches()  # compiled programs do not know that pieces changed
    data = tgp.Dataset(data.X, data.y)  # nor do rows that are placed already
    models = [devices.model(one.X, tgp.Vecchia(8, block=4)) for one in (mapped, data)]
    assert isinstance(models[0].prepare(mapped)[1], OnHost)
    close(*(float(one.elbo(rows)) for one, rows in zip(models, (mapped, data), strict=True)))
    close(*(devices.gradient(one, rows) for one, rows in zip(models, (mapped, data), strict=True)))


def test_four_devices_train_on_minibatches(found):
    """Batches of arrays on the devices and of arrays on the host, for SVGP, blocks and GP-LVM."""
    for name, (alone, start_alone) in devices.trained_on_minibatches(streams=(False,)).items():
        resident, streamed, start = found["minibatches"][name]
        assert start == pytest.approx(start_alone, rel=0.05 if given_rows(name) else 1e-8)
        gained = alone - start
        assert gained > 0
        assert min(resident, streamed) - start > 0.8 * gained, name


@pytest.fixture
def mapped(tmp_path, data):
    """The same rows in a file."""
    np.save(tmp_path / "X.npy", data.X)
    np.save(tmp_path / "y.npy", data.y)
    return tgp.Dataset(*(np.load(tmp_path / name, mmap_mode="r") for name in ("X.npy", "y.npy")))


@pytest.fixture
def chunks_read(monkeypatch):
    """Sixteen rows at a time, of which 101 make six chunks and a part of a seventh; and which of them were read."""
    read, numbers = HostRows.read, []

    def counted(self, number, size):
        numbers.append((int(number), size))
        return read(self, number, size)

    monkeypatch.setattr(statistics, "_CHUNK_BYTES", {"cpu": 16 * 8 * 8, "gpu": 16 * 8 * 8})
    monkeypatch.setattr(HostRows, "read", counted)
    return numbers


@pytest.mark.parametrize("bound", devices.BOUNDS)
def test_rows_in_a_file_give_the_same(mapped, alone, chunks_read, bound):
    one = devices.model(mapped.X, devices.BOUNDS[bound])
    _, rows = one.prepare(mapped)
    assert isinstance(rows, OnHost)
    assert (rows.host.order is None) == (bound == "diagonal")
    if bound == "block":
        assert not np.array_equal(rows.host.order, np.arange(devices.NUM_ROWS))
    close(float(one.elbo(mapped)), alone[bound]["elbo"])
    length = chunks_read[0][1]
    assert length < devices.NUM_ROWS
    assert devices.NUM_ROWS % length
    assert sorted(number for number, _ in chunks_read) == list(range(-(-devices.NUM_ROWS // length)))
    close(devices.gradient(one, mapped), alone[bound]["gradient"])


def test_training_on_a_file_is_training_in_memory(mapped, data):
    results = [tgp.fit(devices.model(one.X, "diagonal"), one, steps=5, progress=False) for one in (mapped, data)]
    close(*(result.trace["objective"] for result in results))
    close(*(np.asarray(result.model.Z) for result in results))
    assert results[0].steps == 5


def test_programs_do_not_keep_files_and_serve_the_next(mapped, tmp_path, caplog):
    one = devices.model(mapped.X, "diagonal")
    own = tgp.Dataset(mapped.X, mapped.y)
    value, first = float(one.elbo(own)), own.X
    gone = weakref.ref(one.prepare(own)[1]._host)
    own = None
    gc.collect()
    assert gone() is None
    y = np.load(tmp_path / "y.npy", mmap_mode="r")
    np.save(tmp_path / "other.npy", np.asarray(y) + 1.0)
    with jax.log_compiles(), caplog.at_level(logging.WARNING, "jax"):
        assert float(one.elbo(tgp.Dataset(first, y))) == value
        assert float(one.elbo(tgp.Dataset(first, np.load(tmp_path / "other.npy", mmap_mode="r")))) < value
    assert [
        record for record in caplog.records if "_elbo" in record.getMessage() and "Compiling" in record.getMessage()
    ] == []


def test_a_chunk_is_read_in_order_and_padded():
    rows = Rows(np.arange(10.0).reshape(5, 2), np.arange(5.0)[:, None], np.ones(5))
    order = np.array([4, 2, 0, 1, 3])
    for given, places in ((None, [3, 4]), (order, [1, 3])):
        chunk = HostRows(rows, given).read(1, 3)
        np.testing.assert_array_equal(chunk.X[:2], rows.X[places])
        np.testing.assert_array_equal(chunk.y[:2], rows.y[places])
        np.testing.assert_array_equal(chunk.weight, [1, 1, 0])
        assert np.isfinite(chunk.X).all()
    assert not HostRows(rows, None).read(2, 3).weight.any()


def test_a_data_set_is_placed_once(data, monkeypatch):
    """Training, bounds and posterior share the rows on the device; another partition replaces them."""
    placed, calls = placement.place, []
    monkeypatch.setattr("tightgp.data.dataset.place", lambda *given: calls.append(given) or placed(*given))
    one = devices.model(data.X, tgp.Block(8))
    fresh = tgp.Dataset(data.X, data.y)
    model = tgp.fit(one, fresh, steps=2, progress=False).model
    model.posterior(fresh)
    model.evidence_bracket(fresh)
    assert len(calls) == 1
    devices.model(data.X, "diagonal").elbo(fresh)
    assert len(calls) == 2


@pytest.mark.parametrize("bound", devices.BOUNDS)
def test_padding_counts_for_nothing(data, alone, bound):
    one = devices.model(data.X, devices.BOUNDS[bound])
    made, rows = one.prepare(data)
    assert rows.num_rows > devices.NUM_ROWS
    assert len(rows.real()) == devices.NUM_ROWS
    order = data.placed(made.bound.partition, made.metric)[1]
    exactly = on_device(data.rows() if order is None else data.rows().take(order))
    close(float(made.objective(exactly)[0]), alone[bound]["elbo"])


def test_a_few_rows_more_need_no_other_program(data, caplog):
    """At last a length that does, so that this can fail."""

    def compiled() -> int:
        """Programs of inputs and targets."""
        said = [record.getMessage() for record in caplog.records]
        return sum(bool(re.search(r"^Compiling .*float64\[(\d+),2\].*float64\[\1,1\]", one)) for one in said)

    def train(count):
        rng = np.random.default_rng(0)
        more = tgp.Dataset(rng.normal(size=(count, 2)), rng.normal(size=count))
        tgp.fit(tgp.SGPR(tgp.kernels.Matern12(1.0, [1.0, 1.0]), more.X[:4].copy(), 0.1), more, steps=1, progress=False)
        return compiled()

    with jax.log_compiles(), caplog.at_level(logging.WARNING, "jax"):
        first = train(devices.NUM_ROWS)
        assert first == 1
        assert train(devices.NUM_ROWS + 1) == first
        assert train(2 * devices.NUM_ROWS) == first + 1
