"""One method on one table, in a fresh process: ``python worker.py METHOD TABLE.parquet LAUNCH_TIME``.

It prints one JSON object. Seconds of fit count from the launch of the process: imports, reading, compiling, training.
Beside the wall clock there is the CPU time of all threads, which other programs on the machine change little.
Every method has its defaults. Methods that give no distribution get a Gaussian whose deviation is that of the
five-fold out-of-fold errors on the training rows, which is part of their fit.
"""

import json
import sys
import time
import warnings
from collections.abc import Callable
from math import erf, pi, sqrt

import numpy as np
import pandas as pd

#: The predictions of a fitted method: means and standard deviations.
Predict = Callable[[pd.DataFrame], tuple[np.ndarray, np.ndarray]]


def tightgp(X: pd.DataFrame, y: np.ndarray) -> Predict:
    from tightgp import SparseGPRegressor

    model = SparseGPRegressor().fit(X, y)
    return lambda rows: model.predict_distribution(rows)


def catboost(X: pd.DataFrame, y: np.ndarray) -> Predict:
    from catboost import CatBoostRegressor

    texts = _texts(X)

    def read(X: pd.DataFrame) -> pd.DataFrame:
        X = _dates_as_numbers(X)
        return X.assign(
            **{name: X[name].astype(object).where(X[name].notna(), "missing").astype(str) for name in texts}
        )

    model = CatBoostRegressor(loss_function="RMSEWithUncertainty", random_seed=0, verbose=False, cat_features=texts)
    model.fit(read(X), y)

    def predict(rows):
        both = model.predict(read(rows))
        return both[:, 0], np.sqrt(both[:, 1])

    return predict


def lightgbm(X: pd.DataFrame, y: np.ndarray) -> Predict:
    from lightgbm import LGBMRegressor

    levels = {name: pd.CategoricalDtype(sorted(X[name].dropna().astype(str).unique())) for name in _texts(X)}

    def read(X: pd.DataFrame) -> pd.DataFrame:
        X = _dates_as_numbers(X)
        return X.assign(**{name: X[name].astype(str).astype(dtype) for name, dtype in levels.items()})

    def fitted(X, y):
        model = LGBMRegressor(random_state=0, verbose=-1).fit(read(X), y)
        return lambda rows: model.predict(read(rows))

    return _with_spread(fitted, X, y)


def ngboost(X: pd.DataFrame, y: np.ndarray) -> Predict:
    from ngboost import NGBRegressor

    read = _numbers(X)
    model = NGBRegressor(random_state=0, verbose=False).fit(read(X), y)

    def predict(rows):
        found = model.pred_dist(read(rows))
        return found.loc, found.scale

    return predict


def sklearn_gp(X: pd.DataFrame, y: np.ndarray) -> Predict:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    read = _numbers(X)
    features = read(X)
    kernel = ConstantKernel() * Matern(np.ones(features.shape[1]), nu=1.5) + WhiteKernel()
    model = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0).fit(features, y)
    return lambda rows: model.predict(read(rows), return_std=True)


def gpboost(X: pd.DataFrame, y: np.ndarray) -> Predict:
    import gpboost

    read = _numbers(X)
    mean, scale = y.mean(), y.std()
    features = read(X)
    model = gpboost.GPModel(
        gp_coords=features, cov_function="matern_ard", cov_fct_shape=1.5, gp_approx="vecchia", likelihood="gaussian"
    )
    model.fit(y=(y - mean) / scale)

    def predict(rows):
        found = model.predict(gp_coords_pred=read(rows), predict_var=True, predict_response=True)
        return mean + scale * found["mu"], scale * np.sqrt(found["var"])

    return predict


METHODS = {f.__name__: f for f in (tightgp, catboost, lightgbm, ngboost, sklearn_gp, gpboost)}


def _texts(X: pd.DataFrame) -> list[str]:
    return [name for name in X if X[name].dtype.kind not in "biufmM"]


def _dates_as_numbers(X: pd.DataFrame) -> pd.DataFrame:
    dates = [name for name in X if X[name].dtype.kind in "mM"]
    return X.assign(**{name: X[name].astype("int64") / 8.64e13 for name in dates})


def _numbers(X: pd.DataFrame) -> Callable[[pd.DataFrame], np.ndarray]:
    """Texts as indicators of at most 30 levels, missing numbers as medians, everything standardised."""
    texts, first = _texts(X), _dates_as_numbers(X)
    levels = {name: first[name].value_counts().index[:30].tolist() for name in texts}
    plain = [name for name in first if name not in texts]
    medians = first[plain].astype(float).median()

    def encode(X: pd.DataFrame) -> np.ndarray:
        X = _dates_as_numbers(X)
        indicators = [(X[name] == level).to_numpy(float)[:, None] for name in texts for level in levels[name]]
        return np.concatenate([X[plain].astype(float).fillna(medians).to_numpy(), *indicators], axis=1)

    table = encode(X)
    keep = table.std(axis=0) > 0
    mean, scale = table[:, keep].mean(axis=0), table[:, keep].std(axis=0)
    return lambda X: (encode(X)[:, keep] - mean) / scale


def _with_spread(fitted: Callable, X: pd.DataFrame, y: np.ndarray) -> Predict:
    """Point predictions with the deviation of their out-of-fold errors."""
    fold = np.random.default_rng(0).permutation(len(y)) % 5
    errors = [y[fold == i] - fitted(X[fold != i], y[fold != i])(X[fold == i]) for i in range(5)]
    spread, predict = float(np.sqrt(np.mean(np.concatenate(errors) ** 2))), fitted(X, y)
    return lambda rows: (predict(rows), np.full(len(rows), spread))


def scores(y: np.ndarray, mean: np.ndarray, sd: np.ndarray) -> dict[str, float]:
    """Of Gaussian predictions, in units of the targets' standard deviation."""
    unit = y.std()
    y, mean, sd = y / unit, mean / unit, sd / unit
    z = (y - mean) / sd
    Phi, phi = 0.5 * (1 + np.vectorize(erf)(z / sqrt(2))), np.exp(-0.5 * z * z) / sqrt(2 * pi)
    return {
        "rmse": float(np.sqrt(np.mean((y - mean) ** 2))),
        "log_density": float(np.mean(-0.5 * (np.log(2 * pi) + z * z) - np.log(sd))),
        "crps": float(np.mean(sd * (z * (2 * Phi - 1) + 2 * phi - 1 / sqrt(pi)))),
        "coverage": float(np.mean(np.abs(z) < 1.959964)),
    }


def of_distribution(found, y: np.ndarray) -> dict[str, float]:
    """The same scores of one of tightgp's predictive distributions, which need not be Gaussian."""
    unit = y.std()
    low, high = found.interval(0.95)
    levels = (np.arange(100) + 0.5) / 100
    quantiles = found.quantile(levels.tolist())
    pinball = np.maximum(levels * (y[:, None] - quantiles), (levels - 1) * (y[:, None] - quantiles))
    return {
        "rmse": float(np.sqrt(np.mean((y - found.mean) ** 2)) / unit),
        "log_density": float(np.mean(found.log_density(y)) + np.log(unit)),
        "crps": float(2 * np.mean(pinball) / unit),
        "coverage": float(np.mean((low < y) & (y < high))),
    }


def main(method: str, path: str, launched: str) -> None:
    warnings.simplefilter("ignore")
    table = pd.read_parquet(path)
    y, X = table.pop("target").to_numpy(float), table
    cut = round(0.8 * len(y))
    predict = METHODS[method](X[:cut], y[:cut])
    fitted = {"fit_seconds": time.time() - float(launched), "fit_cpu": time.process_time()}
    start = time.perf_counter(), time.process_time()
    found = predict(X[cut:])
    done = {"predict_seconds": time.perf_counter() - start[0], "predict_cpu": time.process_time() - start[1]}
    of = scores(y[cut:], *found) if isinstance(found, tuple) else of_distribution(found, y[cut:])
    print(json.dumps({**of, **fitted, **done}))


if __name__ == "__main__":
    main(*sys.argv[1:])
