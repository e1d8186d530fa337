"""Where rows lie for a pass over them: on a device, spread over several devices, or still in a file.

A pass takes them in chunks and adds up what each one says. It does not see where they are.
"""

import abc
import itertools
import math
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float

from tightgp import distributed
from tightgp.batching import rounded_up

#: The name of the axis of devices over which rows are spread.
_AXIS = "rows"
#: Data up to this size are copied to a CPU "device"; larger ones are left where they are.
_RESIDENT_BYTES = 2 << 30
#: At most one row for so many is filled in, so that another number of rows needs no other program.
_FILL_SHARE = 64


class Plan(NamedTuple):
    """How many rows a device takes at a time, and how many times."""

    chunk: int
    chunks: int


class Layout(eqx.Module):
    """Rows of arrays, some of them real; the others only fill up, and are ``valid`` zero."""

    @property
    @abc.abstractmethod
    def length(self) -> int:
        """Rows on each device, real or not."""

    @property
    @abc.abstractmethod
    def like(self) -> Any:
        """Arrays with as many columns as the rows have."""

    @abc.abstractmethod
    def total(self, body: Callable, init, plan: Plan, kept=None) -> tuple[Any, Any]:
        """``body(total, (rows, valid), kept)`` over all chunks from ``init`` on: the sum, and the second answers
        stacked by chunks, as ``kept`` is."""

    @abc.abstractmethod
    def cotangent(self, stacked) -> "Layout | None":
        """The derivative in this layout, from the one in its rows as `total` stacked it."""

    @abc.abstractmethod
    def real(self) -> np.ndarray:
        """Which rows are real."""

    @abc.abstractmethod
    def sample(self, index: np.ndarray) -> Any:
        """Some rows."""


class Resident(Layout):
    """Rows on one device."""

    rows: Any
    valid: Float[Array, " n"]

    @property
    def length(self) -> int:
        return self.valid.shape[0]

    @property
    def like(self):
        return self.rows

    def total(self, body, init, plan, kept=None):
        short = plan.chunk * plan.chunks - self.length

        def cut(a):
            if short:
                a = jnp.concatenate([a, jnp.broadcast_to(a[-1:], (short, *a.shape[1:]))])
            return a.reshape(plan.chunks, plan.chunk, *a.shape[1:])

        valid = jnp.concatenate([self.valid, jnp.zeros(short, self.valid.dtype)]).reshape(plan.chunks, plan.chunk)
        return _scan(lambda t, xs: body(t, xs[:2], xs[2]), init, (jax.tree.map(cut, self.rows), valid, kept), plan)

    def cotangent(self, stacked):
        rows = jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:])[: self.length], stacked)
        return Resident(rows, jnp.zeros_like(self.valid))

    def real(self):
        return np.flatnonzero(np.asarray(self.valid))

    def sample(self, index):
        return jax.tree.map(lambda a: a[index], self.rows)


class Sharded(Layout):
    """Rows in equal parts over the devices of a mesh, here and on other machines; only sums travel."""

    rows: Any
    valid: Float[Array, " n"]
    mesh: Mesh = eqx.field(static=True)

    @property
    def length(self) -> int:
        return self.valid.shape[0] // self.mesh.size

    @property
    def like(self):
        return self.rows

    def total(self, body, init, plan, kept=None):
        def here(rows, valid, kept):
            zero = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), init)
            total, stacked = Resident(rows, valid).total(body, zero, plan, kept)
            return jax.lax.psum(total, _AXIS), stacked

        spread, one = PartitionSpec(_AXIS), PartitionSpec()
        total, stacked = jax.shard_map(
            here, mesh=self.mesh, in_specs=(spread, spread, spread), out_specs=(one, spread), check_vma=False
        )(self.rows, self.valid, kept)
        return jax.tree.map(jnp.add, init, total), stacked

    def cotangent(self, stacked):
        def join(a):
            parts = a.reshape(self.mesh.size, -1, *a.shape[2:])[:, : self.length]
            return parts.reshape(-1, *a.shape[2:])

        return Sharded(jax.tree.map(join, stacked), jnp.zeros_like(self.valid), self.mesh)

    def real(self):
        return np.flatnonzero(_here(self.valid))

    def sample(self, index):
        return jax.tree.map(lambda a: jnp.asarray(_here(a)[index]), self.rows)


def _here(array: jax.Array) -> np.ndarray:
    """The part of an array that this process has."""
    shards = sorted(array.addressable_shards, key=lambda shard: shard.index[0].start or 0)
    return np.concatenate([np.asarray(shard.data) for shard in shards])


class HostRows:
    """Arrays on the host, such as memory-mapped files, and the order in which to read their rows."""

    def __init__(self, rows: Any, order: np.ndarray | None):
        self.leaves, self.structure = jax.tree.flatten(rows)
        self.order = order
        self.count = len(self.leaves[0])
        self.number = next(_NUMBERS)
        _HOSTS[self.number] = self

    def read(self, number, chunk: int) -> list[np.ndarray]:
        """A chunk of the rows, and which of them are real."""
        first = int(number) * chunk
        here = np.arange(first, min(first + chunk, self.count))
        short = chunk - len(here)
        which: Any = slice(first, first + len(here)) if self.order is None else self.order[here]
        dtype = self.leaves[0].dtype
        valid = np.concatenate([np.ones(len(here), dtype), np.zeros(short, dtype)])
        parts = [np.asarray(a[which]) if len(here) else np.asarray(a[:1])[:0] for a in self.leaves]
        fill = [np.broadcast_to(np.asarray(a[:1]), (short, *a.shape[1:])) for a in self.leaves]
        return [*(np.concatenate(pair) for pair in zip(parts, fill, strict=True)), valid]


#: Rows that programs read by number: a program outlives its data, and must not keep them.
_HOSTS: weakref.WeakValueDictionary[int, HostRows] = weakref.WeakValueDictionary()
_NUMBERS = itertools.count()


def _read(host, number, chunk: int) -> list[np.ndarray]:
    return _HOSTS[int(host)].read(number, chunk)


class Mapped(Layout):
    """Rows that stay on the host, where each chunk is read when its turn comes: memory does not grow with them."""

    number: Array
    shapes: tuple[tuple[tuple[int, ...], str], ...] = eqx.field(static=True)
    structure: Any = eqx.field(static=True)

    @classmethod
    def of(cls, rows: Any, order: np.ndarray | None) -> "Mapped":
        """``rows``, to be read in this order."""
        host = HostRows(rows, order)
        shapes = tuple((a.shape, a.dtype.str) for a in host.leaves)
        made = cls(jnp.asarray(host.number), shapes, host.structure)
        object.__setattr__(made, "kept", host)  # for as long as this object lives, and in no program
        return made

    @property
    def host(self) -> HostRows:
        """The rows themselves."""
        return _HOSTS[int(self.number)]

    @property
    def length(self) -> int:
        return self.shapes[0][0][0]

    @property
    def like(self):
        return self._tree([jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in self.shapes])

    def total(self, body, init, plan, kept=None):
        shapes = [jax.ShapeDtypeStruct((plan.chunk, *shape[1:]), dtype) for shape, dtype in self.shapes]
        shapes.append(jax.ShapeDtypeStruct((plan.chunk,), self.shapes[0][1]))
        host = self.number

        def step(total, xs):
            number, kept = xs
            *leaves, valid = jax.pure_callback(partial(_read, chunk=plan.chunk), shapes, host, number)
            return body(total, (self._tree(leaves), valid), kept)

        return _scan(step, init, (jnp.arange(plan.chunks), kept), plan)

    def cotangent(self, stacked):
        return None  # there is nothing that could be varied

    def real(self):
        return np.arange(self.length)

    def sample(self, index):
        host = self.host
        index = index if host.order is None else host.order[index]
        return self._tree([jnp.asarray(a[index]) for a in host.leaves])

    def _tree(self, leaves: list) -> Any:
        return jax.tree.unflatten(self.structure, leaves)


def laid(rows: Any) -> Layout:
    """``rows``, which may lie somewhere already."""
    return rows if isinstance(rows, Layout) else of(rows)


def of(rows: Any) -> Layout:
    """Rows as they are, on one device."""
    first = jax.tree.leaves(rows)[0]
    return Resident(jax.tree.map(jnp.asarray, rows), jnp.ones(first.shape[0], first.dtype))


def lay(rows: Any, order: np.ndarray | None, size: int = 1) -> Layout:
    """Rows in an order, where there is room for them: on the device, on all devices if there are several, or left where
    they are if they are a file or too many, to be read by one device. Blocks of ``size`` rows stay together.

    On devices they are filled up to one of few lengths, because JAX compiles for each.
    """
    leaves = jax.tree.leaves(rows)
    if any(isinstance(a, jax.core.Tracer) for a in leaves):
        return of(in_order(rows, order))
    count, devices, nbytes = leaves[0].shape[0], jax.local_device_count(), sum(a.nbytes for a in leaves)
    if distributed.several():
        distributed.agreed(lambda: _check_room(nbytes))
        return spread(in_order(rows, order), max(distributed.counts(count)), size)
    one = devices == 1 or getattr(jax.config, "jax_default_device", None) is not None
    if any(map(is_mapped, leaves)) or nbytes > room() * (1 if one else devices):
        return Mapped.of(jax.tree.map(np.asarray, rows), order)
    if not one:
        return spread(in_order(rows, order), count, size)
    return Resident(*jax.tree.map(jnp.asarray, filled(in_order(rows, order), rounded_up(count, _FILL_SHARE))))


def _check_room(nbytes: int) -> None:
    most = room() * jax.local_device_count()
    if nbytes > most:
        raise ValueError(
            f"process {jax.process_index()} has {nbytes / 1e9:.3g} GB of rows, and its devices room for "
            f"{most / 1e9:.3g} GB; use more processes, each with fewer rows"
        )


def in_order(rows: Any, order: np.ndarray | None) -> Any:
    """``rows`` in another order."""
    return rows if order is None else jax.tree.map(lambda a: a[order], rows)


def spread(rows: Any, most: int, size: int = 1) -> Sharded:
    """This process's rows over its devices, beside those of the others; no process has more than ``most``."""
    mesh = jax.make_mesh((jax.device_count(),), (_AXIS,), axis_types=(AxisType.Auto,))
    local = jax.local_device_count()
    each = -(-rounded_up(math.ceil(most / local), _FILL_SHARE) // size) * size
    sharding = NamedSharding(mesh, PartitionSpec(_AXIS))
    put = partial(jax.make_array_from_process_local_data, sharding)
    rows, valid = jax.tree.map(put, filled(jax.tree.map(np.asarray, rows), each * local))
    return Sharded(rows, valid, mesh)


def filled(rows: Any, length: int) -> tuple[Any, Any]:
    """``rows`` and repetitions of the last one, ``length`` in all, and which of them are real."""
    first = jax.tree.leaves(rows)[0]
    xp: Any = np if all(isinstance(a, np.ndarray) for a in jax.tree.leaves(rows)) else jnp
    short = length - first.shape[0]

    def fill(a):
        return xp.concatenate([a, xp.broadcast_to(a[-1:], (short, *a.shape[1:]))]) if short else a

    valid = (xp.arange(length) < first.shape[0]).astype(first.dtype)
    return jax.tree.map(fill, rows), valid


def is_mapped(array) -> bool:
    """Whether an array is a part of a memory-mapped file."""
    while array is not None:
        if isinstance(array, np.memmap):
            return True
        array = getattr(array, "base", None)
    return False


def room() -> int:
    """How many bytes of rows a device takes."""
    stats = jax.local_devices()[0].memory_stats() or {}
    return int(0.4 * stats["bytes_limit"]) if "bytes_limit" in stats else _RESIDENT_BYTES


def _scan(body, init, xs, plan: Plan):
    """A scan, or a plain call where there is only one chunk."""
    if plan.chunks > 1:
        return jax.lax.scan(body, init, xs)
    total, stacked = body(init, jax.tree.map(lambda a: a[0], xs))
    return total, jax.tree.map(lambda a: a[None], stacked)
