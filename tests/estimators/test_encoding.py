"""Tables of mixed columns as standardised features."""

import dataclasses
import datetime
import decimal
import json

import hypothesis.extra.numpy as hnp
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tightgp.estimators.encoding import Column, Encoding

bounded = settings(max_examples=60, derandomize=True, deadline=None)


def features(frame, *names):
    """The training features of these names, by name."""
    encoding, matrix = Encoding.fit_transform(frame)
    return {name: matrix[:, encoding.feature_names.index(name)] for name in names or encoding.feature_names}


def unscaled(encoding, matrix):
    """Features before they were standardised."""
    shift = np.concatenate([column.shift for column in encoding.columns])
    scale = np.concatenate([column.scale for column in encoding.columns])
    return matrix * scale + shift


@st.composite
def frames(draw):
    """Tables of every kind of column, each with at least one cell."""
    n = draw(st.integers(1, 12))

    def column(kind, present):
        first = draw(present)
        rest = draw(st.lists(st.one_of(st.none(), present), min_size=n - 1, max_size=n - 1))
        return pd.Series([first, *rest], dtype=kind)

    made = {
        "number": lambda: column("float64", st.floats(-1e6, 1e6)),
        "whole": lambda: column("Int64", st.integers(-100, 100)),
        "truth": lambda: column(object, st.booleans()),
        "text": lambda: column(object, st.text("abc", max_size=2)),
        "mixed": lambda: column(object, st.sampled_from(["a", 1, 1.0, True, False, 2.5])),
        "level": lambda: column("category", st.sampled_from([1, 2, 3])),
        "when": lambda: column("M8[us]", st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2100, 1, 1))),
        "day": lambda: column(object, st.dates(datetime.date(1900, 1, 1), datetime.date(2100, 1, 1))),
        "wait": lambda: column("m8[us]", st.timedeltas(datetime.timedelta(-9), datetime.timedelta(9))),
    }
    names = draw(st.lists(st.sampled_from(sorted(made)), min_size=1, unique=True))
    return pd.DataFrame({name: made[name]() for name in names})


@bounded
@given(frames())
def test_training_features_are_standardised(frame):
    matrix = Encoding.fit(frame).transform(frame)
    assert matrix.dtype == np.float64
    np.testing.assert_allclose(matrix.mean(axis=0), 0, atol=1e-6)
    deviation = matrix.std(axis=0)
    assert np.all(np.isclose(deviation, 1, atol=1e-6) | np.isclose(deviation, 0, atol=1e-6))


@bounded
@given(frames())
def test_fit_transform_is_fit_and_transform(frame):
    encoding, matrix = Encoding.fit_transform(frame)
    assert encoding == Encoding.fit(frame)
    np.testing.assert_array_equal(matrix, encoding.transform(frame))


@bounded
@given(frames(), st.data())
def test_other_rows_and_the_order_of_columns_do_not_matter(frame, data):
    encoding = Encoding.fit(frame)
    expected = encoding.transform(frame)
    rows = data.draw(st.lists(st.integers(0, len(frame) - 1)))
    np.testing.assert_array_equal(encoding.transform(frame.iloc[rows]), expected[rows])
    shuffled = frame[data.draw(st.permutations(list(frame.columns)))].assign(another="column")
    np.testing.assert_array_equal(encoding.transform(shuffled), expected)


@bounded
@given(hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2), elements=st.floats(-1e99, 1e99)), st.data())
def test_an_array_and_a_frame_of_floats_give_the_same_matrix(X, data):
    gone = data.draw(hnp.arrays(bool, X.shape))
    X[gone & (np.arange(len(X)) > 0)[:, None]] = np.nan
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    encoding = Encoding.fit(X)
    assert encoding == Encoding.fit(frame)
    assert np.all(np.isfinite(encoding.transform(X)))
    np.testing.assert_array_equal(encoding.transform(X), encoding.transform(frame))


@bounded
@given(frames())
def test_encoding_can_be_stored_as_json(frame):
    encoding = Encoding.fit(frame)

    def tuples(value):
        return tuple(map(tuples, value)) if isinstance(value, list) else value

    stored = json.loads(json.dumps(dataclasses.asdict(encoding), allow_nan=False))
    columns = tuple(Column(**{k: tuples(v) for k, v in column.items()}) for column in stored["columns"])
    again = Encoding(columns)
    assert again == encoding
    assert len(again.feature_names) == len(again.feature_columns) == again.transform(frame).shape[1]
    np.testing.assert_array_equal(again.transform(frame), encoding.transform(frame))


def test_numbers_of_every_dtype_are_the_same_numbers():
    values = [0, 1, 1, 0, 1]
    dtypes = ["int8", "uint64", "float32", "bool", "Int64", "Float32", "boolean", object, "int64[pyarrow]"]
    expected = Encoding.fit(np.array(values, float)[:, None]).transform(np.array(values, float)[:, None])
    for dtype in dtypes:
        frame = pd.DataFrame({"a": pd.Series(values, dtype=dtype)})
        np.testing.assert_array_equal(Encoding.fit(frame).transform(frame), expected)
    for frame in (
        pd.DataFrame({"a": [decimal.Decimal(v) for v in values]}),
        pd.DataFrame({"a": pd.arrays.SparseArray(values, dtype="int64")}),
    ):
        np.testing.assert_array_equal(Encoding.fit(frame).transform(frame), expected)


@pytest.mark.parametrize("hole", [None, np.nan, pd.NA])
@pytest.mark.parametrize("dtype", [object, "Int64", "int64[pyarrow]"])
def test_missing_numbers_get_the_training_median_and_a_feature(dtype, hole):
    frame = pd.DataFrame({"age": pd.Series([1, 2, 9, hole if dtype is object else None], dtype=dtype)})
    encoding = Encoding.fit(frame)
    assert encoding.feature_names == ("age", "age is missing")
    assert encoding.feature_columns == (0, 0)
    matrix = encoding.transform(frame)
    np.testing.assert_array_equal(matrix[3, 0], matrix[1, 0])
    assert matrix[3, 1] > 0
    np.testing.assert_array_equal(matrix[:3, 1], matrix[0, 1])
    assert encoding.describe() == ["age: 1 missing cell filled with the median 2, and a 0/1 feature says where"]


def test_missing_cells_only_in_new_rows_get_the_median_with_one_warning():
    encoding = Encoding.fit(np.array([[1.0, 0.0], [2.0, 0.0], [9.0, 3.0]]))
    with pytest.warns(UserWarning, match=r"missing cells in 'x0' \(2\), 'x1' \(1\).*median") as caught:
        matrix = encoding.transform(np.array([[np.nan, np.nan], [np.nan, 0.0]]))
    assert len(caught) == 1
    np.testing.assert_array_equal(matrix, encoding.transform(np.array([[2.0, 0.0], [2.0, 0.0]])))


def test_empty_column_is_refused_in_training_only():
    frame = pd.DataFrame({"a": [1.0, 2.0, np.nan], "b": ["u", "v", None], "c": pd.to_datetime(["2020", "2021", None])})
    encoding = Encoding.fit(frame)
    empty = pd.DataFrame({name: [None, None] for name in frame})
    np.testing.assert_array_equal(encoding.transform(empty), encoding.transform(frame)[[2, 2]])
    for name in frame:
        with pytest.raises(ValueError, match=f"column '{name}' has no values at all.*drop it"):
            Encoding.fit(frame.assign(**{name: [None] * 3}))


def test_constant_columns_are_centred_and_not_scaled():
    X = np.full((5, 2), 0.1)
    X[:, 1] = np.array([0.3, 0.1 + 0.2, 0.3, 0.1 + 0.2, 0.3])
    encoding = Encoding.fit(X)
    np.testing.assert_allclose(encoding.transform(X), 0, atol=1e-15)
    np.testing.assert_allclose(encoding.transform(np.array([[2.1, 2.3]])), [[2.0, 2.0]])
    levels = Encoding.fit(pd.DataFrame({"city": ["Oslo", "Oslo"]}))
    with pytest.warns(UserWarning, match="'city': 'Rome'"):
        np.testing.assert_array_equal(levels.transform(pd.DataFrame({"city": ["Oslo", "Rome"]})), [[0], [-1]])


@pytest.mark.parametrize("extreme", [(1e99, -1e99), (1e-99, 3e-99), (5e-324, 0.0), (1e16, 1e16 + 2)])
def test_extreme_scales_stay_finite(extreme):
    encoding = Encoding.fit(np.array(extreme)[:, None])
    assert np.all(np.isfinite(encoding.transform(np.array([[1e100], [-1e100], [0.0]]))))


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e101])
def test_error_for_infinite_numbers_names_column_and_row(value):
    good, bad = pd.DataFrame({"a": [1.0, 2.0, 3.0]}), pd.DataFrame({"a": [1.0, 2.0, value]})
    for refused in (lambda: Encoding.fit(bad), lambda: Encoding.fit(good).transform(bad)):
        with pytest.raises(ValueError, match=r"column 'a' has .* in row 2 .*must be finite"):
            refused()
    with pytest.raises(ValueError, match="'a' holds numbers that do not fit"):
        Encoding.fit(pd.DataFrame({"a": [10**400, 1]}, dtype=object))


def test_one_feature_for_each_level_but_only_one_for_two_levels():
    frame = pd.DataFrame({"city": ["Oslo", "Rome", "Bari", "Oslo"], "sex": ["m", "f", "f", "f"]})
    encoding = Encoding.fit(frame)
    assert encoding.feature_names == ("city=Bari", "city=Oslo", "city=Rome", "sex=m")
    assert encoding.feature_columns == (0, 0, 0, 1)
    raw = unscaled(encoding, encoding.transform(frame))
    np.testing.assert_allclose(raw, [[0, 1, 0, 1], [0, 0, 1, 0], [1, 0, 0, 0], [0, 1, 0, 0]], atol=1e-15)
    assert encoding.describe() == [
        "city: 3 levels (Bari, Oslo, Rome) as 0/1 features",
        "sex: 2 levels (f, m) as 0/1 features",
    ]


@pytest.mark.parametrize("dtype", [object, "string", "category", "string[pyarrow]", None])
def test_text_of_every_dtype_is_the_same_and_missing_is_a_level(dtype):
    frame = pd.DataFrame({"city": pd.Series(["Oslo", "Rome", None, "Oslo"], dtype=dtype)})
    encoding = Encoding.fit(frame)
    assert encoding.columns[0].levels == ("Oslo", "Rome", "missing")
    assert encoding.columns[0].missing == 1
    plain = pd.DataFrame({"city": pd.Series(["Oslo", "Rome", None, "Oslo"], dtype=object)})
    np.testing.assert_array_equal(encoding.transform(frame), Encoding.fit(plain).transform(plain))


def test_numeric_categories_are_the_same_with_and_without_a_decimal_point():
    encoding = Encoding.fit(pd.DataFrame({"level": pd.Categorical([1, 2, 3], categories=[3, 2, 1, 0])}))
    assert encoding.columns[0].levels == ("1", "2", "3")
    for same in ([2, 1], [2.0, 1.0], ["2", "1"], pd.array([2, 1], "Int64")):
        matrix = encoding.transform(pd.DataFrame({"level": same}))
        np.testing.assert_array_equal(matrix, encoding.transform(pd.DataFrame({"level": pd.Categorical([2, 1])})))


def test_true_and_one_are_different_levels():
    encoding = Encoding.fit(pd.DataFrame({"mixed": pd.Series(["a", True, 1, 1.0, False], dtype=object)}))
    assert encoding.columns[0].levels == ("1", "False", "True", "a")


def test_unseen_levels_are_zeros_with_one_warning():
    frame = pd.DataFrame({"city": ["Oslo", "Rome", "Bari"], "sex": ["m", "f", "f"]})
    encoding = Encoding.fit(frame)
    new = pd.DataFrame({"city": ["Oslo", "Nice", None], "sex": ["m", "x", "f"]})
    with pytest.warns(UserWarning, match="'city': 'Nice', 'missing'; 'sex': 'x', as 'f' is") as caught:
        matrix = encoding.transform(new)
    assert len(caught) == 1
    raw = unscaled(encoding, matrix)
    np.testing.assert_allclose(raw, [[0, 1, 0, 1], [0, 0, 0, 0], [0, 0, 0, 0]], atol=1e-15)


@pytest.mark.parametrize(
    ("texts", "hint"),
    [
        ([f"name {i}" for i in range(51)], "drop the column, or group its levels"),
        ([f"{i}" for i in range(51)], "convert the texts to numbers"),
    ],
)
def test_error_for_too_many_levels_has_a_hint(texts, hint):
    with pytest.raises(ValueError, match=rf"'who' is text with 51 levels \('.*', ...\), nearly one a row; {hint}"):
        Encoding.fit(pd.DataFrame({"who": texts}))
    Encoding.fit(pd.DataFrame({"who": texts[1:]}))


def test_many_levels_become_the_mean_target_of_other_rows_and_a_count():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 60, 600)
    effect = rng.normal(size=60)
    frame = pd.DataFrame({"zone": [f"zone {c}" for c in codes]})
    encoding, matrix = Encoding.fit_transform(frame, (effect[codes] + 0.1 * rng.normal(size=600))[:, None])
    assert encoding.feature_names == ("zone (mean target)", "zone (log count)")
    assert np.corrcoef(matrix[:, 0], effect[codes])[0, 1] > 0.9
    own = rng.normal(size=(600, 1))
    assert abs(np.corrcoef(Encoding.fit_transform(frame, own)[1][:, 0], own[:, 0])[0, 1]) < 0.15
    with pytest.warns(UserWarning, match="'zone': 'elsewhere', as a usual level"):
        new = encoding.transform(pd.DataFrame({"zone": ["zone 1", "elsewhere"]}))
    assert np.isfinite(new).all()
    assert "60 levels by the mean target and the number of rows of each" in encoding.describe()[0]
    assert Encoding.fit(frame).feature_names == ("zone (log count)",)


def test_ordered_categories_keep_their_order():
    sizes = pd.Categorical(["S", "L", "M", None, "M"], ["S", "M", "L"], ordered=True)
    encoding = Encoding.fit(pd.DataFrame({"size": sizes}))
    assert encoding.feature_names == ("size", "size is missing")
    raw = unscaled(encoding, encoding.transform(pd.DataFrame({"size": sizes})))
    np.testing.assert_allclose(raw, [[0, 0], [2, 0], [1, 0], [1, 1], [1, 0]], atol=1e-12)
    assert encoding.describe() == ["size: 3 levels in order (S < M < L); 1 missing cell"]


def test_dates_become_days_and_the_periods_that_they_span():
    def names(start, periods, freq):
        return Encoding.fit(pd.DataFrame({"t": pd.date_range(start, periods=periods, freq=freq)})).feature_names[1::2]

    assert names("2020-01-01", 48, "h") == ()
    assert names("2020-01-01", 49, "h") == ("t (time of day, sin)",)
    assert names("2020-01-01", 15, "D") == ("t (day of week, sin)",)
    assert names("2020-01-01", 20, "7D") == ()
    assert names("2020-01-01 12:00", 15, "D") == ("t (day of week, sin)",)
    assert names("2020-01-01", 732, "D") == ("t (day of week, sin)", "t (time of year, sin)")

    times = pd.date_range("2020-01-01", periods=100, freq="6h")
    found = features(pd.DataFrame({"t": times}))
    assert list(found) == ["t (days)"] + [
        f"t ({p}, {w})" for p in ("time of day", "day of week") for w in ("sin", "cos")
    ]
    days = np.arange(100) / 4
    np.testing.assert_allclose(found["t (days)"], (days - days.mean()) / days.std(), atol=1e-12)
    np.testing.assert_allclose(found["t (time of day, sin)"], np.sqrt(2) * np.sin(2 * np.pi * days), atol=1e-12)


def test_the_same_times_are_the_same_in_every_zone_and_dtype():
    utc = pd.date_range("2020-01-01", periods=400, freq="7h", tz="UTC")
    first = Encoding.fit(pd.DataFrame({"t": utc}))
    expected = first.transform(pd.DataFrame({"t": utc}))
    naive = utc.tz_localize(None)
    for same in (
        utc.tz_convert("Asia/Tokyo"),
        naive,
        naive.as_unit("s"),
        naive.to_series(index=range(400)).astype("timestamp[us][pyarrow]"),
        np.array(naive.to_pydatetime(), dtype=object),
    ):
        frame = pd.DataFrame({"t": same})
        assert Encoding.fit(frame) == first
        np.testing.assert_array_equal(first.transform(frame), expected)
    days = [datetime.date(2020, 1, 1 + i) for i in range(20)]
    periods = pd.DataFrame({"t": pd.period_range("2020-01-01", periods=20, freq="D")})
    assert Encoding.fit(pd.DataFrame({"t": days})) == Encoding.fit(periods)


def test_missing_dates_get_the_median_and_a_feature():
    frame = pd.DataFrame({"t": pd.to_datetime(["2020-01-01", "2020-01-02", "2020-02-01", None])})
    encoding = Encoding.fit(frame)
    assert encoding.feature_names[-1] == "t is missing"
    matrix = encoding.transform(frame)
    np.testing.assert_array_equal(matrix[3, :-1], matrix[1, :-1])
    assert encoding.describe() == [
        "t: in days since 2020-01-01T00:00:00, with sine and cosine of day of week; 1 missing cell filled with the "
        "median 2020-01-02T00:00:00, and a 0/1 feature says where"
    ]


def test_durations_become_days():
    encoding = Encoding.fit(pd.DataFrame({"wait": pd.to_timedelta([1, 2, 3], unit="D")}))
    assert encoding.feature_names == ("wait (days)",)
    assert (encoding.columns[0].shift, encoding.columns[0].scale) == ((2.0,), (pytest.approx(np.sqrt(2 / 3)),))


def test_dates_from_year_1_to_9999_are_accepted():
    old = pd.DataFrame({"t": np.array(["1000-01-01", "9999-12-31"], "M8[s]")})
    np.testing.assert_allclose(Encoding.fit(old).transform(old)[:, 0], [-1, 1])
    far = pd.DataFrame({"t": np.array(["2000-01-01", "99999-12-31"], "M8[s]")})
    with pytest.raises(ValueError, match="'t' has a date outside of the years 1 to 9999 in row 1"):
        Encoding.fit(far)


def test_columns_are_found_by_name():
    encoding = Encoding.fit(pd.DataFrame({"a": [1.0, 2.0], 7: [0.0, 1.0]}))
    assert encoding.feature_names == ("a", "7")
    np.testing.assert_array_equal(
        encoding.transform(pd.DataFrame({"7": [1.0], "z": ["?"], "a": [2.0]})),
        encoding.transform(pd.DataFrame({"a": [2.0], 7: [1.0]})),
    )
    with pytest.raises(ValueError, match=r"lacks the column\(s\) 'a'; it has '7', 'b'"):
        encoding.transform(pd.DataFrame({"7": [1.0], "b": [1.0]}))


def test_array_in_place_of_a_frame_of_numbers():
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [0.0, 1.0]})
    np.testing.assert_array_equal(
        Encoding.fit(frame).transform(frame.to_numpy()), Encoding.fit(frame.to_numpy()).transform(frame.to_numpy())
    )
    with pytest.raises(ValueError, match=r"3 column\(s\) where 2 are expected: 'a', 'b'"):
        Encoding.fit(frame).transform(np.zeros((1, 3)))
    with pytest.raises(ValueError, match="'c' of the training rows were not numbers"):
        Encoding.fit(frame.assign(c="u")).transform(np.zeros((1, 3)))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pd.DataFrame(index=[0, 1]), "no columns"),
        (pd.DataFrame({"a": []}), "no rows"),
        (np.zeros((0, 2)), "no rows"),
        (np.zeros(3), "2-D array"),
        (np.array([["a"]]), "2-D array of numbers"),
        ([[1.0]], "got list"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "more than one column called 'a'"),
        (pd.DataFrame([[1, 2]], columns=["1", 1]), "more than one column called '1'"),
        (pd.DataFrame({"a": [[1], [2]]}), "'a' holds list"),
        (pd.DataFrame({"a": [1j, 2j]}), "'a' holds complex128"),
        (pd.DataFrame({"a": [b"u", b"v"]}), "'a' holds bytes"),
        (pd.DataFrame({"a": [datetime.date(2020, 1, 1), "text"]}), "'a' mixes dates and text"),
    ],
)
def test_other_tables_are_refused(table, message):
    with pytest.raises(ValueError, match=message):
        Encoding.fit(table)


@pytest.mark.parametrize(
    ("learnt", "new", "message"),
    [
        ([1.0, 2.0], [1.0, "12,5"], "'a' was learnt as numbers but holds text in row 1.*'12,5'"),
        ([1.0, 2.0], ["1", "2"], "'a' was learnt as numbers but holds text in row 0.*'1'"),
        (pd.to_datetime(["2020", "2021"]), [None, "2020-01-01"], "'a' was learnt as dates but holds text in row 1"),
        (pd.to_timedelta([1, 2]), [1, 2], "'a' was learnt as durations but holds numbers in row 0"),
        (["u", "v"], pd.to_datetime(["2020", "2021"]), "'a' was learnt as text but holds dates in row 0"),
    ],
)
def test_column_of_another_kind_is_refused(learnt, new, message):
    encoding = Encoding.fit(pd.DataFrame({"a": learnt}))
    with pytest.raises(ValueError, match=message):
        encoding.transform(pd.DataFrame({"a": new}))


def test_transform_without_rows():
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": ["u", "v"], "c": pd.to_datetime(["2020", "2021"])})
    assert Encoding.fit(frame).transform(frame.iloc[:0]).shape == (0, 5)
