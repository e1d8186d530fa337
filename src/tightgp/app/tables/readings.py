"""Readings of the columns of a file: applied to other rows of the same kind, and stored in a model file."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from tightgp.app.tables.errors import TableError, quoted
from tightgp.app.tables.rows import row_number
from tightgp.estimators.reading.texts import Reading, without

#: Stands for every column.
ANY = "*"


def apply_readings(frame: pd.DataFrame, readings: Mapping[str, Reading], path) -> pd.DataFrame:
    """A frame whose columns are read as in training; a cell that cannot be is an error that names it."""
    words = readings[ANY].arguments if ANY in readings else ()
    frame = with_columns(frame, {name: without(frame[name], words) for name in frame.columns}) if words else frame
    changed = {}
    for name, reading in readings.items():
        if name in frame:
            changed[name], lost = reading.apply(frame[name])
            if lost.any():
                position = int(np.argmax(lost))
                what = {"amount": "a number", "date": f"a date as in {reading.arguments}"}.get(reading.kind, "a level")
                cell, row = quoted(str(frame[name].iloc[position])), row_number(frame, position)
                remedy = "correct the cell, or leave it empty if it is missing"
                raise TableError(path, f"row {row}, column {quoted(name)}: {cell} is not {what}; {remedy}")
    return with_columns(frame, changed)


def with_columns(frame: pd.DataFrame, changed: Mapping[str, pd.Series]) -> pd.DataFrame:
    """The frame with other columns in place of some of its own; it keeps what is known of its rows."""
    columns = {name: changed.get(name, frame[name]) for name in frame.columns}
    made = pd.DataFrame(columns, index=frame.index)
    made.attrs = dict(frame.attrs)
    return made


def to_plain(readings: Mapping[str, Reading]) -> dict[str, list[str]]:
    """Readings as plain values, which a model file can hold."""
    return {name: [reading.kind, *reading.arguments] for name, reading in readings.items()}


def from_plain(stored: Mapping[str, list[str]]) -> dict[str, Reading]:
    """What `to_plain` made of readings."""
    return {name: Reading(kind, tuple(arguments)) for name, (kind, *arguments) in stored.items()}
