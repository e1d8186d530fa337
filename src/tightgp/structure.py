"""How an object hangs together, as JSON beside named arrays; and the same object again, without running its code.

Classes stand under their public place, such as ``kernels.Matern32``. Those of a user's own stand as ``user.Name``.
"""

import dataclasses
import functools
import importlib
import inspect
import math
import re
import types
import typing
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from sklearn.base import BaseEstimator

#: The modules whose classes a file may hold.
_HOMES = (
    "kernels",
    "means",
    "priors",
    "parameters",
    "likelihoods",
    "conditionals",
    "variational",
    "latents",
    "statistics",
    "spread",
    "refinement",
    "posterior",
    "deep_posterior",
    "evidence",
    "models",
    "encoding",
    "estimators",
)
#: The key under which a JSON object says what it is.
_KIND = "$"
#: Arrays of texts are names and labels; those of more bytes than this are none of ours.
_MOST_TEXT = 1 << 28
#: Where scikit-learn keeps what ``set_output`` was asked for.
_OUTPUT = "_sklearn_output_config"


class StructureError(ValueError):
    """A description that does not fit the classes it names."""


def is_part(value) -> bool:
    """Whether ``value`` is a module or an estimator."""
    return isinstance(value, eqx.Module | BaseEstimator)


def encode(value, tensors: dict[str, np.ndarray], where: str = "") -> Any:
    """``value`` as JSON; its arrays go to ``tensors``, named by where they are."""
    if value is None or isinstance(value, bool | str):
        return str(value) if isinstance(value, np.str_) else value
    if isinstance(value, np.generic) and value.dtype.kind in "biuf" and value.dtype.itemsize <= 8:
        return {_KIND: "scalar", "dtype": value.dtype.str, "value": encode(value.item(), tensors, where)}
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {_KIND: "float", "value": repr(value)}
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, np.ndarray | jax.Array):
        return _encode_array(value, tensors, where)
    if isinstance(value, list):
        return [encode(v, tensors, f"{where}[{i}]") for i, v in enumerate(value)]
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise ValueError(f"{where or 'value'} has a key that is no text, which a model file cannot hold")
        return {_KIND: "dict", "items": {k: encode(v, tensors, _at(where, k)) for k, v in value.items()}}
    if type(value) is tuple:
        return {_KIND: "tuple", "items": [encode(v, tensors, f"{where}[{i}]") for i, v in enumerate(value)]}
    names = _fields(type(value), value)
    if names is None:
        raise ValueError(
            f"{where or 'value'} is a {type(value).__name__}, which a model file cannot hold: it holds numbers, texts, "
            "arrays and tightgp's own parts"
        )
    parts = {name: encode(getattr(value, name), tensors, _at(where, name)) for name in names}
    return {_KIND: "object", "class": _public_name(type(value)), "fields": parts}


def decode(node, tensors: dict[str, np.ndarray], classes: Iterable[type] = ()) -> Any:
    """What `encode` was given. ``classes`` are the user's own that may appear."""
    known = dict(_registry())
    for cls in classes:
        if not isinstance(cls, type):
            raise ValueError(f"classes must hold classes, got {cls!r}")
        known[_public_name(cls)] = cls
    return _decode(node, tensors, known, "")


def _at(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _fields(cls: type, value=None) -> list[str] | None:
    """The names of what makes up an object of a class, or None where that is not known."""
    if issubclass(cls, BaseEstimator):
        return sorted(vars(value)) if value is not None else []
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return list(cls._fields)
    if dataclasses.is_dataclass(cls):
        return [field.name for field in dataclasses.fields(cls)]
    return None


def _public_name(cls: type) -> str:
    package, _, rest = cls.__module__.partition(".")
    return f"{rest.split('.')[0] if package == 'tightgp' else 'user'}.{cls.__qualname__}"


@functools.cache
def _registry() -> dict[str, type]:
    """Every class of the project that a file may hold, by its public name."""
    found: dict[str, type] = {}
    for home in _HOMES:
        module = importlib.import_module(f"tightgp.{home}")
        inside = [m for m in vars(module).values() if isinstance(m, types.ModuleType)]
        for place in [module, *(m for m in inside if m.__name__.startswith(f"tightgp.{home}."))]:
            for cls in vars(place).values():
                concrete = isinstance(cls, type) and not inspect.isabstract(cls)
                if concrete and cls.__module__.startswith(f"tightgp.{home}") and _fields(cls) is not None:
                    found[_public_name(cls)] = cls
    return found


def _encode_array(array, tensors: dict[str, np.ndarray], where: str):
    name = where or "value"
    if isinstance(array, jax.Array) and jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key):
        raise ValueError(f"{name} is a random key, which a model file cannot hold")
    host = np.asarray(array)
    if host.dtype.kind in "biuf":
        while name in tensors:  # a key may look like the path of another
            name += "'"
        tensors[name] = np.array(host, dtype=host.dtype.newbyteorder("="), order="C")
        return {_KIND: "array", "name": name, "of": "jax" if isinstance(array, jax.Array) else "numpy"}
    if host.dtype.kind in "UO":
        values = [encode(v, tensors, name) for v in host.reshape(-1).tolist()]
        if not all(v is None or isinstance(v, str | int | float) for v in values):
            raise ValueError(f"{name} is an array of objects that are neither texts nor numbers")
        return {_KIND: "texts", "dtype": host.dtype.str, "shape": list(host.shape), "values": values}
    raise ValueError(f"{name} is an array of {host.dtype}, which a model file cannot hold")


def _decode(node, tensors, known: dict[str, type], where: str) -> Any:
    if node is None or isinstance(node, bool | int | float | str):
        return node
    kind = "list" if isinstance(node, list) else node.get(_KIND)
    try:
        if kind == "list":
            return [_decode(v, tensors, known, f"{where}[{i}]") for i, v in enumerate(node)]
        if kind == "object":
            return _object(node, tensors, known, where)
        if kind == "tuple":
            return tuple(_decode(v, tensors, known, f"{where}[{i}]") for i, v in enumerate(node["items"]))
        if kind == "dict":
            return {k: _decode(v, tensors, known, _at(where, k)) for k, v in node["items"].items()}
        if kind == "array":
            return _array(tensors.pop(node["name"]), node["of"], where)  # each is used once
        if kind == "texts":
            return _texts(node)
        if kind == "scalar":
            return _dtype(node["dtype"], "biuf").type(_decode(node["value"], tensors, known, where))
        if kind == "float":
            return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[node["value"]]
    except StructureError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise StructureError(f"{where or 'the value'} is malformed ({type(error).__name__}: {error})") from None
    raise StructureError(f"{where or 'the value'} is of no known kind ({kind!r})")


def _dtype(name: str, kinds: str) -> np.dtype:
    if not isinstance(name, str) or not re.fullmatch(rf"[<>|=]?[{kinds}]\d{{0,9}}", name):
        raise StructureError(f"dtype {name!r} has no place here")
    return np.dtype(name)


def _array(array: np.ndarray, of: str, where: str):
    if of not in ("numpy", "jax"):
        raise StructureError(f"{where or 'an array'} is of no known kind ({of!r})")
    if of == "numpy":
        return array
    out = jnp.asarray(array)
    if out.dtype != array.dtype:
        raise StructureError(
            f"{where or 'an array'} is {array.dtype}, but JAX runs without 64-bit floats here; "
            "unset TIGHTGP_X64, or call jax.config.update('jax_enable_x64', True)"
        )
    return out


def _texts(node) -> np.ndarray:
    values = node["values"]
    if not all(v is None or isinstance(v, str | int | float) for v in values):
        raise StructureError("an array of texts holds something else")
    dtype = _dtype(node["dtype"], "UO")
    if dtype.itemsize * len(values) > _MOST_TEXT:
        raise StructureError("an array of texts claims more room than texts need")
    out = np.empty(len(values), dtype)
    out[:] = values
    return out.reshape([int(n) for n in node["shape"]])


def _object(node, tensors, known: dict[str, type], where: str):
    name, fields = node["class"], node["fields"]
    if name not in known:
        raise StructureError(
            f"{where or 'the value'} is a {name}, which this tightgp does not know"
            + ("; pass classes=[...] with your own classes to load" if str(name).startswith("user.") else "")
        )
    cls: Any = known[name]
    values = {key: _decode(v, tensors, known, _at(where, key)) for key, v in fields.items()}
    if issubclass(cls, BaseEstimator):
        return _estimator(cls, values, where)
    values = {**_defaults(cls), **values}  # what older files lack, the class has
    if set(values) != set(_fields(cls) or ()):
        raise StructureError(f"{where or 'the value'} does not have the fields of a {name}")
    for key, hint in _hints(cls).items():
        if key in values and not conforms(values[key], hint):
            raise StructureError(f"{_at(where, key)} is a {type(values[key]).__name__}, which does not fit there")
    if issubclass(cls, tuple):
        return tuple.__new__(cls, [values[key] for key in cls._fields])
    out = object.__new__(cls)
    for key, value in values.items():
        object.__setattr__(out, key, value)
    return out


def _estimator(cls: Any, values: dict[str, Any], where: str):
    wanted = set(inspect.signature(cls).parameters)
    known = {*wanted, _OUTPUT}
    strange = [
        key
        for key in values
        if key not in known and not (key.isidentifier() and key.endswith("_") and not key.startswith("_"))
    ]
    lacking = [key for key in wanted - set(values) if not hasattr(cls, key)]  # what older files lack, the class has
    if strange or lacking:
        names = ", ".join(sorted(strange + lacking))
        raise StructureError(f"{where or 'the value'} does not have the parameters of a {cls.__name__} ({names})")
    out = cls.__new__(cls)
    vars(out).update(values)
    return out


@functools.cache
def _defaults(cls: type) -> dict[str, Any]:
    if issubclass(cls, tuple):
        return dict(getattr(cls, "_field_defaults", {}))
    if not dataclasses.is_dataclass(cls):
        return {}
    return {one.name: one.default for one in dataclasses.fields(cls) if one.default is not dataclasses.MISSING}


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return {name: hint for base in reversed(cls.__mro__) for name, hint in inspect.get_annotations(base).items()}


def conforms(value, hint) -> bool:
    """Whether ``value`` fits a field's annotation: unions, tuples, arrays with their number of axes, classes."""
    if hint is Any or isinstance(hint, str | typing.TypeVar):
        return True
    if hint is None:
        return value is None
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(conforms(value, option) for option in arguments)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return all(conforms(v, arguments[0]) for v in value)
        return len(value) == len(arguments) and all(map(conforms, value, arguments))
    if hint is float:
        return isinstance(value, float | int) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint) if isinstance(hint, type) else origin is None or isinstance(value, origin)
