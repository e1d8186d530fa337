"""Checks of arguments. A failed check raises ValueError with the argument, what is wrong and what would be right.

Inside a JAX trace only shapes and dtypes are checked, since values are not known.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from tightgp.forking import check_not_forked

#: Large arrays are searched in parts of this size, since they may be files.
_PART_BYTES = 64 << 20


def floats(name: str, value, dtype=None) -> np.ndarray | jax.Array:
    """``value`` as a floating-point array; a floating-point array is returned as it is.

    Lists and integers take ``dtype``. Where JAX runs without 64-bit floats, float64 becomes float32.
    """
    check_not_forked()
    if isinstance(value, jax.Array) and jax.numpy.issubdtype(value.dtype, np.floating):
        array: np.ndarray | jax.Array = value
    else:
        try:
            array = np.asarray(value)
            if array.dtype.kind not in "biufO":
                raise TypeError
            if array.dtype.kind != "f" or not hasattr(value, "dtype"):
                array = array.astype(dtype or np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"{name} must be an array of numbers, got {type(value).__name__}") from None
        if array.dtype == np.float64:
            array = array.astype(jax.dtypes.canonicalize_dtype(np.float64), copy=False)
    if array.dtype not in (np.float32, np.float64):
        raise ValueError(f"{name} has dtype {array.dtype}; use float64 or float32")
    return array


def finite(name: str, array) -> None:
    """Refuse NaN and infinities, naming the first rows with one."""
    _refuse_rows(name, array, lambda part: ~np.isfinite(part), "NaN or infinite", "remove or impute")


def not_infinite(name: str, array) -> None:
    """Refuse infinities; NaN stands for a missing value."""
    _refuse_rows(name, array, np.isinf, "infinite", "remove")


def squarable(name: str, array) -> None:
    """Refuse numbers whose squares, summed over all rows, overflow."""
    if isinstance(array, jax.core.Tracer):
        return
    host = np.asarray(array)
    limit = float(np.sqrt(np.finfo(host.dtype).max)) / 1e4
    largest = float(np.nanmax(np.abs(host), initial=0.0))
    if largest > limit:
        raise ValueError(
            f"{name} has values up to {largest:.3g}, whose squares overflow {host.dtype}; "
            f"divide {name} by a constant, so that it stays below {limit:.1g}"
        )


def _refuse_rows(name: str, array, bad: Callable, description: str, remedy: str) -> None:
    if isinstance(array, jax.core.Tracer):
        return
    array = np.atleast_1d(np.asarray(array))
    step = max(1, _PART_BYTES // max(1, array[:1].nbytes))
    parts = [i + np.unique(np.nonzero(bad(array[i : i + step]))[0]) for i in range(0, len(array), step)]
    rows = np.concatenate([np.zeros(0, int), *parts])
    if len(rows):
        where = f"in {len(rows)} row(s): {listed(rows)}"
        raise ValueError(f"{name} has {description} values {where}; {remedy} these rows")


def listed(values) -> str:
    """The first five values as text, for a message."""
    return ", ".join(map(str, values[:5])) + (", ..." if len(values) > 5 else "")


def matrix(name: str, value, columns: int | None = None, dtype=None) -> np.ndarray | jax.Array:
    """A finite, non-empty matrix, with ``columns`` columns if given."""
    array = floats(name, value, dtype)
    if array.ndim != 2:
        hint = f"; for one input column pass {name}[:, None]" if array.ndim == 1 else ""
        raise ValueError(f"{name} must have shape (rows, columns), got {array.shape}{hint}")
    if array.shape[0] == 0 or array.shape[1] == 0:
        raise ValueError(f"{name} is empty (shape {array.shape}); it needs at least one row and one column")
    if columns is not None and array.shape[1] != columns:
        raise ValueError(f"{name} has {array.shape[1]} column(s) where {columns} are expected")
    finite(name, array)
    return array


def triangular(name: str, array) -> None:
    """Check that ``array`` holds lower triangular matrices (..., m, m) without a zero on the diagonal."""
    if array.ndim < 2 or array.shape[-1] != array.shape[-2]:
        raise ValueError(f"{name} must hold square matrices (..., m, m), got shape {array.shape}")
    if isinstance(array, jax.core.Tracer):
        return
    host = np.asarray(array)
    if np.any(np.triu(host, 1)):
        raise ValueError(f"{name} must be lower triangular; pass the Cholesky factor of a covariance")
    if not np.all(np.diagonal(host, axis1=-2, axis2=-1)):
        raise ValueError(f"{name} has a zero on its diagonal, so the covariance is singular; use small numbers instead")


def same_dtype(name: str, array, other_name: str, other) -> None:
    """Refuse two arrays of different precision: promotion would silently double time and memory."""
    if array.dtype != other.dtype:
        raise ValueError(
            f"{name} has dtype {array.dtype} but {other_name} has {other.dtype}; "
            f"use one of them for both, e.g. {name}.astype('{other.dtype}')"
        )


def positive(name: str, value, floor: float = 0.0) -> np.ndarray | jax.Array:
    """An array of finite numbers above ``floor``."""
    array = floats(name, value)
    if isinstance(array, jax.core.Tracer):
        return array
    host = np.asarray(array)
    if host.size == 0 or not np.all(np.isfinite(host)) or np.any(host <= floor):
        above = "positive" if floor == 0 else f"above its floor {floor:g}"
        shown = np.array2string(host, threshold=8) if host.ndim else str(host.item())
        raise ValueError(f"{name} must be {above} and finite, got {shown}")
    return array


def count(name: str, value, most: int | None = None, most_is: str = "", *, least: int = 1, hint: str = "") -> int:
    """A whole number from ``least`` to ``most``; ``most_is`` says in messages what ``most`` is."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}" + (hint and f"; {hint}"))
    if most is not None and value > most:
        raise ValueError(f"{name}={value} is more than {most_is} ({most}); use at most {most}")
    return int(value)


def choice(name: str, value, allowed) -> Any:
    """One of the ``allowed`` values."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}; got {value!r}")
    return value


def number(name: str, value) -> float:
    """One finite number."""
    array = np.asarray(value)
    if array.ndim or array.dtype.kind not in "iuf" or not np.isfinite(array):
        raise ValueError(f"{name} must be one finite number, got {value!r}")
    return float(array)


def share(name: str, value) -> None:
    """Check that ``value`` is a number of at least 0 and below 1."""
    if not 0 <= number(name, value) < 1:
        raise ValueError(f"{name} must be at least 0 and below 1, got {value}")


def seed(name: str, value) -> int:
    """A whole number of at least 0."""
    return count(name, value, least=0)


def instance(name: str, value, kind: type, where: str) -> None:
    """Check that ``value`` is a ``kind``; ``where`` is the module that has them, for messages."""
    if not isinstance(value, kind):
        raise ValueError(f"{name} must be one of {where}, got {type(value).__name__}")


def not_negative(name: str, value, dtype=None) -> np.ndarray | jax.Array:
    """An array of finite numbers of at least 0."""
    array = floats(name, value, dtype)
    finite(name, array)
    if not isinstance(array, jax.core.Tracer) and np.any(np.asarray(array) < 0):
        raise ValueError(f"{name} must not be negative, got {float(np.min(np.asarray(array)))}")
    return array
