"""Where rows are during a computation: on one device, spread over several, or in host memory or a file.

`PlacedRows.fold` is the one sum over rows: it goes through them in chunks wherever they are, and its derivative goes
through them again chunk by chunk, so that memory does not grow with their number.
"""

import abc
import itertools
import math
import weakref
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from tightgp import distributed
from tightgp.data.neighbours import Reordered, conditioners, groups
from tightgp.data.partition import SINGLE, Partition
from tightgp.data.rows import Rows
from tightgp.numerics.chunks import PAD_FRACTION, Chunks, cut, rounded_up, scan

#: The mesh axis over which rows are spread.
_AXIS = "rows"
#: Data up to this size are copied to a CPU "device"; larger ones stay where they are.
_CPU_BYTES = 2 << 30


class PlacedRows(eqx.Module):
    """Rows, wherever they are."""

    @property
    def spread_over(self) -> Mesh | None:
        """The devices over which the rows are spread; None where they are not."""
        return None

    @property
    def blocks(self) -> "PlacedRows | None":
        """In a minibatch whose rows do not pay for themselves: blocks that were drawn to pay, each with the rows it is
        given first. None elsewhere."""
        return None

    @property
    @abc.abstractmethod
    def num_rows(self) -> int:
        """Rows on each device, padding included."""

    @property
    @abc.abstractmethod
    def like(self) -> Rows:
        """Arrays, or their shapes, with as many columns as the rows have."""

    @abc.abstractmethod
    def fold(self, function: Callable, *arguments: Any, chunks: Chunks, save: tuple[str, ...] = ()) -> Any:
        """``Σ function(chunk, number, *arguments)`` over all chunks of rows; ``number`` counts the chunks.

        Differentiable in the rows and the arguments. The derivative computes each chunk again, except for values that
        `jax.ad_checkpoint.checkpoint_name` gave one of the names in ``save``.
        """

    @abc.abstractmethod
    def real(self) -> np.ndarray:
        """Numbers of the rows of this process that are not padding."""

    @abc.abstractmethod
    def sample(self, which: np.ndarray) -> Rows:
        """Some rows of this process, on one device."""

    def changed(self, function: Callable[[Rows], Rows]) -> "PlacedRows":
        """These rows after ``function``, which treats each row by itself."""
        raise ValueError("these rows stay on the host, where they cannot be changed: use data that fit on the device")


class Draw(NamedTuple):
    """Rows of a minibatch by number, and their weights; blocks by number, and theirs, where some are drawn to pay."""

    index: Any
    weight: Any
    blocks: Any = None
    block_weight: Any = None


class OnDevice(PlacedRows):
    """Rows on one device. Of data with neighbours, ``groups`` (b, t) are the rows of each block and what it is given,
    from which minibatches draw; a minibatch has the blocks drawn as ``blocks``."""

    rows: Rows
    groups: Any = None
    blocks: "OnDevice | None" = None

    @property
    def num_rows(self) -> int:
        return self.rows.num_rows

    @property
    def like(self) -> Rows:
        return self.rows

    def fold(self, function, *arguments, chunks, save=()):
        return _sum_of_chunks(self.rows, 0, function, arguments, chunks, save)

    def changed(self, function):
        return OnDevice(function(self.rows))

    def real(self):
        return np.flatnonzero(np.asarray(self.rows.weight))

    def sample(self, which):
        return self.rows.map(lambda a: a[which])

    def take(self, draw: Draw) -> "OnDevice":
        """A minibatch."""
        rows, blocks = _drawn(self.rows, self.groups, draw)
        return OnDevice(rows, blocks=None if blocks is None else OnDevice(blocks))


class OnDevices(PlacedRows):
    """Rows in equal parts over the devices of a mesh, of this and other machines; only sums travel.

    ``groups`` and ``blocks`` are those of `OnDevice`, also in equal parts.
    """

    rows: Rows
    mesh: Mesh = eqx.field(static=True)
    groups: Any = None
    blocks: "OnDevices | None" = None

    @property
    def spread_over(self) -> Mesh:
        return self.mesh

    @property
    def num_rows(self) -> int:
        return self.rows.num_rows // self.mesh.size

    @property
    def like(self) -> Rows:
        return self.rows

    def fold(self, function, *arguments, chunks, save=()):
        def own(rows, *arguments):
            first = jax.lax.axis_index(_AXIS) * chunks.number
            return jax.lax.psum(_sum_of_chunks(rows, first, function, arguments, chunks, save), _AXIS)

        everywhere = (PartitionSpec(),) * len(arguments)
        return self._on_each(own, (PartitionSpec(_AXIS), *everywhere), PartitionSpec())(self.rows, *arguments)

    def changed(self, function):
        return OnDevices(function(self.rows), self.mesh)

    def real(self):
        return np.flatnonzero(_own_part(self.rows.weight))

    def sample(self, which):
        return self.rows.map(lambda a: jnp.asarray(_own_part(a)[which]))

    def take(self, draw: Draw) -> "OnDevices":
        """A minibatch, of rows and blocks by their numbers on their own device; the draw is spread like the rows."""
        over = PartitionSpec(_AXIS)
        rows, blocks = self._on_each(_drawn, (over, over, over), over)(self.rows, self.groups, draw)
        return OnDevices(rows, self.mesh, blocks=None if blocks is None else OnDevices(blocks, self.mesh))

    def _on_each(self, function, in_specs, out_specs):
        return jax.shard_map(function, mesh=self.mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False)


def _drawn(rows: Rows, groups, draw: Draw) -> tuple[Rows, Rows | None]:
    """The rows of a minibatch, and those of the blocks drawn for it."""
    rows = rows._replace(conditioners=None)
    batch = rows.map(lambda a: a[draw.index])._replace(weight=draw.weight)
    return batch, None if draw.blocks is None else rows_of_blocks(rows, groups[draw.blocks], draw.block_weight)


def rows_of_blocks(rows: Rows, groups, weight) -> Rows:
    """The rows (b·t) of blocks (b, t), -1 for none, with the weight of their block (b,)."""
    taken = rows.map(lambda a: a[groups.clip(0).reshape(-1)])
    return taken._replace(weight=((groups >= 0) * weight[:, None]).reshape(-1))


def _own_part(array: jax.Array) -> np.ndarray:
    """The part of an array that this process has."""
    shards = sorted(array.addressable_shards, key=lambda shard: shard.index[0].start or 0)
    return np.concatenate([np.asarray(shard.data) for shard in shards])


class HostRows:
    """Arrays on the host, such as memory-mapped files, the order in which to read their rows, and, in that order, what
    blocks are given."""

    def __init__(self, rows: Rows, order: np.ndarray | None, conditioners: np.ndarray | None = None):
        self.rows, self.order, self.conditioners = rows, order, conditioners
        self.number = next(_NUMBERS)
        _HOSTS[self.number] = self

    def read(self, number, size: int) -> Rows:
        """Chunk ``number`` of ``size`` rows, padded."""
        start = int(number) * size
        end = min(start + size, self.rows.num_rows)
        which: Any = slice(start, end) if self.order is None else self.order[start:end]
        if start >= self.rows.num_rows:
            nothing = self.rows.map(lambda a: np.asarray(a[:1])).padded(size)
            return self._with_conditioners(nothing._replace(weight=np.zeros_like(nothing.weight)), start)
        return self._with_conditioners(self.rows.map(lambda a: np.asarray(a[which])).padded(size), start)

    def _with_conditioners(self, chunk: Rows, start: int) -> Rows:
        if self.conditioners is None:
            return chunk
        found = np.full((chunk.num_rows, self.conditioners.shape[1]), -1, np.int32)
        given = self.conditioners[start : start + len(found)]
        found[: len(given)] = given
        return chunk._replace(conditioners=found)


#: Host rows that compiled programs read by number: a program outlives its data, and must not keep them alive.
_HOSTS: weakref.WeakValueDictionary[int, HostRows] = weakref.WeakValueDictionary()
_NUMBERS = itertools.count()


def _read(host, number, size: int) -> list[np.ndarray]:
    return jax.tree.leaves(_HOSTS[int(host)].read(number, size))


class OnHost(PlacedRows):
    """Rows that stay on the host; each chunk is read when its turn comes, so memory does not grow with their number."""

    number: jax.Array
    shapes: tuple[tuple[tuple[int, ...], str], ...] = eqx.field(static=True)
    structure: Any = eqx.field(static=True)

    @classmethod
    def of(cls, rows: Rows, order: np.ndarray | None, conditioners: np.ndarray | None = None) -> "OnHost":
        """``rows``, to be read in this order, in which they have these conditioners."""
        host = HostRows(rows, order, conditioners)
        leaves, structure = jax.tree.flatten(rows._replace(conditioners=conditioners))
        placed = cls(jnp.asarray(host.number), tuple((a.shape, a.dtype.str) for a in leaves), structure)
        object.__setattr__(placed, "_host", host)  # keeps the arrays while this object lives; not part of the tree
        return placed

    @property
    def host(self) -> HostRows:
        """The arrays themselves."""
        return _HOSTS[int(self.number)]

    @property
    def num_rows(self) -> int:
        return self.shapes[0][0][0]

    @property
    def like(self) -> Rows:
        return self._tree([jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in self.shapes])

    def fold(self, function, *arguments, chunks, save=()):
        shapes = [jax.ShapeDtypeStruct((chunks.size, *shape[1:]), dtype) for shape, dtype in self.shapes]

        def read_and_add(number, host, *arguments):
            chunk = self._tree(jax.pure_callback(partial(_read, size=chunks.size), shapes, host, number))
            return function(chunk, number, *arguments)

        body = _checkpointed(read_and_add, chunks, save)
        zero = _zeros(function, self._tree(shapes), arguments)

        def step(total, number):
            return _add(total, body(number, self.number, *arguments)), None

        return scan(step, zero, jnp.arange(chunks.number), chunks)[0]

    def real(self):
        return np.arange(self.num_rows)

    def sample(self, which):
        host = self.host
        which = which if host.order is None else host.order[which]
        return host.rows.map(lambda a: jnp.asarray(a[which]))

    def _tree(self, leaves: list) -> Rows:
        return jax.tree.unflatten(self.structure, leaves)


def _sum_of_chunks(rows: Rows, first, function, arguments, chunks: Chunks, save):
    rows = rows.padded(chunks.size * chunks.number)
    if chunks.number == 1:
        return function(rows, first, *arguments)
    body = _checkpointed(function, chunks, save)
    chunked = cut(rows, chunks)
    zero = _zeros(function, rows.map(lambda a: jax.ShapeDtypeStruct((chunks.size, *a.shape[1:]), a.dtype)), arguments)

    def step(total, numbered):
        number, chunk = numbered
        return _add(total, body(chunk, number, *arguments)), None

    return scan(step, zero, (first + jnp.arange(chunks.number), chunked), chunks)[0]


def _checkpointed(function, chunks: Chunks, save):
    if chunks.number == 1:
        return function
    return jax.checkpoint(function, prevent_cse=False, policy=jax.checkpoint_policies.save_only_these_names(*save))


def _zeros(function, chunk, arguments):
    shapes = jax.eval_shape(function, chunk, 0, *arguments)
    return jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), shapes)


def _add(total, part):
    return jax.tree.map(jnp.add, total, part)


def on_device(rows: Rows) -> OnDevice:
    """Rows as they are, on one device."""
    return OnDevice(rows.map(jnp.asarray))


def place(rows: Rows, order: np.ndarray | None = None, partition: Partition = SINGLE, metric: Any = None) -> PlacedRows:
    """Put rows, in this order, where there is room for them, and find the neighbours that blocks are given.

    That is the device; all devices where there are several; or the host, where rows are memory-mapped or too many. On
    devices they are padded to one of few lengths. Each device has whole blocks of the partition.
    """
    leaves = jax.tree.leaves(rows)
    if any(isinstance(a, jax.core.Tracer) for a in leaves):
        if partition.neighbours:
            raise ValueError(
                "neighbours are searched among known inputs: use model.prepare(data) outside of JAX traces"
            )
        return on_device(rows if order is None else rows.take(order))
    devices, nbytes = jax.local_device_count(), sum(a.nbytes for a in leaves)
    if distributed.is_multiprocess():
        distributed.all_succeed(lambda: _check_room(nbytes))
        most = max(distributed.row_counts(rows.num_rows))
        return _spread(rows if order is None else rows.take(order), most, partition, metric)
    one = devices == 1 or getattr(jax.config, "jax_default_device", None) is not None
    if any(map(is_mapped, leaves)) or nbytes > device_room() * (1 if one else devices):
        rows = rows.map(np.asarray)
        X = rows.X if order is None else Reordered(rows.X, order)
        return OnHost.of(rows, order, _conditioners(X, rows.num_rows, partition, metric))
    rows = rows if order is None else rows.take(order)
    return on_one_device(rows, partition, metric) if one else _spread(rows, rows.num_rows, partition, metric)


def on_one_device(rows: Rows, partition: Partition = SINGLE, metric: Any = None) -> OnDevice:
    """Put rows, in their order, on one device, padded to one of few lengths; with neighbours, to whole blocks."""
    length = rounded_up(rows.num_rows, PAD_FRACTION)
    if partition.neighbours:
        length += -length % partition.size
    rows = rows.map(np.asarray)
    return on_device(_with_conditioners(rows, _conditioners(rows.X, length, partition, metric)).padded(length))


def with_groups(placed: OnDevice | OnDevices, partition: Partition, counts: list[int]) -> Any:
    """Rows from which minibatches can draw blocks; ``counts`` are each device's rows without padding."""
    parts = np.split(np.asarray(placed.rows.conditioners), len(counts))
    tables = [groups(part, partition, count) for part, count in zip(parts, counts, strict=True)]
    most = max(map(len, tables))
    table = np.concatenate([np.pad(one, ((0, most - len(one)), (0, 0)), constant_values=-1) for one in tables])
    mesh = placed.spread_over
    return replace(placed, groups=jnp.asarray(table) if mesh is None else to_devices(table, mesh))


def _conditioners(X, length: int, partition: Partition, metric) -> np.ndarray | None:
    """The rows that blocks are given, of rows in their order that will be padded to ``length``; None for none."""
    return conditioners(X, np.asarray(metric), partition, length) if partition.neighbours else None


def _with_conditioners(rows: Rows, found: np.ndarray | None) -> Rows:
    """Whole blocks of rows, with what each block is given."""
    return rows if found is None else rows.padded(len(found))._replace(conditioners=found)


def _check_room(nbytes: int) -> None:
    most = device_room() * jax.local_device_count()
    if nbytes > most:
        raise ValueError(
            f"process {jax.process_index()} has {nbytes / 1e9:.3g} GB of rows, and its devices room for "
            f"{most / 1e9:.3g} GB; use more processes, each with fewer rows"
        )


def _spread(rows: Rows, most: int, partition: Partition, metric) -> OnDevices:
    """This process's rows over its devices, beside those of the others; no process has more than ``most``."""
    local, multiple = jax.local_device_count(), partition.size
    each = rounded_up(math.ceil(most / local), PAD_FRACTION)
    if partition.neighbours or multiple < each:
        each += -each % multiple
    rows = rows.map(np.asarray)
    if partition.neighbours:  # a device's blocks are given rows of the same device
        parts = [rows.X[i * each : (i + 1) * each] for i in range(local)]
        found = [conditioners(part, np.asarray(metric), partition, each) for part in parts if len(part)]
        rows = _with_conditioners(rows, np.concatenate(found))
    mesh = device_mesh()
    return OnDevices(to_devices(rows.padded(each * local), mesh), mesh)


def device_mesh() -> Mesh:
    """All devices in a row."""
    return jax.make_mesh((jax.device_count(),), (_AXIS,), axis_types=(AxisType.Auto,))


def to_devices(tree: Any, mesh: Mesh, axis: int = 0) -> Any:
    """Arrays of this process cut along ``axis`` into one part for each device."""
    sharding = NamedSharding(mesh, PartitionSpec(*[None] * axis, _AXIS))
    return jax.tree.map(partial(jax.make_array_from_process_local_data, sharding), tree)


def replicated(tree: Any, mesh: Mesh | None) -> Any:
    """Arrays where a program over these devices leaves its results, so that its second call needs no other program."""
    if mesh is None:
        return jax.tree.map(jnp.asarray, tree)
    sharding = NamedSharding(mesh, PartitionSpec())
    return jax.tree.map(lambda a: jax.make_array_from_process_local_data(sharding, np.asarray(a)), tree)


def is_mapped(array) -> bool:
    """Whether an array is part of a memory-mapped file."""
    while array is not None:
        if isinstance(array, np.memmap):
            return True
        array = getattr(array, "base", None)
    return False


def device_room() -> int:
    """How many bytes of rows a device should hold."""
    stats = jax.local_devices()[0].memory_stats() or {}
    return int(0.4 * stats["bytes_limit"]) if "bytes_limit" in stats else _CPU_BYTES
