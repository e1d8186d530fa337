"""From the JSON of a request to the JSON of its answer; knows nothing of HTTP."""

import json
import threading
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tightgp import checks
from tightgp.app.cli.prediction import predict_batch
from tightgp.app.report.table import Table
from tightgp.app.tables import TableError
from tightgp.app.tables.errors import quoted
from tightgp.app.tables.readings import apply_readings, from_plain
from tightgp.app.tables.records import frame_of_json

#: How errors call the rows of a request.
ROWS = "rows"


class TooMuchError(ValueError):
    """A request of more rows than are answered at a time."""


@dataclass
class Answering:
    """Answers requests, one at a time: predictions use all cores, and memory is then that of one request.

    Attributes:
        estimator: a fitted estimator that `tightgp fit` may have written.
        max_rows: the most rows of one request.
    """

    estimator: Any
    max_rows: int

    def __post_init__(self):
        self._readings = from_plain(getattr(self.estimator, "readings_", {}))
        self._turn = threading.Lock()

    def warm_up(self) -> None:
        """Predict one row of missing cells, so that the first request need not wait for compilation."""
        names = [column.name for column in self.estimator.encoding_.columns]
        self._predict(pd.DataFrame([dict.fromkeys(names)]), 0.95)

    def answer(self, body: bytes) -> dict[str, Any]:
        """The answer to ``{"rows": [{column: value, ...}, ...], "level": 0.95}``; ValueError says what is wrong."""
        request = _parsed(body)
        rows, level = request.get("rows"), request.get("level", 0.95)
        if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
            raise ValueError('rows must be a list of objects, such as {"rows": [{"area": 52.5, "city": "Oslo"}]}')
        if len(rows) > self.max_rows:
            raise TooMuchError(f"rows has {len(rows)} rows; at most {self.max_rows} are answered at a time")
        if unknown := sorted(set(request) - {"rows", "level"}):
            raise ValueError(f"{unknown[0]!r} is not part of a request; it has rows and level")
        if not 0 < checks.number("level", level) < 1:
            raise ValueError(f"level must be a probability between 0 and 1, got {level}")
        frame = frame_of_json(ROWS, "\n".join(map(json.dumps, self._cells(rows))).encode())
        predictions, notes = self._predict(frame, level)
        return {"predictions": _plain(predictions), "notes": notes}

    def schema(self) -> dict[str, Any]:
        """What rows must have, and what predictions have."""
        columns = []
        for column in self.estimator.encoding_.columns:
            one: dict[str, Any] = {"name": column.name, "kind": column.kind, "missing_in_training": column.missing > 0}
            if column.kind == "category":
                one["levels"] = list(column.levels)
            columns.append(one)
        if self.estimator.task == "classification":
            outputs = ["prediction", *(f"p({label})" for label in self.estimator.classes_.tolist())]
        else:
            outputs = ["mean", "sd", "lower95", "upper95"]
        return {"columns": columns, "outputs": outputs, "max_rows": self.max_rows}

    def _cells(self, rows: list[dict]) -> list[dict[str, Any]]:
        """The cells of the model's columns, one value each; a table of all names in a request could take gigabytes.

        Each row must name every column: what it leaves out may be a slip.
        """
        names = [column.name for column in self.estimator.encoding_.columns]
        for name in names:
            for number, row in enumerate(rows, 1):
                if name not in row:
                    raise TableError(ROWS, f"row {number} lacks the column {name!r}; give null if it is missing")
                if isinstance(row[name], list | dict):
                    raise TableError(ROWS, f"column {quoted(name)} holds lists or objects; use one value for each name")
        return [{name: row[name] for name in names} for row in rows]

    def _predict(self, frame: pd.DataFrame, level: float) -> tuple[pd.DataFrame, list[str]]:
        with self._turn, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", UserWarning)
            inputs = Table.of(ROWS, apply_readings(frame, self._readings, ROWS), self.estimator.encoding_.columns).frame
            predictions = predict_batch(self.estimator, inputs, level)
        return predictions, list(dict.fromkeys(str(one.message) for one in caught))


def _parsed(body: bytes) -> dict[str, Any]:
    def refuse(word):
        raise ValueError(f"the request has {word}, which is not JSON; give null for a missing cell")

    try:
        request = json.loads(body, parse_constant=refuse)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"the request is not JSON: {error}") from None
    if not isinstance(request, dict):
        raise ValueError('the request must be an object, such as {"rows": [{"area": 52.5, "city": "Oslo"}]}')
    return request


def _plain(predictions: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as JSON holds them; what is not finite is null."""
    columns = {}
    for name in predictions:
        values = predictions[name].to_numpy()
        listed = values.tolist()
        if values.dtype.kind == "f":
            listed = [value if np.isfinite(value) else None for value in listed]
        columns[str(name)] = listed
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
