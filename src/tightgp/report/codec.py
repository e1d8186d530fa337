"""Dataclasses to JSON and back, strictly: what is read has the fields and types that were written, or is refused."""

import json
import math
import types
from dataclasses import fields, is_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints


def dumps(value) -> str:
    """A dataclass as JSON text. Numbers must be finite: what is unknown is None."""
    return json.dumps(plain(value), allow_nan=False, indent=1)


def parse(text: str, what: str) -> Any:
    """JSON text as plain values; ``what`` names its origin in messages."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{what} is no valid JSON: {error}") from None


def plain(value) -> Any:
    """Dataclasses as dictionaries and tuples as lists, all the way down."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def build(kind, value, where: str) -> Any:
    """``value``, as JSON gives it, as a ``kind``: a dataclass, str, int, float, bool, list, or a union with None."""
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        if value is None:
            return None
        (kind,) = (option for option in get_args(kind) if option is not type(None))
        return build(kind, value, where)
    if origin is tuple:
        item = get_args(kind)[0]
        return tuple(build(item, entry, f"{where}[{i}]") for i, entry in enumerate(_expect(value, list, where)))
    if is_dataclass(kind):
        return _record(kind, _expect(value, dict, where), where)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = _whole(value, where)
    _expect(value, kind, where)
    if kind is float and not math.isfinite(value):
        raise ValueError(f"{where} must be a finite number")
    return value


def _record(kind, value: dict, where: str):
    hints = get_type_hints(kind)
    for word, names in (("lacks", hints.keys() - value.keys()), ("has unknown", value.keys() - hints.keys())):
        if names:
            raise ValueError(f"{where} {word} {', '.join(map(repr, sorted(names)))}")
    parts = {name: build(hint, value[name], f"{where}.{name}") for name, hint in hints.items()}
    try:
        return kind(**parts)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _expect(value, kind: type, where: str):
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"{where} must be {_NAMES[kind]}, got {_NAMES.get(type(value), 'null')}")
    return value


def _whole(value: int, where: str) -> float:
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{where} must be a finite number") from None


def _refuse(word: str):
    raise ValueError(f"{word} is no number in JSON")


_NAMES = {
    dict: "an object",
    list: "an array",
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "a bool",
}
