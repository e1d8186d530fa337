"""The number of inducing points grows for as long as that helps."""

import numpy as np
import pytest

import tightgp as tgp
from tightgp.estimators import growth
from tightgp.estimators.settings import Settings


@pytest.fixture(scope="module")
def wavy():
    """A function that 32 points cannot follow."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 40, size=(200, 1))
    return X, np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=200)


@pytest.fixture(scope="module")
def grown(wavy):
    return tgp.SparseGPRegressor("auto", max_inducing=64, max_iter=60, bound="diagonal", noise="gaussian").fit(*wavy)


def test_the_path_goes_up(grown):
    path = grown.inducing_path_
    assert [entry["n_inducing"] for entry in path] == [32, 64]
    bounds = [entry["bound"] for entry in path]
    assert np.all(np.diff(bounds) > -1e-6 * np.abs(bounds[-1]))
    assert all(entry["bound"] <= entry["upper"] and entry["seconds"] > 0 for entry in path)
    assert path[0]["gain_per_point"] is None
    assert path[1]["gain_per_point"] == pytest.approx((bounds[1] - bounds[0]) / 32)
    assert grown.n_inducing_ == path[-1]["n_inducing"]
    assert grown.objective_ == bounds[-1]
    assert grown.seconds_ >= sum(entry["seconds"] for entry in path)
    assert grown.inducing_message_ == "stopped at max_inducing=64 while more would still help"


def settings(**changes):
    return Settings.of(tgp.SparseGPRegressor("auto", **changes), ("collapsed", "minibatch"))


def why(gain, tolerance=0.01, gap=None, reason=tgp.StopReason.TOLERANCE, rows=1000):
    bracket = None if gap is None else tgp.EvidenceBracket(-gap, 0.0, rows)
    last = {"n_inducing": 64, "bound": 32 * gain, "upper": None if gap is None else 0.0, "gain_per_point": gain}
    path = [{"n_inducing": 32, "bound": 0.0}, last]
    result = tgp.FitResult(None, {}, reason, "", 0.0, 0.0, 0)
    return growth.reason_to_stop(result, path, bracket, settings(tolerance=tolerance), rows)


def test_reasons_to_stop():
    assert why(gain=5.0, gap=900.0) == ""
    assert "evidence bracket is 0.005 nats a row wide, under tolerance=0.01" in why(gain=5.0, gap=5.0)
    assert "each of the last new points gained 0.09 nats, less than 0.1" in why(gain=0.09, gap=900.0)
    assert "gained 0.0064 nats a row, under tolerance=0.01" in why(gain=0.2)
    assert why(gain=5.0) == ""
    assert why(gain=5.0, reason=tgp.StopReason.INTERRUPTED) == "interrupted at 64"


@pytest.mark.parametrize(
    ("changes", "distinct", "sizes", "message"),
    [
        ({}, 5000, [32, 64, 128, 256, 512, 1024], "stopped at max_inducing=1024 while more would still help"),
        ({"max_inducing": 100}, 5000, [32, 64, 100], "stopped at max_inducing=100"),
        ({}, 70, [32, 64, 70], "stopped at 70, the number of different rows"),
        ({}, 5, [5], "stopped at 5, the number of different rows"),
        ({"n_inducing": 48}, 5000, [48], "n_inducing=48 as asked for"),
        ({"n_inducing": 48}, 7, [7], "n_inducing=48, but there are only 7 different rows"),
    ],
)
def test_numbers_of_inducing_points_to_try(changes, distinct, sizes, message):
    got, why_last = growth.sizes_to_try(
        Settings.of(tgp.SparseGPRegressor(**{"n_inducing": "auto", **changes}), ("collapsed",)), distinct
    )
    assert got == sizes
    assert why_last.startswith(message)


def test_candidates_are_a_sample_of_many_rows():
    X = np.arange(30_000.0)[:, None]
    chosen = growth.candidate_rows(X, 100, seed=0)
    assert len(chosen) == growth.MOST_CANDIDATES
    assert len(growth.candidate_rows(X, 20_000, seed=0)) == 20_000
    np.testing.assert_array_equal(growth.candidate_rows(X[:50] // 2, 10, seed=0)[:, 0], np.arange(25))


def standardised(table):
    return (table.X - table.X.mean(axis=0)) / table.X.std(axis=0)


def test_new_points_are_those_least_explained(table):
    X, kernel = standardised(table), tgp.kernels.Matern32(1.3, [0.8, 2.0])
    new = growth.unexplained(tgp.SGPR(kernel, X[:8], 0.1), X, 3)
    seen = X[:8]
    for point in new:
        cross = np.asarray(kernel(X, seen))
        left = 1.3 - np.sum(cross @ np.linalg.inv(kernel(seen)) * cross, axis=1)
        np.testing.assert_allclose(X[np.argmax(left)], point)
        seen = np.concatenate([seen, point[None]])
    assert len(growth.unexplained(tgp.SGPR(kernel, X[:8], 0.1), X[:8], 3)) == 0
