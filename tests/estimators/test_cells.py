"""The columns of a table are read by their kinds."""

import datetime

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix

from tightgp.estimators.cells import as_table, columns_of, read

DAY = 86_400_000_000


@pytest.mark.parametrize(
    ("cells", "kind", "values", "levels"),
    [
        ([1, None, 2.5], "number", [1, np.nan, 2.5], []),
        ([True, False], "number", [1, 0], []),
        (["b", None, "a", "b"], "category", [0, -1, 1, 0], ["b", "a"]),
        ([datetime.date(1970, 1, 2), datetime.date(1970, 1, 4)], "time", [DAY, 3 * DAY], []),
        (pd.to_timedelta([1, 2], unit="D"), "duration", [DAY, 2 * DAY], []),
    ],
)
def test_cells_of_each_kind(cells, kind, values, levels):
    got = read("a", pd.Series(cells))
    assert (got.kind, list(got.levels)) == (kind, levels)
    np.testing.assert_array_equal(got.values, values)
    np.testing.assert_array_equal(got.missing, pd.isna(pd.Series(cells)))


def test_a_column_without_values_has_the_kind_of_training():
    assert read("a", pd.Series([None, None])).kind == read("a", np.full(2, np.nan)).kind == "empty"
    for kind, filler in (("number", np.nan), ("category", -1), ("time", -1)):
        got = read("a", pd.Series([None, None]), kind)
        assert got.kind == kind
        assert got.missing.all()
        np.testing.assert_array_equal(got.values, [filler, filler])


def test_columns_of_arrays_and_frames_have_names():
    X = np.arange(6.0).reshape(3, 2)
    assert list(columns_of(X)) == ["x0", "x1"]
    assert list(columns_of(pd.DataFrame(X, columns=["a", 7]))) == ["a", "7"]
    with pytest.raises(ValueError, match=r"X must be a 2-D array of numbers or a pandas DataFrame, got shape \(3,\)"):
        columns_of(X[:, 0])


def test_other_frames_and_sparse_matrices_become_what_pandas_and_numpy_have():
    pl, pa = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    columns = {"a": [1.0, 2.5, None], "city": ["Oslo", None, "Rome"]}
    for frame in (pl.DataFrame(columns), pa.table(columns)):
        found = as_table(frame)
        assert read("a", found["a"]).kind == "number"
        assert read("city", found["city"]).missing.tolist() == [False, True, False]
    X = np.eye(3)
    np.testing.assert_array_equal(as_table(csr_matrix(X)), X)
    with pytest.raises(ValueError, match="too large to be made dense"):
        as_table(csr_matrix((10**6, 10**6)))
    assert as_table(X) is X
