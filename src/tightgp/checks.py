"""Checks of what a user passes. Each failure is a ValueError: the argument, what was wrong, what would be right.

Inside a JAX trace shapes and dtypes are checked; values are not known yet and pass.
"""

import jax
import numpy as np

_PART_BYTES = 64 << 20


def floats(name: str, value, dtype=None) -> np.ndarray | jax.Array:
    """``value`` as a floating-point array, untouched where it is one already.

    Lists and whole numbers have no precision of their own and take ``dtype``. Where JAX runs without 64-bit
    floats, float64 becomes float32, as everything does there.
    """
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
    """Refuse NaN and infinities, naming the first rows that have one."""
    if isinstance(array, jax.core.Tracer):
        return
    rows = _rows_where(lambda part: ~np.isfinite(part), array)
    if len(rows):
        raise ValueError(
            f"{name} has NaN or infinite values in {len(rows)} row(s): {listed(rows)}; remove or impute these rows"
        )


def not_infinite(name: str, array) -> None:
    """Refuse infinities; NaN stands for what is missing."""
    if isinstance(array, jax.core.Tracer):
        return
    rows = _rows_where(np.isinf, array)
    if len(rows):
        raise ValueError(f"{name} has infinite values in {len(rows)} row(s): {listed(rows)}; remove these rows")


def _rows_where(bad, array) -> np.ndarray:
    """The rows of ``array`` with an entry that is ``bad``, looked for a part at a time: it may be a large file."""
    array = np.atleast_1d(np.asarray(array))
    step = max(1, _PART_BYTES // max(1, array[:1].nbytes))
    starts = range(0, len(array), step)
    found = [i + np.unique(np.nonzero(bad(array[i : i + step]))[0]) for i in starts]
    return np.concatenate([np.zeros(0, int), *found])


def listed(values) -> str:
    """The first few of some numbers, for a message."""
    return ", ".join(map(str, values[:5])) + (", ..." if len(values) > 5 else "")


def matrix(name: str, value, columns: int | None = None, dtype=None) -> np.ndarray | jax.Array:
    """A finite, non-empty two-dimensional array, with ``columns`` columns where that is given."""
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
    """Lower triangular matrices (..., m, m) without a zero on the diagonal."""
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
    """Refuse two arrays of different precision: silent promotion hides a factor of two in time and memory."""
    if array.dtype != other.dtype:
        raise ValueError(
            f"{name} has dtype {array.dtype} but {other_name} has {other.dtype}; "
            f"use one of them for both, e.g. {name}.astype('{other.dtype}')"
        )


def positive(name: str, value, floor: float = 0.0) -> np.ndarray | jax.Array:
    """Finite numbers above ``floor``."""
    array = floats(name, value)
    if isinstance(array, jax.core.Tracer):
        return array
    host = np.asarray(array)
    if host.size == 0 or not np.all(np.isfinite(host)) or np.any(host <= floor):
        above = "positive" if floor == 0 else f"above its floor {floor:g}"
        shown = np.array2string(host, threshold=8) if host.ndim else str(host.item())
        raise ValueError(f"{name} must be {above} and finite, got {shown}")
    return array


def count(name: str, value, most: int | None = None, most_is: str = "") -> int:
    """A whole number from 1 to ``most``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")
    if most is not None and value > most:
        raise ValueError(f"{name}={value} is more than {most_is} ({most}); use at most {most}")
    return int(value)


def choice(name: str, value, allowed) -> None:
    """One of a few words."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}; got {value!r}")


def number(name: str, value) -> float:
    """One finite number."""
    array = np.asarray(value)
    if array.ndim or array.dtype.kind not in "iuf" or not np.isfinite(array):
        raise ValueError(f"{name} must be one finite number, got {value!r}")
    return float(array)


def seed(name: str, value) -> int:
    """A whole number from 0 on."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
        raise ValueError(f"{name} must be a whole number of at least 0, got {value!r}")
    return int(value)


def instance(name: str, value, kind: type, where: str) -> None:
    """One of the project's own things."""
    if not isinstance(value, kind):
        raise ValueError(f"{name} must be one of {where}, got {type(value).__name__}")


def not_negative(name: str, value, dtype=None) -> np.ndarray | jax.Array:
    """Finite numbers from zero on."""
    array = floats(name, value, dtype)
    finite(name, array)
    if not isinstance(array, jax.core.Tracer) and np.any(np.asarray(array) < 0):
        raise ValueError(f"{name} must not be negative, got {float(np.min(np.asarray(array)))}")
    return array
