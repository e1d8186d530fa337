"""Where minibatches come from: arrays on one or several devices, arrays on the host, or an iterator.

Every epoch is cut into equal batches of at most ``batch_size`` rows, some of them padded by a row of weight zero. Where
a model has blocks of rows, batches are made of whole blocks in the same way. A source gives an epoch in segments: the
batches of one call of the compiled program.
"""

import abc
import math
import queue
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from tightgp.data import Batches
from tightgp.data.neighbours import Reordered, conditioners, groups
from tightgp.data.partition import Partition
from tightgp.data.placement import (
    Draw,
    OnDevice,
    OnDevices,
    PlacedRows,
    device_mesh,
    device_room,
    is_mapped,
    on_device,
    on_one_device,
    place,
    rows_of_blocks,
    to_devices,
    with_groups,
)
from tightgp.data.rows import Rows

#: Most steps of a segment whose rows are on the device; Ctrl-C is handled after each segment.
_SEGMENT_STEPS = 500
#: Bytes of a segment whose rows come from the host, about.
_SEGMENT_BYTES = 16 << 20
#: Segments made ahead of the one in use.
_AHEAD = 2


class Segment(NamedTuple):
    """Batches of some steps, stacked: ``rows``, and those of ``blocks`` drawn to pay; or a ``draw`` of rows that are on
    the device already."""

    keys: jax.Array
    rows: Rows | None = None
    blocks: Rows | None = None
    draw: Draw | None = None


class Source(abc.ABC):
    """Minibatches, epoch by epoch."""

    #: Number of batches in an epoch.
    steps: int
    #: Rows on the device from which a program draws its batches; None where segments hold the rows.
    resident: PlacedRows | None = None
    #: The devices over which batches are spread; None for one device.
    mesh: Mesh | None = None

    def epoch(self, number: int) -> Iterator[Segment]:
        """The segments of an epoch, made ahead of their use."""
        return _ahead(self._segments(number))

    @abc.abstractmethod
    def _segments(self, number: int) -> Iterator[Segment]:
        """The segments of an epoch."""

    @abc.abstractmethod
    def sample(self) -> PlacedRows:
        """Some rows, for a model's start and to explain errors."""

    def left_over(self) -> Any:
        """Rows with which the next epoch begins, for a checkpoint."""
        return None

    def begin_with(self, left_over: Any) -> None:
        """Begin the next epoch with these rows."""
        assert left_over is None


def plan(rows: int, steps: int, seed: tuple[int, ...], size: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """The rows of each batch of an epoch (steps, rows), shuffled by ``seed``, and their weights.

    Blocks of ``size`` consecutive rows stay together; the last may be short, and is padded by rows of weight zero.
    Every batch stands for all blocks: a row's weight is the number of blocks over that in its batch (maths 4.1d).
    """
    blocks = math.ceil(rows / size)
    most = math.ceil(blocks / steps)
    order = np.random.default_rng(seed).permutation(blocks)
    place = np.arange(steps * most).reshape(most, steps).T  # so the padding is spread over the batches
    real = place < blocks
    weight = real * (blocks / real.sum(axis=1, keepdims=True))
    block = order[np.minimum(place, blocks - 1)]
    index = (block[:, :, None] * size + np.arange(size)).reshape(steps, -1)
    return np.minimum(index, rows - 1), np.repeat(weight, size, axis=1) * (index < rows)


def draw_blocks(blocks: int, steps: int, each: int, seed: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Blocks to pay in each batch of an epoch (steps, each), and their weights: together they stand for all blocks.

    The blocks are shuffled by ``seed``, again and again if an epoch has more draws than blocks.
    """
    rng = np.random.default_rng(seed)
    rounds = math.ceil(steps * each / blocks)
    drawn = np.concatenate([rng.permutation(blocks) for _ in range(rounds)])[: steps * each]
    return drawn.reshape(steps, each), np.full((steps, each), blocks / each)


def count_steps(rows: int, batch_size: int, size: int = 1) -> int:
    """Number of batches in an epoch."""
    blocks = math.ceil(rows / size)
    return 1 if batch_size >= rows else math.ceil(blocks / max(batch_size // size, 1))


def _keys(seed: int, epoch: int, steps: int) -> jax.Array:
    return jax.random.split(jax.random.fold_in(jax.random.key(seed), epoch), steps)


class Resident(Source):
    """Rows on one or several devices, from which the program takes its batches.

    Each of several devices takes from its own rows, so batches are stratified by device.
    """

    resident: OnDevice | OnDevices

    def __init__(self, rows: Rows, order: np.ndarray | None, partition: Partition, metric, batch_size: int, seed: int):
        count = rows.num_rows
        self._seed, self._size, self._partition = seed, _rows_together(partition, count), partition
        self.steps = count_steps(count, min(batch_size, count), self._size)
        wanted = partition if partition.neighbours else Partition(self._size)
        placed = place(rows, order, wanted, metric)
        counts = _counts_on_devices(placed, count)
        enough = min(counts) > (self.steps - 1) * self._size  # every device has rows for every batch
        if not (isinstance(placed, OnDevice | OnDevices) and enough):
            placed, counts = on_one_device(rows if order is None else rows.take(order), wanted, metric), [count]
        self.resident, self._counts = placed, counts
        if partition.neighbours:
            self.resident = with_groups(placed, partition, counts)
        self.mesh = self.resident.spread_over

    def plan(self, number: int) -> Draw:
        """The rows and blocks of each batch of an epoch, numbered on each device, and their weights."""
        seed = self._seed, number
        plans = [plan(own, self.steps, (*seed, device), self._size) for device, own in enumerate(self._counts)]
        most = max(index.shape[1] for index, _ in plans)
        index, weight = zip(*(_widened(*one, most) for one in plans), strict=True)
        draw = Draw(np.concatenate(index, axis=1), np.concatenate(weight, axis=1))
        if not self._partition.neighbours:
            return draw
        blocks = [-(-own // self._partition.size) for own in self._counts]
        each = _blocks_in_batch(self._partition, most)
        drawn = [draw_blocks(own, self.steps, each, (*seed, device, 1)) for device, own in enumerate(blocks)]
        numbers, weights = (np.concatenate(parts, axis=1) for parts in zip(*drawn, strict=True))
        return draw._replace(blocks=numbers, block_weight=weights)

    def epoch(self, number: int) -> Iterator[Segment]:
        return self._segments(number)  # a thread would cost more than it saves

    def _segments(self, number: int) -> Iterator[Segment]:
        dtype = self.resident.like.X.dtype
        keys = _keys(self._seed, number, self.steps)
        draw = jax.tree.map(lambda a: a.astype(np.int32 if a.dtype.kind == "i" else dtype), self.plan(number))
        length = math.ceil(self.steps / math.ceil(self.steps / _SEGMENT_STEPS))
        for start in range(0, self.steps, length):
            part = slice(start, start + length)
            drawn = jax.tree.map(lambda a, part=part: a[part], draw)
            yield Segment(keys[part], draw=_on_devices(drawn, self.mesh))

    def sample(self) -> PlacedRows:
        return self.resident


def _rows_together(partition: Partition, count: int) -> int:
    """How many consecutive rows a batch does not part; with neighbours none, for its blocks are drawn apart."""
    return 1 if partition.neighbours else min(partition.size, count)


def _blocks_in_batch(partition: Partition, rows: int) -> int:
    """How many blocks pay in a batch: with what they are given they have about as many rows as the batch."""
    return max(1, rows // (partition.size * (1 + partition.given_per_row)))


def _counts_on_devices(placed: PlacedRows, count: int) -> list[int]:
    """Number of rows on each device, without padding."""
    devices = placed.mesh.size if isinstance(placed, OnDevices) else 1
    starts = np.arange(devices) * placed.num_rows
    return np.clip(count - starts, 0, placed.num_rows).tolist()


def _widened(index: np.ndarray, weight: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """A plan padded to batches of ``width`` rows by rows of weight zero."""
    extra = ((0, 0), (0, width - index.shape[1]))
    return np.pad(index, extra, mode="edge"), np.pad(weight, extra)


def _on_devices(tree: Any, mesh: Mesh | None) -> Any:
    """Stacked batches (steps, rows, ...) on one device, or with their rows spread over several."""
    return jax.tree.map(jnp.asarray, tree) if mesh is None else to_devices(tree, mesh, axis=1)


class Streamed(Source):
    """Rows that stay on the host, such as a memory-mapped file; batches are gathered there and sent ahead of use."""

    def __init__(self, rows: Rows, order: np.ndarray | None, partition: Partition, metric, batch_size: int, seed: int):
        self._rows, self._order, self._seed = rows.map(np.asarray), order, seed
        self._partition, self._groups = partition, None
        self._size, self._batch_size = _rows_together(partition, rows.num_rows), min(batch_size, rows.num_rows)
        self.steps = count_steps(rows.num_rows, self._batch_size, self._size)
        self.mesh = _mesh_for_batches()
        if partition.neighbours:
            assert order is not None
            X, count = Reordered(self._rows.X, order), rows.num_rows
            table = groups(conditioners(X, np.asarray(metric), partition, count), partition, count)
            self._groups = np.where(table < 0, -1, order[table])

    def plan(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """The rows of each batch of an epoch, and their weights."""
        index, weight = plan(self._rows.num_rows, self.steps, (self._seed, number), self._size)
        index = index if self._order is None else self._order[index]
        devices = 1 if self.mesh is None else self.mesh.size * self._size
        return _widened(index, weight, -(-index.shape[1] // devices) * devices)

    def plan_blocks(self, number: int, rows: int) -> tuple[np.ndarray, np.ndarray] | None:
        """The blocks that pay in each batch of an epoch, and their weights; None where rows pay for themselves."""
        if self._groups is None:
            return None
        devices = 1 if self.mesh is None else self.mesh.size
        each = -(-_blocks_in_batch(self._partition, rows) // devices) * devices
        return draw_blocks(len(self._groups), self.steps, each, (self._seed, number, 0, 1))

    def sample(self) -> PlacedRows:
        first: Any = slice(0, 10 * self._batch_size)
        rows = self._rows.take(first if self._order is None else self._order[first])
        return on_device(_weighed(rows, self._rows.num_rows))

    def _segments(self, number: int) -> Iterator[Segment]:
        index, weight = self.plan(number)
        drawn = self.plan_blocks(number, index.shape[1])
        keys = _keys(self._seed, number, self.steps)
        row_bytes = sum(a.dtype.itemsize * a[0].size for a in (self._rows.X, self._rows.y))
        length = max(1, _SEGMENT_BYTES // (row_bytes * index.shape[1]))
        for start in range(0, self.steps, length):
            part = slice(start, start + length)
            rows = self._rows.map(lambda a, part=part: a[index[part]])
            rows = rows._replace(weight=weight[part].astype(rows.X.dtype))
            blocks = None if drawn is None else _on_devices(self._blocks(drawn[0][part], drawn[1][part]), self.mesh)
            yield Segment(keys[part], _on_devices(rows, self.mesh), blocks)

    def _blocks(self, numbers: np.ndarray, weights: np.ndarray) -> Rows:
        """The rows of blocks (steps, b), stacked."""
        assert self._groups is not None
        found = [rows_of_blocks(self._rows, self._groups[one], w) for one, w in zip(numbers, weights, strict=True)]
        return jax.tree.map(lambda *a: np.stack(a), *found)


class Iterated(Source):
    """Batches from an iterator, cut again into equal ones; rows left over begin the next epoch.

    Blocks are made among the rows of a batch, since the other rows are not known.
    """

    def __init__(self, batches: Batches, model, batch_size: int, seed: int):
        self._batches, self._model, self._seed = batches, model, seed
        size = model.batch_partition.size
        self.mesh = _mesh_for_batches()
        self.batch_size = min(max(batch_size // size, 1) * size, batches.num_data)
        self.steps = batches.num_data // self.batch_size
        self._left: list[Rows] = []

    def left_over(self) -> dict | None:
        return _joined(self._left)._asdict() if self._left else None

    def begin_with(self, left_over: dict | None) -> None:
        self._left = [] if left_over is None else [Rows(**left_over)]

    def sample(self) -> PlacedRows:
        rows = self._in_order(self._model.check_rows(self._batches.first()))
        return on_device(_weighed(rows, self._batches.num_data))

    def _segments(self, number: int) -> Iterator[Segment]:
        devices = 1 if self.mesh is None else self.mesh.size * self._model.batch_partition.size
        for i, rows in enumerate(map(self._in_order, self._cut())):
            key = jax.random.fold_in(jax.random.fold_in(jax.random.key(self._seed), number), i)
            weighed = _weighed(rows, self._batches.num_data).padded(-(-rows.num_rows // devices) * devices)
            yield Segment(key[None], _on_devices(weighed.map(lambda a: a[None]), self.mesh))

    def _in_order(self, rows: Rows) -> Rows:
        partition = self._model.batch_partition
        order = None if partition.trivial else partition.order(rows.X, self._model.metric)
        return rows.map(np.asarray) if order is None else rows.map(lambda a: np.asarray(a)[order])

    def _cut(self) -> Iterator[Rows]:
        seen = 0
        for data in self._batches:
            piece, used = self._model.check_rows(data), 0
            take = min(piece.num_rows, self._batches.num_data - seen)
            seen += take
            while used < take:
                wanted = self.batch_size - sum(part.num_rows for part in self._left)
                which = slice(used, min(used + wanted, take))
                self._left.append(piece.map(lambda a, which=which: np.asarray(a[which])))
                used += self._left[-1].num_rows
                if sum(part.num_rows for part in self._left) == self.batch_size:
                    whole, self._left = _joined(self._left), []
                    yield whole
            if seen >= self._batches.num_data:
                return
        raise ValueError(
            f"num_data of Batches is {self._batches.num_data}, but its source gave {seen} row(s) in an epoch"
        )


def _mesh_for_batches() -> Mesh | None:
    """The devices over which batches from the host are spread; None for one device."""
    one = jax.device_count() == 1 or getattr(jax.config, "jax_default_device", None) is not None
    return None if one else device_mesh()


def _weighed(rows: Rows, num_data: int) -> Rows:
    return rows._replace(weight=np.full(rows.num_rows, num_data / rows.num_rows, rows.X.dtype))


def _joined(parts: list[Rows]) -> Rows:
    if len({part.noise_variance is None for part in parts}) > 1:
        raise ValueError("some batches have noise_variance and some have not; give it for all or for none")
    if len({part.noise_factor is None for part in parts}) > 1:
        raise ValueError("some batches have noise_factor and some have not; give it for all or for none")
    if len({None if part.input_variance is None else part.input_variance.columns for part in parts}) > 1:
        raise ValueError(
            "batches differ in which inputs are uncertain; give input_variance of the same columns for all"
        )
    return jax.tree.map(lambda *a: np.concatenate([np.asarray(x) for x in a]), *parts)


def batch_of(segment: Segment, resident: PlacedRows | None, mesh: Mesh | None) -> PlacedRows:
    """The rows of one step, from a segment without its axis of steps. Pure."""
    if resident is not None:
        assert isinstance(resident, OnDevice | OnDevices)
        assert segment.draw is not None
        return resident.take(segment.draw)
    assert segment.rows is not None
    if mesh is None:
        return OnDevice(segment.rows, blocks=None if segment.blocks is None else OnDevice(segment.blocks))
    return OnDevices(segment.rows, mesh, blocks=None if segment.blocks is None else OnDevices(segment.blocks, mesh))


def _ahead(segments: Iterator[Segment]) -> Iterator[Segment]:
    """``segments``, made by a thread of its own while the device works on earlier ones."""
    ready: queue.SimpleQueue = queue.SimpleQueue()
    room, stop = threading.Semaphore(_AHEAD), threading.Event()

    def work() -> None:
        while room.acquire() and not stop.is_set():
            try:
                ready.put((next(segments, None), None))
            except BaseException as error:
                ready.put((None, error))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        while True:
            segment, error = ready.get()
            if error is not None:
                raise error
            if segment is None:
                return
            room.release()
            yield segment
    finally:
        stop.set()
        room.release()
        thread.join(timeout=1)  # a slow source may be in the middle of reading


def choose(model, data, batch_size: int, seed: int, stream: bool | None):
    """``model`` with its blocks fixed, and a source of batches: rows stay on the device if there is room."""
    if isinstance(data, Batches):
        if model.batch_partition.neighbours:
            raise ValueError(
                "a bound with neighbours searches them among all rows, which Batches do not have at hand: pass a "
                "Dataset, whose arrays may be memory-mapped files, or use a bound such as tightgp.Block(64)"
            )
        model = model.grouped_by(model.check_rows(data.first()).X)
        return model, Iterated(data, model, batch_size, seed)
    rows = model.check_rows(data)
    model = model.grouped_by(rows.X)
    partition = model.batch_partition
    metric = None if partition.trivial else model.metric
    order = partition.order(rows.X, metric)
    if stream is None:
        stream = is_mapped(rows.X) or rows.X.nbytes + rows.y.nbytes > device_room()
    return model, (Streamed if stream else Resident)(rows, order, partition, metric, batch_size, seed)
