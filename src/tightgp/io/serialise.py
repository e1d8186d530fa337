"""Objects as JSON beside named arrays, and back again without running their code.

The key "$" of a JSON object says what it stands for. A class is named by its package and name, such as
``kernels.Matern32``; a user's own class as ``user.Name``.
"""

import dataclasses
import functools
import importlib
import inspect
import math
import re
import sys
import types
import typing
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tightgp.parameters import Parameter

#: The packages of tightgp whose classes a file may contain.
_PACKAGES = "kernels means priors parameters likelihoods numerics data bounds posterior models estimators"
#: Arrays of strings hold names and labels; larger ones than this many bytes are refused.
_MAX_STRING_BYTES = 1 << 28
#: The attribute in which scikit-learn stores the arguments of ``set_output``.
_SKLEARN_OUTPUT = "_sklearn_output_config"


class DecodeError(ValueError):
    """A description that is malformed or does not fit the classes it names."""


def is_component(value) -> bool:
    """Whether ``value`` is a module or an estimator."""
    return isinstance(value, eqx.Module) or _is_estimator(type(value))


def encode(value, tensors: dict[str, np.ndarray], path: str = "value") -> Any:
    """``value`` as JSON. Its arrays are added to ``tensors``.

    Args:
        value: plain values, arrays, modules, estimators, dataclasses, and containers of these.
        tensors: a dictionary that receives the numeric arrays, each named by its path.
        path: the place of ``value``, such as "value.kernel.variance", for names of arrays and error messages.
    """
    if isinstance(value, np.generic) and value.dtype.kind in "biuf" and value.dtype.itemsize <= 8:
        return {"$": "scalar", "dtype": value.dtype.str, "value": encode(value.item(), tensors, path)}
    if isinstance(value, float) and not math.isfinite(value):
        return {"$": "float", "value": str(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, np.ndarray | jax.Array):
        return _encode_array(value, tensors, path)
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise ValueError(f"{path} has a key that is not a string, which a model file cannot hold")
        return {"$": "dict", "items": {k: encode(v, tensors, f"{path}.{k}") for k, v in value.items()}}
    if isinstance(value, list) or type(value) is tuple:
        items = [encode(v, tensors, f"{path}[{i}]") for i, v in enumerate(value)]
        return items if isinstance(value, list) else {"$": "tuple", "items": items}
    names = sorted(vars(value)) if _is_estimator(type(value)) else _fields(type(value))
    if names is None:
        raise ValueError(
            f"{path} is a {type(value).__name__}, which a model file cannot hold; it holds numbers, strings, arrays "
            "and the classes of tightgp"
        )
    fields = {name: encode(getattr(value, name), tensors, f"{path}.{name}") for name in names}
    return {"$": "object", "class": _public_name(type(value)), "fields": fields}


def decode(description, tensors: dict[str, np.ndarray], classes: Iterable[type] = ()) -> Any:
    """The value that `encode` described, without calling constructors or importing modules.

    Args:
        description: the JSON from `encode`.
        tensors: the arrays from `encode`; each is removed when used.
        classes: classes that may appear in addition to those of tightgp.
    """
    known = _storable_classes()
    for cls in classes:
        if not isinstance(cls, type):
            raise ValueError(f"classes must hold classes, got {cls!r}")
        known = known | {_public_name(cls): cls}
    return _Decoder(tensors, known).decode(description, "value")


def _encode_array(array, tensors: dict[str, np.ndarray], path: str):
    if isinstance(array, jax.Array) and jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key):
        raise ValueError(f"{path} is a random key, which a model file cannot hold")
    host = np.asarray(array)
    if host.dtype.kind in "biuf":
        name = path
        while name in tensors:  # the key of a dictionary may look like a path
            name += "'"
        tensors[name] = np.array(host, dtype=host.dtype.newbyteorder("="), order="C")
        return {"$": "jax" if isinstance(array, jax.Array) else "numpy", "name": name}
    if host.dtype.kind in "UO":
        values = [encode(v, tensors, path) for v in host.reshape(-1).tolist()]
        if all(v is None or isinstance(v, str | int | float) for v in values):
            return {"$": "strings", "dtype": host.dtype.str, "shape": list(host.shape), "values": values}
    raise ValueError(f"{path} is an array of {host.dtype}, which a model file cannot hold; use numbers or strings")


def _is_estimator(cls: type) -> bool:
    """Whether this is a scikit-learn estimator. Without scikit-learn, whose import takes long, there is none yet."""
    base = sys.modules.get("sklearn.base")
    return base is not None and issubclass(cls, base.BaseEstimator)


def _fields(cls: type) -> list[str] | None:
    """The names of the fields of a class whose instances can be stored; None for any other class."""
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return list(cls._fields)
    return [field.name for field in dataclasses.fields(cls)] if dataclasses.is_dataclass(cls) else None


def _defaults(cls: type) -> dict[str, Any]:
    """The values of those fields of a dataclass that have a default."""
    fields = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
    return {one.name: one.default for one in fields if one.default is not dataclasses.MISSING}


def _public_name(cls: type) -> str:
    package, _, rest = cls.__module__.partition(".")
    return f"{rest.split('.')[0] if package == 'tightgp' else 'user'}.{cls.__qualname__}"


@functools.cache
def _storable_classes() -> dict[str, type]:
    """Every concrete class of tightgp that a file may contain, by its public name."""
    found: dict[str, type] = {}
    for package in _PACKAGES.split():  # estimators are imported when they are first needed: here, at the latest
        importlib.import_module(f"tightgp.{package}")
    for name, module in list(sys.modules.items()):
        if name.startswith("tightgp.") and name.split(".")[1] in _PACKAGES.split():
            for cls in vars(module).values():
                own = isinstance(cls, type) and cls.__module__ == name and not inspect.isabstract(cls)
                if own and (_is_estimator(cls) or _fields(cls) is not None):
                    found[_public_name(cls)] = cls
    return found


class _Decoder:
    def __init__(self, tensors: dict[str, np.ndarray], classes: dict[str, type]):
        self._tensors, self._classes = tensors, classes

    def decode(self, node, path: str) -> Any:
        try:
            match node:
                case None | bool() | int() | float() | str():
                    return node
                case list():
                    return [self.decode(item, f"{path}[{i}]") for i, item in enumerate(node)]
                case {"$": "tuple", "items": list(items)}:
                    return tuple(self.decode(items, path))
                case {"$": "dict", "items": dict(items)}:
                    return self._decode_values(items, path)
                case {"$": "object", "class": str(name), "fields": dict(fields)}:
                    return self._object(name, self._decode_values(fields, path), path)
                case {"$": "numpy", "name": str(name)}:
                    return self._tensors.pop(name)
                case {"$": "jax", "name": str(name)}:
                    return _to_jax(self._tensors.pop(name), path)
                case {"$": "strings", "dtype": str(dtype), "shape": list(shape), "values": list(values)}:
                    return _strings(dtype, shape, values)
                case {"$": "scalar", "dtype": str(dtype), "value": value}:
                    return _dtype(dtype, "biuf").type(self.decode(value, path))
                case {"$": "float", "value": "nan" | "inf" | "-inf" as value}:
                    return float(value)
        except DecodeError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
            raise DecodeError(f"{path} is malformed ({type(error).__name__}: {error})") from None
        raise DecodeError(f"{path} is malformed")

    def _decode_values(self, items: dict[str, Any], path: str) -> dict[str, Any]:
        return {key: self.decode(v, f"{path}.{key}") for key, v in items.items()}

    def _object(self, name: str, values: dict[str, Any], path: str) -> Any:
        if name not in self._classes:
            hint = "; pass classes=[...] with your own classes to load" if str(name).startswith("user.") else ""
            raise DecodeError(f"{path} is a {name}, which this tightgp does not know{hint}")
        cls: Any = self._classes[name]
        if _is_estimator(cls):
            _check_attributes(cls, values, path)
        else:
            values = _defaults(cls) | values  # a file may be older than a field
            _check_fields(cls, name, values, path)
        if issubclass(cls, tuple):
            return tuple.__new__(cls, [values[field] for field in cls._fields])
        out = object.__new__(cls)
        vars(out).update(values)
        return out


def _check_fields(cls: type, name: str, values: dict[str, Any], path: str) -> None:
    """Check that ``values`` are all fields of a class, each of its annotated type."""
    if set(values) != set(_fields(cls) or ()):
        raise DecodeError(f"{path} does not have the fields of a {name}")
    hints = {field: hint for base in reversed(cls.__mro__) for field, hint in inspect.get_annotations(base).items()}
    for field, value in values.items():
        if not conforms(value, hints[field]):
            raise DecodeError(f"{path}.{field} is a {type(value).__name__}, which does not fit there")


def _check_attributes(cls: type, values: dict[str, Any], path: str) -> None:
    """Check that ``values`` are all parameters of an estimator, and otherwise only fitted attributes ``name_``."""
    parameters = set(inspect.signature(cls).parameters)
    fitted = {key for key in values if key.isidentifier() and key.endswith("_") and not key.startswith("_")}
    wrong = (parameters - set(values)) | (set(values) - parameters - fitted - {_SKLEARN_OUTPUT})
    if wrong:
        names = ", ".join(sorted(wrong))
        raise DecodeError(f"{path} does not have the parameters of a {cls.__name__} ({names})")


def _to_jax(array: np.ndarray, path: str) -> jax.Array:
    out = jnp.asarray(array)
    if out.dtype != array.dtype:
        raise DecodeError(
            f"{path} is {array.dtype}, but JAX runs without 64-bit floats here; unset TIGHTGP_X64, or call "
            "jax.config.update('jax_enable_x64', True)"
        )
    return out


def _dtype(name: str, kinds: str) -> np.dtype:
    if not re.fullmatch(rf"[<>|=]?[{kinds}]\d{{0,9}}", name):
        raise DecodeError(f"{name!r} is not a dtype that can be used here")
    return np.dtype(name)


def _strings(dtype: str, shape: list[int], values: list) -> np.ndarray:
    if not all(v is None or isinstance(v, str | int | float) for v in values):
        raise DecodeError("an array of strings contains something else")
    if _dtype(dtype, "UO").itemsize * len(values) > _MAX_STRING_BYTES:
        raise DecodeError(f"an array of strings has more than {_MAX_STRING_BYTES} bytes")
    out = np.empty(len(values), dtype)
    out[:] = values
    return out.reshape(shape)


def conforms(value, hint) -> bool:
    """Whether ``value`` fits a type annotation: unions, tuples, arrays with their number of axes, classes.

    Where a network has arrays, a model has parameters.
    """
    if hint is Any or isinstance(hint, str | typing.TypeVar):
        return True
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return value in arguments
    if isinstance(value, Parameter) and isinstance(hint, type) and issubclass(hint, jax.Array):
        return True
    if origin in (typing.Union, types.UnionType):
        return any(conforms(value, option) for option in arguments)
    if origin is tuple:
        if isinstance(value, tuple) and len(arguments) == 2 and arguments[1] is Ellipsis:
            return all(conforms(v, arguments[0]) for v in value)
        return isinstance(value, tuple) and len(value) == len(arguments) and all(map(conforms, value, arguments))
    if hint in (int, float):
        return isinstance(value, int | hint) and not isinstance(value, bool)
    expected = hint if isinstance(hint, type) else type(None) if hint is None else origin
    return expected is None or isinstance(value, expected)
