"""Tables of every kind, scikit-learn's tools, files, and fits that are interrupted and resumed."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

import tightgp as tgp
from tests.estimators.conftest import SMALL
from tightgp.estimators import recipes
from tightgp.training.objective import Objective


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
    with pytest.raises(ValueError, match=r"X has shape \(0, 3\); it needs at least 1 row"):
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


def test_clones_predict_the_same(regressor, table):
    again = clone(regressor)
    assert not hasattr(again, "posterior_")
    np.testing.assert_array_equal(again.fit(table.X, table.y).predict(table.new), regressor.predict(table.new))


def test_a_kernel_is_a_parameter_like_others(table):
    kernel = tgp.kernels.Constant(0.5)
    model = tgp.SparseGPRegressor(n_inducing=4, max_iter=3, kernel=kernel)
    assert clone(model).get_params()["kernel"].variance == kernel.variance
    fitted = model.fit(table.X, table.y)
    assert fitted.kernel is kernel
    assert fitted.relevance_ is None


def test_pipeline_and_cross_validation(table, regressor):
    pipeline = make_pipeline(MinMaxScaler(), tgp.SparseGPRegressor(**SMALL)).fit(table.X, table.y)
    np.testing.assert_allclose(pipeline.predict(table.new), regressor.predict(table.new), rtol=1e-3)
    scores = cross_val_score(pipeline, table.X, table.y, cv=KFold(4, shuffle=True, random_state=0))
    assert np.mean(scores) > 0.5


@pytest.mark.filterwarnings("ignore:The inputs seem to say nothing")  # a line may explain little
def test_grid_search(table):
    folds = KFold(4, shuffle=True, random_state=0)
    search = GridSearchCV(tgp.SparseGPRegressor(**SMALL), {"kernel": ["matern32", tgp.kernels.Linear()]}, cv=folds).fit(
        table.X, table.y
    )
    assert search.best_params_ == {"kernel": "matern32"}
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"]))


class InterruptedFit:
    """A `fit` that is interrupted at its ``at``-th call, once it has taken two steps."""

    def __init__(self, at):
        self.calls, self.at = 0, at

    def __call__(self, *arguments, **options):
        self.calls += 1

        def strike(step, _row):
            if step >= 2:
                raise KeyboardInterrupt

        return tgp.fit(*arguments, **options, callback=strike if self.calls == self.at else None)


def test_an_interrupted_fit_is_usable(table, monkeypatch, tmp_path):
    monkeypatch.setattr(recipes, "fit", InterruptedFit(at=1))
    model = tgp.SparseGPRegressor(**SMALL, bound="diagonal", checkpoint=tmp_path).fit(table.X, table.y)
    assert not model.converged_
    assert model.message_ == "interrupted"
    assert model.inducing_message_ == "interrupted at 8"
    assert model.n_iter_ == 2
    assert np.all(np.isfinite(model.predict(table.new)))
    assert [file.name for file in tmp_path.iterdir()] == ["fit-8.safetensors"]


def test_a_resumed_fit_equals_an_uninterrupted_one(table, classifier, monkeypatch, tmp_path):
    """With steps on all rows; another test does it with L-BFGS."""
    half = tgp.SparseGPClassifier(**SMALL, checkpoint=tmp_path / "new")
    monkeypatch.setattr(recipes, "fit", InterruptedFit(at=1))
    assert half.fit(table.X, table.labels).message_ == "interrupted"
    monkeypatch.undo()
    with pytest.raises(ValueError, match="is there already; pass resume=True"):
        half.fit(table.X, table.labels)
    whole = half.set_params(resume=True).fit(table.X, table.labels)
    np.testing.assert_array_equal(whole.predict_proba(table.new), classifier.predict_proba(table.new))
    assert whole.message_ == classifier.message_


def test_an_interruption_ends_growth(monkeypatch, capsys):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 40, size=(200, 1))
    monkeypatch.setattr(recipes, "fit", InterruptedFit(at=2))
    monkeypatch.setattr(recipes, "CLEAR", -np.inf)  # each size is trained once
    model = tgp.SparseGPRegressor("auto", max_iter=60, bound="diagonal", verbose=1).fit(X, np.sin(2 * X[:, 0]))
    assert [entry["n_inducing"] for entry in model.inducing_path_] == [32, 64]
    assert model.inducing_message_ == "interrupted at 64"
    said = [line for line in capsys.readouterr().err.splitlines() if "inducing points: objective" in line]
    assert said[0].startswith("32 inducing points: objective ")
    assert "nats a new point" in said[1]


def mixed_frame(num_rows=40, seed=0):
    rng = np.random.default_rng(seed)
    out = pd.DataFrame({"x": rng.uniform(-2, 2, num_rows), "city": rng.choice(["Oslo", "Rome"], num_rows)})
    out.loc[2, "x"] = np.nan
    return out


def targets_of(X):
    f = np.sin(2 * X["x"].fillna(0).to_numpy()) + (X["city"] == "Rome").to_numpy()
    return {
        "SparseGPRegressor": 10 + 3 * f,
        "SparseGPClassifier": np.where(f > 0.5, "high", "low"),
        "SparseGPCountRegressor": np.round(np.exp(1 + f)),
    }


@pytest.mark.parametrize("name", list(targets_of(mixed_frame())))
def test_a_loaded_estimator_answers_the_same_bits(name, tmp_path):
    X = mixed_frame()
    kernel = tgp.kernels.Matern52(1.0, 1.0)
    made = getattr(tgp, name)(n_inducing=5, max_iter=3, kernel=kernel).fit(X, targets_of(X)[name])
    tgp.save(made, tmp_path / "model.safetensors")
    back = tgp.load(tmp_path / "model.safetensors")
    assert type(back) is type(made)
    assert vars(back).keys() == vars(made).keys()
    assert back.encoding_ == made.encoding_
    ask = "predict_proba" if "Classifier" in name else "predict"
    np.testing.assert_array_equal(getattr(back, ask)(X), getattr(made, ask)(X))
    np.testing.assert_array_equal(back.log_density(X, targets_of(X)[name]), made.log_density(X, targets_of(X)[name]))
    for attribute in ("scales_", "trace_", "inducing_path_", "relevance_", "training_"):
        np.testing.assert_equal(getattr(back, attribute), getattr(made, attribute))
    assert (tmp_path / "model.safetensors").stat().st_size < 40_000  # no training rows travel with it
    unfitted = getattr(tgp, name)(n_inducing=5, kernel="matern52")
    tgp.save(unfitted, tmp_path / "model.safetensors")
    assert tgp.load(tmp_path / "model.safetensors").get_params() == unfitted.get_params()


def test_an_interrupted_growth_resumes_to_the_same_numbers(tmp_path, monkeypatch):
    X = pd.DataFrame({"x": np.linspace(0, 30, 90)})
    y = np.sin(3 * X["x"].to_numpy())

    def estimator(**more):
        return tgp.SparseGPRegressor("auto", max_iter=4, max_inducing=48, tolerance=1e-9, **more)

    whole = estimator().fit(X, y)
    assert [entry["n_inducing"] for entry in whole.inducing_path_] == [32, 48]
    advance, calls = Objective.advance, iter(range(7))

    def broken(*arguments):
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return advance(*arguments)

    monkeypatch.setattr(Objective, "advance", broken)
    part = estimator(checkpoint=tmp_path / "work").fit(X, y)
    assert part.stop_reason_ == "interrupted"
    assert np.all(np.isfinite(part.predict(X)))
    monkeypatch.setattr(Objective, "advance", advance)
    with pytest.raises(ValueError, match="resume=True"):
        estimator(checkpoint=tmp_path / "work").fit(X, y)
    again = estimator(checkpoint=tmp_path / "work", resume=True).fit(X, y)
    np.testing.assert_array_equal(again.predict(X), whole.predict(X))
    bounds = [[entry["bound"] for entry in one.inducing_path_] for one in (again, whole)]
    assert bounds[0] == bounds[1]


def test_polars_frames_sparse_matrices_and_generators(table):
    pl = pytest.importorskip("polars")
    city = np.where(table.X[:, 0] > 0, "Oslo", "Rome")
    options = {**SMALL, "kernel": "rbf"}
    by_pandas = tgp.SparseGPRegressor(**options).fit(pd.DataFrame({"a": table.X[:, 1], "city": city}), table.y)
    frame = pl.DataFrame({"a": table.X[:, 1], "city": city})
    model = tgp.SparseGPRegressor(**options).fit(frame, table.y)
    assert model.feature_names_in_.tolist() == ["a", "city"]
    np.testing.assert_array_equal(model.predict(frame), by_pandas.predict(frame))
    from scipy.sparse import csr_matrix

    dense = tgp.SparseGPRegressor(**SMALL, random_state=np.random.default_rng(1)).fit(table.X, table.y)
    sparse = tgp.SparseGPRegressor(**SMALL, random_state=np.random.default_rng(1)).fit(csr_matrix(table.X), table.y)
    np.testing.assert_array_equal(sparse.predict(csr_matrix(table.X)), dense.predict(table.X))
