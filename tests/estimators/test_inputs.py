"""Tables of every kind."""

import numpy as np
import pandas as pd
import pytest

import tightgp as tgp
from tests.estimators.conftest import SMALL


@pytest.fixture(scope="module")
def frame(table):
    """Numbers with a gap, texts, dates."""
    rng = np.random.default_rng(1)
    city = rng.choice(["Oslo", "Rome"], size=40)
    return pd.DataFrame(
        {
            "depth": np.where(np.arange(40) == 5, np.nan, table.X[:, 0]),
            "city": city,
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 6, size=40), unit="D"),
        }
    )


@pytest.fixture(scope="module")
def fitted(frame, table):
    y = pd.Series(table.y + 1000 * (frame["city"] == "Rome").to_numpy(), index=frame.index[::-1])
    return tgp.SparseGPRegressor(**SMALL).fit(frame, y), y


def test_frames_are_encoded(fitted, frame):
    model, y = fitted
    assert model.feature_names_in_.tolist() == ["depth", "city", "day"]
    assert model.n_features_in_ == 3
    assert list(model.relevance_) == ["depth", "city", "day"]
    assert [column.kind for column in model.encoding_.columns] == ["number", "category", "time"]
    assert model.score(frame, y) > 0.8
    assert model.predict(frame.iloc[:3]).shape == (3,)


def test_relevance_is_that_of_a_columns_most_relevant_feature(fitted):
    model, _ = fitted
    inverse = 1 / np.asarray(model.model_.kernel.length_scales(len(model.encoding_.feature_names)))
    assert model.encoding_.feature_columns == (0, 0, 1, 2)
    assert model.relevance_ == pytest.approx({"depth": inverse[:2].max(), "city": inverse[2], "day": inverse[3]})


def test_other_columns_are_refused(fitted, frame):
    model, _ = fitted
    with pytest.raises(ValueError, match="Feature names must be in the same order"):
        model.predict(frame[["city", "depth", "day"]])
    with pytest.raises(ValueError, match="now missing:\n- city"):
        model.predict(frame[["depth", "day"]])
    with pytest.raises(ValueError, match="X has no rows"):
        model.predict(frame.iloc[:0])
    with (
        pytest.warns(UserWarning, match="does not have valid feature names"),
        pytest.raises(ValueError, match=r"the columns 'city', 'day' of the training rows were not numbers"),
    ):
        model.predict(np.zeros((2, 3)))


def test_a_frame_of_numbers_is_an_array_with_names(table, regressor):
    names = pd.DataFrame(table.X, columns=["a", "b"])
    model = tgp.SparseGPRegressor(**SMALL).fit(names, pd.DataFrame({"y": table.y}))
    np.testing.assert_allclose(model.predict(names), regressor.predict(table.X)[:, None], rtol=1e-9)
    with pytest.warns(UserWarning, match="X has feature names, but SparseGPRegressor was fitted without"):
        np.testing.assert_array_equal(regressor.predict(names), regressor.predict(table.X))


def test_columns_without_names(table):
    plain = pd.DataFrame(table.X)
    model = tgp.SparseGPRegressor(**SMALL).fit(plain, table.y)
    assert not hasattr(model, "feature_names_in_")
    np.testing.assert_array_equal(model.predict(plain), model.predict(plain[[0, 1]]))


def test_missing_cells_of_an_array(table):
    X = np.concatenate([table.X, table.X[:, :1] ** 2], axis=1)
    X[3, 1] = np.nan
    model = tgp.SparseGPRegressor(**SMALL).fit(X, table.y)
    assert model.encoding_.feature_names == ("x0", "x1", "x1 is missing", "x2")
    assert np.all(np.isfinite(model.predict(X)))


def test_targets_are_checked_beside_a_frame(frame, table):
    model = tgp.SparseGPRegressor()
    with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
        model.fit(frame, None)
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[40, 39\]"):
        model.fit(frame, table.y[:-1])
    with pytest.raises(ValueError, match="y contains NaN"):
        model.fit(frame, np.where(np.arange(40) == 2, np.nan, table.y))
    with pytest.raises(ValueError, match="has no values at all"):
        model.fit(frame.assign(depth=np.nan), table.y)
    assert not hasattr(model, "posterior_")


def test_classes_beside_a_frame(table, classifier):
    names = pd.DataFrame(table.X, columns=["a", "b"])
    model = tgp.SparseGPClassifier(**SMALL).fit(names, pd.Series(table.labels, dtype="category"))
    np.testing.assert_allclose(model.predict_proba(names), classifier.predict_proba(table.X), rtol=1e-9)
