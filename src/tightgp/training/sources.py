"""Where minibatches come from: arrays on the device, arrays on the host, or an iterator.

Every epoch is cut into equal batches of at most ``batch_size`` rows; where they do not come out even, a batch ends
in a row of weight zero. Where a model has blocks of rows that must not be parted, all this holds of blocks instead. A
source gives its epochs in segments, each one compiled program long.
"""

import math
import queue
import threading
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from tightgp import layout
from tightgp.data import Batch, Batches

#: A segment of resident batches has at most so many steps: after each one an interruption is heard.
_SEGMENT_STEPS = 500
#: A segment of streamed batches holds about this many bytes.
_SEGMENT_BYTES = 16 << 20
#: Segments made ahead of the one in use.
_AHEAD = 2


def plan(num_data: int, batch_size: int, seed: int, epoch: int, size: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Which rows make up each batch of an epoch (steps, rows), shuffled by ``seed``, and their weights.

    Blocks of ``size`` consecutive rows stay together; the last may be short, and is filled up by rows of weight zero.
    Every batch stands for all blocks: a row's weight is how many there are for each one in its batch (maths 4.1d).
    """
    blocks, steps = _counts(num_data, batch_size, size)
    most = math.ceil(blocks / steps)
    order = np.random.default_rng((seed, epoch)).permutation(blocks)
    place = np.arange(steps * most).reshape(most, steps).T  # what is missing is then spread over the batches
    real = place < blocks
    weight = real * (blocks / real.sum(axis=1, keepdims=True))
    block = order[np.minimum(place, blocks - 1)]
    rows = (block[:, :, None] * size + np.arange(size)).reshape(steps, -1)
    return np.minimum(rows, num_data - 1), np.repeat(weight, size, axis=1) * (rows < num_data)


def _counts(num_data: int, batch_size: int, size: int) -> tuple[int, int]:
    """How many blocks there are, and how many batches they make."""
    blocks = math.ceil(num_data / size)
    return blocks, 1 if batch_size >= num_data else math.ceil(blocks / max(batch_size // size, 1))


def _keys(seed: int, epoch: int, steps: int):
    return jax.random.split(jax.random.fold_in(jax.random.key(seed), epoch), steps)


class _Shuffled:
    """Rows of which each epoch is a new order, so that nothing is carried from one to the next.

    ``order`` is one of the rows in which blocks of ``size`` are consecutive; None where they are so as they come.
    """

    def __init__(self, rows: Batch, batch_size: int, seed: int, order: np.ndarray | None = None, size: int = 1):
        self.rows, self.seed, self.order = rows, seed, order
        self.num_data = rows.X.shape[0]
        self.batch_size, self.size = min(batch_size, self.num_data), min(size, self.num_data)
        _, self.steps = _counts(self.num_data, self.batch_size, self.size)

    def plan(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Which rows make up each batch of an epoch, and their weights."""
        index, weight = plan(self.num_data, self.batch_size, self.seed, number, self.size)
        return index if self.order is None else self.order[index], weight

    def carried(self) -> None:
        """What the next epoch begins with."""

    def carry(self, carried: None) -> None:
        """Begin the next epoch with this."""


class Resident(_Shuffled):
    """Rows that are on the device: a program gathers its batches there, for all steps of an epoch or a part of it."""

    def epoch(self, number: int) -> Iterator[tuple]:
        """What a program scans over, and the resident rows."""
        index, weight = self.plan(number)
        keys = _keys(self.seed, number, self.steps)
        length = math.ceil(self.steps / math.ceil(self.steps / _SEGMENT_STEPS))
        for start in range(0, self.steps, length):
            part = slice(start, start + length)
            weights = jnp.asarray(weight[part], self.rows.X.dtype)
            yield (jnp.asarray(index[part], jnp.int32), weights, keys[part]), self.rows

    def sample(self) -> Batch:
        """Rows to look at where something goes wrong."""
        return self.rows


class Streamed(_Shuffled):
    """Rows that stay on the host, also in a memory-mapped file: batches are gathered there and sent ahead."""

    def epoch(self, number: int) -> Iterator[tuple]:
        """Segments of stacked batches."""
        return _ahead(self._segments(number))

    def sample(self) -> Batch:
        """Rows to look at where something goes wrong."""
        first = slice(0, 10 * self.batch_size)
        return _weighed(_part(self.rows, first if self.order is None else self.order[first]), self.num_data)

    def _segments(self, number):
        index, weight = self.plan(number)
        keys = _keys(self.seed, number, self.steps)
        row_bytes = sum(a.dtype.itemsize * a[0].size for a in (self.rows.X, self.rows.y))
        length = max(1, _SEGMENT_BYTES // (row_bytes * index.shape[1]))
        for start in range(0, self.steps, length):
            part = slice(start, start + length)
            here = _part(self.rows, index[part])._replace(weight=weight[part].astype(self.rows.X.dtype), key=keys[part])
            yield jax.tree.map(jnp.asarray, here), None


class Iterated:
    """Batches that an iterator gives, cut anew into equal ones; what is left over begins the next epoch.

    Blocks of ``size`` rows are made among the rows of a batch: the others are not known.
    """

    def __init__(self, batches: Batches, model, batch_size: int, seed: int, size: int = 1):
        self.batches, self.model, self.seed = batches, model, seed
        self.num_data = batches.num_data
        self.batch_size = min(max(batch_size // size, 1) * size, self.num_data)
        self.steps = self.num_data // self.batch_size
        self._left: list[Batch] = []

    def carried(self) -> dict | None:
        """The rows left over, with which the next epoch begins."""
        if not self._left:
            return None
        rows = _joined(self._left)
        return {name: value for name, value in rows._asdict().items() if name != "key"}

    def carry(self, carried: dict | None) -> None:
        """Begin the next epoch with these rows."""
        self._left = [] if carried is None else [Batch(**carried, key=jax.random.key(0))]

    def epoch(self, number: int) -> Iterator[tuple]:
        """Segments of one batch."""
        return _ahead(self._segments(number))

    def sample(self) -> Batch:
        """Rows to look at where something goes wrong: the first that come."""
        return _weighed(self._arranged(self.model.as_batch(self.batches.first())), self.num_data)

    def _segments(self, number):
        for i, rows in enumerate(map(self._arranged, self._cut())):
            weight = np.full(len(rows.X), self.num_data / len(rows.X), rows.X.dtype)
            key = jax.random.fold_in(jax.random.fold_in(jax.random.key(self.seed), number), i)
            batch = jax.tree.map(jnp.asarray, rows._replace(weight=weight, key=key))
            yield jax.tree.map(lambda a: a[None], batch), None

    def _arranged(self, rows: Batch) -> Batch:
        _, order, _ = self.model.arrange(rows.X)
        return rows if order is None else _part(rows, order)

    def _cut(self) -> Iterator[Batch]:
        seen = 0
        for data in self.batches:
            piece, used = self.model.as_batch(data), 0
            take = min(len(piece.X), self.num_data - seen)
            seen += take
            while used < take:
                wanted = self.batch_size - sum(len(b.X) for b in self._left)
                self._left.append(_part(piece, slice(used, min(used + wanted, take))))
                used += len(self._left[-1].X)
                if sum(len(b.X) for b in self._left) == self.batch_size:
                    whole, self._left = _joined(self._left), []
                    yield whole
            if seen >= self.num_data:
                return
        raise ValueError(f"num_data of Batches is {self.num_data}, but its source gave {seen} row(s) in an epoch")


def _weighed(rows: Batch, num_data: int) -> Batch:
    weight = np.full(len(rows.X), num_data / len(rows.X), rows.X.dtype)
    return jax.tree.map(jnp.asarray, rows._replace(weight=weight, key=jax.random.key(0)))


def _joined(parts: list[Batch]) -> Batch:
    if len({p.known is None for p in parts}) > 1:
        raise ValueError("some batches have noise_variance and some have not; give it for all or for none")

    if len({None if p.spread is None else p.spread.columns for p in parts}) > 1:
        raise ValueError(
            "batches differ in which inputs are uncertain; give input_variance of the same columns for all"
        )
    joined = jax.tree.map(lambda *a: np.concatenate([np.asarray(x) for x in a]), *(p._replace(key=None) for p in parts))
    return joined._replace(key=parts[0].key)


def _part(rows: Batch, which: slice | np.ndarray) -> Batch:
    return rows.each(lambda a: a[which])


def _ahead(segments: Iterator) -> Iterator:
    """``segments``, made by a thread of its own while the device works on earlier ones."""
    ready: queue.Queue = queue.Queue(_AHEAD)
    stop = threading.Event()

    def put(item) -> bool:
        while not stop.is_set():
            try:
                ready.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def work():
        try:
            for segment in segments:
                if not put((segment, None)):
                    return
            put((None, None))
        except BaseException as error:
            put((None, error))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        while True:
            segment, error = ready.get()
            if error is not None:
                raise error
            if segment is None:
                return
            yield segment
    finally:
        stop.set()
        thread.join(timeout=1)  # a slow source may be in the middle of reading


def choose(model, data, batch_size: int, seed: int, stream: bool | None):
    """``model`` with its blocks decided, and the source that fits ``data``: on the device if there is room there."""
    if isinstance(data, Batches):
        model, _, size = model.arrange(model.as_batch(data.first()).X)
        return model, Iterated(data, model, batch_size, seed, size)
    rows = model.as_batch(data)
    model, order, size = model.arrange(rows.X)
    if stream is None:
        stream = layout.is_mapped(rows.X) or rows.X.nbytes + rows.y.nbytes > layout.room()
    if stream:
        return model, Streamed(jax.tree.map(np.asarray, rows._replace(key=None)), batch_size, seed, order, size)
    if order is not None:
        rows = _part(rows, order)
    return model, Resident(jax.tree.map(jnp.asarray, rows), batch_size, seed, None, size)
