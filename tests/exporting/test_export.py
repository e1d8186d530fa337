"""Predictions that JAX traces for any number of rows, and what cannot be exported."""

import copy

import jax
import numpy as np
import pandas as pd
import pytest
from jax import export as jax_export

import tightgp as tgp
from tightgp.estimators.encoding import Encoding
from tightgp.estimators.target_transform import TargetTransform, Warp
from tightgp.exporting.export import predictor_of, rows_of_any_number

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=40)
POST = tgp.SGPR(tgp.kernels.Matern32(1.0, [1.0, 2.0]), X[:8], 0.1, bound="vecchia").posterior(tgp.Dataset(X, Y))


@pytest.fixture(scope="module")
def regressor():
    with_gaps = X.copy()
    with_gaps[3, 1] = np.nan
    return tgp.SparseGPRegressor(max_iter=3, target_transform="none").fit(with_gaps, Y)


def test_one_program_is_for_any_number_of_rows():
    predictor = predictor_of(POST, 5)
    assert predictor.description.columns == ("x0", "x1")
    assert predictor.description.outputs == ("mean", "variance")
    made = jax_export.export(jax.jit(predictor.function))(rows_of_any_number(predictor.description))
    for n in (1, 6):
        for got, wanted in zip(made.call(X[:n]), POST.predict_y(X[:n], neighbours=5), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-9)


def test_encodings_are_inside(regressor):
    predictor = predictor_of(regressor, None)
    new = np.array([[0.3, np.nan], [1.0, -2.0]])
    for got, wanted in zip(predictor.function(new), regressor.predict(new, return_std=True), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-9)


def test_few_rows_at_a_time_where_training_rows_are_many():
    assert predictor_of(POST, 0).description.rows_at_a_time > predictor_of(POST, 40).description.rows_at_a_time


@pytest.mark.parametrize(
    ("model", "neighbours", "message"),
    [
        (tgp.SGPR(tgp.kernels.Matern32(), X[:4], 0.1), None, r"got SGPR; pass its posterior: model.posterior\(data\)"),
        (tgp.SparseGPRegressor(), None, "SparseGPRegressor is not fitted"),
        (POST.without_rows(), 4, "neighbours needs training rows"),
    ],
)
def test_what_cannot_be_exported_is_refused(model, neighbours, message):
    with pytest.raises(ValueError, match=message):
        jax.eval_shape(predictor_of(model, neighbours).function, X)


def test_arguments_are_checked_first(tmp_path):
    with pytest.raises(ValueError, match="neighbours must be a whole number of at least 0"):
        tgp.export(POST, tmp_path / "model.program", neighbours=-1)


def test_texts_and_transformed_targets_are_refused(regressor):
    frame = pd.DataFrame({"x": X[:, 0], "city": np.where(X[:, 1] > 0, "Oslo", "Rome")})
    texts, logs = copy.copy(regressor), copy.copy(regressor)
    texts.encoding_ = Encoding.fit(frame)
    with pytest.raises(ValueError, match=r"column\(s\) 'city' are texts, dates or levels"):
        predictor_of(texts, None)
    logs.target_transform_ = TargetTransform((Warp("log"),))
    with pytest.raises(ValueError, match="target_transform='none'"):
        predictor_of(logs, None)
