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
from tightgp import layout, statistics


@pytest.fixture(scope="module")
def data():
    return tgp.Dataset(*devices.rows())


@pytest.fixture(scope="module")
def alone(data):
    """What one device finds with all rows in memory."""
    return devices.values(data, data.X[:5] + 0.1)


def close(actual, desired):
    np.testing.assert_allclose(actual, desired, rtol=1e-10, atol=1e-10 * float(np.max(np.abs(desired))))


def test_four_devices_find_what_one_does(alone, data):
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    (ended,) = processes.run([[processes.ROOT / "tests" / "devices.py"]], XLA_FLAGS=flags)
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert found["devices"] == 4
    for bound, numbers in alone.items():
        for name, value in numbers.items():
            close(found["values"][bound][name], value)
    for method, numbers in devices.trained(data, data.X[:5] + 0.1).items():
        for name, value in numbers.items():
            np.testing.assert_allclose(found["trained"][method][name], value, rtol=1e-8)


@pytest.fixture
def mapped(tmp_path, data):
    """The same rows in a file."""
    np.save(tmp_path / "X.npy", data.X)
    np.save(tmp_path / "y.npy", data.y)
    return tgp.Dataset(*(np.load(tmp_path / name, mmap_mode="r") for name in ("X.npy", "y.npy")))


@pytest.fixture
def chunks_read(monkeypatch):
    """Sixteen rows at a time, of which 101 make six chunks and a part of a seventh; and which of them were read."""
    read, numbers = layout.HostRows.read, []

    def counted(self, number, chunk):
        numbers.append((int(number), chunk))
        return read(self, number, chunk)

    monkeypatch.setattr(statistics, "_CHUNK_BYTES", {"cpu": 16 * 8 * 8, "gpu": 16 * 8 * 8})
    monkeypatch.setattr(layout.HostRows, "read", counted)
    return numbers


@pytest.mark.parametrize("bound", devices.BOUNDS)
def test_rows_in_a_file_give_the_same(mapped, alone, chunks_read, bound):
    one = devices.model(mapped.X, devices.BOUNDS[bound])
    _, laid = one.prepare(mapped)
    assert isinstance(laid, layout.Mapped)
    assert (laid.host.order is None) == (bound == "diagonal")
    if bound == "block":
        assert not np.array_equal(laid.host.order, np.arange(devices.NUM_ROWS))
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
    value = float(one.elbo(mapped))
    _, laid = one.prepare(mapped)
    gone = weakref.ref(laid.kept)
    laid = None
    gc.collect()
    assert gone() is None
    np.save(tmp_path / "other.npy", np.asarray(mapped.y) + 1.0)
    other = tgp.Dataset(mapped.X, np.load(tmp_path / "other.npy", mmap_mode="r"))
    with jax.log_compiles(), caplog.at_level(logging.WARNING, "jax"):
        assert float(one.elbo(mapped)) == value
        assert float(one.elbo(other)) < value
    assert [
        record for record in caplog.records if "_elbo" in record.getMessage() and "Compiling" in record.getMessage()
    ] == []


def test_a_chunk_is_read_in_order_and_filled_up():
    X, known = np.arange(10.0).reshape(5, 2), np.arange(5.0)
    order = np.array([4, 2, 0, 1, 3])
    for rows, places in ((None, [3, 4]), (order, [1, 3])):
        found_X, found_known, valid = layout.HostRows((X, known), rows).read(1, 3)
        np.testing.assert_array_equal(found_X[:2], X[places])
        np.testing.assert_array_equal(found_known[:2], known[places])
        np.testing.assert_array_equal(valid, [1, 1, 0])
        assert np.isfinite(found_X).all()
    assert not layout.HostRows((X, known), None).read(2, 3)[-1].any()


@pytest.mark.parametrize("bound", devices.BOUNDS)
def test_rows_that_only_fill_up_count_for_nothing(data, alone, bound):
    _, laid = devices.model(data.X, devices.BOUNDS[bound]).prepare(data)
    assert laid.length > devices.NUM_ROWS
    assert len(laid.real()) == devices.NUM_ROWS
    one = devices.model(data.X, devices.BOUNDS[bound])
    made, rows, order = one._arrange(data)
    exactly = layout.of(layout.in_order(rows, order))
    value, _ = made.objective(exactly)
    close(float(value), alone[bound]["elbo"])


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
