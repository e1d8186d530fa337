"""Estimators in files: saved, loaded, broken off and resumed."""

import numpy as np
import pandas as pd
import pytest

import tightgp as tgp
from tightgp.training.objective import Objective


def frame(num_rows=40, seed=0):
    rng = np.random.default_rng(seed)
    out = pd.DataFrame({"x": rng.uniform(-2, 2, num_rows), "city": rng.choice(["Oslo", "Rome"], num_rows)})
    out.loc[2, "x"] = np.nan
    return out


def targets(X):
    f = np.sin(2 * X["x"].fillna(0).to_numpy()) + (X["city"] == "Rome").to_numpy()
    return {
        "SparseGPRegressor": 10 + 3 * f,
        "SparseGPClassifier": np.where(f > 0.5, "high", "low"),
        "SparseGPCountRegressor": np.round(np.exp(1 + f)),
    }


@pytest.mark.parametrize("name", list(targets(frame())))
def test_a_loaded_estimator_answers_the_same_bits(name, tmp_path):
    X = frame()
    kernel = tgp.kernels.Matern52(1.0, 1.0)
    made = getattr(tgp, name)(n_inducing=5, max_iter=3, kernel=kernel).fit(X, targets(X)[name])
    tgp.save(made, tmp_path / "model.safetensors")
    back = tgp.load(tmp_path / "model.safetensors")
    assert type(back) is type(made)
    assert vars(back).keys() == vars(made).keys()
    assert back.encoding_ == made.encoding_
    ask = "predict_proba" if "Classifier" in name else "predict"
    np.testing.assert_array_equal(getattr(back, ask)(X), getattr(made, ask)(X))
    np.testing.assert_array_equal(back.log_density(X, targets(X)[name]), made.log_density(X, targets(X)[name]))
    for attribute in ("scales_", "trace_", "inducing_path_", "relevance_", "training_"):
        np.testing.assert_equal(getattr(back, attribute), getattr(made, attribute))
    assert (tmp_path / "model.safetensors").stat().st_size < 40_000  # no training rows travel with it
    unfitted = getattr(tgp, name)(n_inducing=5, kernel="matern52")
    tgp.save(unfitted, tmp_path / "model.safetensors")
    assert tgp.load(tmp_path / "model.safetensors").get_params() == unfitted.get_params()


def test_a_fit_that_grows_is_broken_off_and_goes_on(tmp_path, monkeypatch):
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
