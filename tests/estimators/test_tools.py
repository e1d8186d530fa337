"""With scikit-learn's tools, with files, with Ctrl-C."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

import tightgp as tgp
from tests.estimators.conftest import SMALL
from tightgp.estimators import recipes


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


def test_grid_search(table):
    folds = KFold(4, shuffle=True, random_state=0)
    search = GridSearchCV(tgp.SparseGPRegressor(**SMALL), {"max_iter": [1, 40]}, cv=folds).fit(table.X, table.y)
    assert search.best_params_ == {"max_iter": 40}
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"]))


class Struck:
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
    monkeypatch.setattr(recipes, "fit", Struck(at=1))
    model = tgp.SparseGPRegressor(**SMALL, checkpoint=tmp_path).fit(table.X, table.y)
    assert not model.converged_
    assert model.message_ == "interrupted"
    assert model.inducing_message_ == "interrupted at 8"
    assert model.n_iter_ == 2
    assert np.all(np.isfinite(model.predict(table.new)))
    assert [file.name for file in tmp_path.iterdir()] == ["fit-8.safetensors"]


def test_unfinished_work_goes_on(table, classifier, monkeypatch, tmp_path):
    """With steps on all rows; `test_files` does it with L-BFGS."""
    half = tgp.SparseGPClassifier(**SMALL, checkpoint=tmp_path / "new")
    monkeypatch.setattr(recipes, "fit", Struck(at=1))
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
    monkeypatch.setattr(recipes, "fit", Struck(at=2))
    model = tgp.SparseGPRegressor("auto", max_iter=60, verbose=1).fit(X, np.sin(2 * X[:, 0]))
    assert [entry["n_inducing"] for entry in model.inducing_path_] == [32, 64]
    assert model.inducing_message_ == "interrupted at 64"
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("32 inducing points: bound ")
    assert "nats a new point" in said[1]
