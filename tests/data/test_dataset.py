import jax.numpy as jnp
import numpy as np
import pytest

import tightgp as tgp
from tightgp.data.partition import Partition

X = np.random.default_rng(1).normal(size=(7, 2))
Y = X[:, 0]


def spoilt(array, where, value):
    array = np.array(array, dtype=float)
    array[where] = value
    return array


def test_lists_and_whole_numbers():
    data = tgp.Dataset([[0, 1], [2, 3], [4, 5]], [1, 2, 3], [1, 1, 2])
    assert (data.num_data, data.num_inputs, data.num_outputs) == (3, 2, 1)
    for array in (data.X, data.y, data.noise_variance):
        assert array.dtype == np.float64
    np.testing.assert_array_equal(data.X, [[0, 1], [2, 3], [4, 5]])
    np.testing.assert_array_equal(data.y, [1, 2, 3])


def test_vector_targets():
    data = tgp.Dataset(X, Y)
    assert data.vector
    assert data.num_outputs == 1
    np.testing.assert_array_equal(data.targets, Y[:, None])


@pytest.mark.parametrize("p", [1, 3])
def test_matrix_targets(p):
    y = np.tile(Y[:, None], (1, p))
    data = tgp.Dataset(X, y)
    assert not data.vector
    assert data.num_outputs == p
    np.testing.assert_array_equal(data.targets, y)


def test_arrays_are_not_copied():
    data = tgp.Dataset(X, jnp.asarray(Y))
    assert data.X is X
    assert isinstance(data.y, jnp.ndarray)


def test_whole_number_targets_take_the_dtype_of_X():
    data = tgp.Dataset(X.astype(np.float32), [1] * 7, [2] * 7)
    assert data.X.dtype == data.y.dtype == data.noise_variance.dtype == np.float32


def test_no_known_noise_by_default():
    assert tgp.Dataset(X, Y).noise_variance is None


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (X[:, 0], r"X must have shape \(rows, columns\), got \(7,\); for one input column pass X\[:, None\]"),
        (X[None], r"X must have shape \(rows, columns\), got \(1, 7, 2\)"),
        (3.0, r"X must have shape \(rows, columns\), got \(\)"),
        (X[:0], r"X is empty \(shape \(0, 2\)\); it needs at least one row"),
        (X[:, :0], r"X is empty \(shape \(7, 0\)\); .* one column"),
        (spoilt(X, (3, 1), np.nan), r"X has NaN or infinite values in 1 row\(s\): 3; remove or impute"),
        (spoilt(X, ([2, 5], [0, 1]), -np.inf), r"X has NaN or infinite values in 2 row\(s\): 2, 5; "),
        (spoilt(X, (slice(6), 0), np.nan), r"X has NaN or infinite values in 6 row\(s\): 0, 1, 2, 3, 4, \.\.\.; "),
        (X.astype(np.float16), "X has dtype float16; use float64 or float32"),
        (jnp.asarray(X, jnp.bfloat16), "X has dtype bfloat16; use float64 or float32"),
        ([["a", "b"]] * 7, "X must be an array of numbers"),
        ("text", "X must be an array of numbers, got str"),
        (None, "X must "),
        ([[1.0, 2.0], [3.0]], "X must be an array of numbers"),
        ([["1", "2"]] * 7, "X must be an array of numbers"),
        (X + 1j, "X must be an array of numbers"),
        (np.full((7, 1), "2020-01-01", "datetime64[D]"), "X must be an array of numbers"),
    ],
)
def test_bad_X(X, message):
    with pytest.raises(ValueError, match=message):
        tgp.Dataset(X, Y)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (Y[:5], r"y has 5 row\(s\) but X has 7; each row of X needs one target"),
        (Y[None], r"y has 1 row\(s\) but X has 7"),
        (Y[:, None, None], r"y must have shape \(N,\) or \(N, P\), got \(7, 1, 1\)"),
        (3.0, r"y must have shape \(N,\) or \(N, P\), got \(\)"),
        (np.zeros((7, 0)), r"y has no columns \(shape \(7, 0\)\); it needs at least one"),
        (spoilt(Y, [1, 6], np.nan), r"y has NaN or infinite values in 2 row\(s\): 1, 6; remove or impute"),
        (spoilt(X, (4, 1), np.inf), r"y has NaN or infinite values in 1 row\(s\): 4; "),
        (Y.astype(np.float32), r"y has dtype float32 but X has float64; use one of them for both"),
        (Y.astype(np.float16), "y has dtype float16; use float64 or float32"),
        (["a"] * 7, "y must be an array of numbers"),
        ([None] * 7, "y "),
        (Y + 1j, "y must be an array of numbers"),
    ],
)
def test_bad_y(y, message):
    with pytest.raises(ValueError, match=message):
        tgp.Dataset(X, y)


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        (-np.ones(7), "noise_variance must not be negative"),
        (spoilt(np.ones(7), 2, np.nan), "noise_variance has NaN or infinite values in 1 row.*: 2"),
        (spoilt(np.ones(7), 2, np.inf), "noise_variance has NaN or infinite values in 1 row.*: 2"),
        (0.1, r"noise_variance must have shape \(7,\), one a row of X, got \(\)"),
        (np.ones(6), r"noise_variance must have shape \(7,\), one a row of X, got \(6,\)"),
        (np.ones((7, 1)), r"noise_variance must have shape \(7,\), one a row of X, got \(7, 1\)"),
        (np.ones(7, np.float32), "noise_variance has dtype float32 but X has float64; use one of them"),
        ("small", "noise_variance must be an array of numbers"),
    ],
)
def test_bad_noise_variance(noise, message):
    with pytest.raises(ValueError, match=message):
        tgp.Dataset(X, Y, noise)


@pytest.mark.parametrize(
    "rows", [[4, 0, 4], slice(1, 6, 2), np.arange(7) % 2 == 0, np.array([6])], ids=["list", "slice", "mask", "array"]
)
@pytest.mark.parametrize("known", [None, np.linspace(1, 2, 7)], ids=["unknown", "known"])
def test_take(rows, known):
    part = tgp.Dataset(X, Y, known).take(rows)
    np.testing.assert_array_equal(part.X, X[rows])
    np.testing.assert_array_equal(part.y, Y[rows])
    if known is None:
        assert part.noise_variance is None
    else:
        np.testing.assert_array_equal(part.noise_variance, known[rows])


def test_take_keeps_columns_of_targets():
    part = tgp.Dataset(X, X).take([1])
    assert part.y.shape == (1, 2)
    assert not part.vector


def test_take_of_nothing():
    with pytest.raises(ValueError, match="X is empty"):
        tgp.Dataset(X, Y).take([])


def test_repr():
    assert repr(tgp.Dataset(X, Y)) == "Dataset(N=7, D=2, P=1, float64)"
    single = tgp.Dataset(X.astype(np.float32), np.ones((7, 3), np.float32), np.ones(7, np.float32))
    assert repr(single) == "Dataset(N=7, D=2, P=3, float32, known noise variances)"


def test_targets_whose_squares_overflow_are_refused():
    with pytest.raises(ValueError, match=r"y has values up to 1e\+154, whose squares overflow float64"):
        tgp.Dataset([[0.0], [1.0]], [1.0, 1e154])
    with pytest.raises(ValueError, match="overflow float32"):
        tgp.Dataset(np.zeros((2, 1), np.float32), np.array([1.0, 1e17], np.float32))


def test_threads_that_ask_for_different_partitions_get_their_own():
    """Another thread may be served at any moment: here, right after an answer is stored."""
    data, mine, theirs = tgp.Dataset(X, Y), Partition(2, "random", 0), Partition(3, "random", 1)
    expected = tgp.Dataset(X, Y).placed(mine)[1]

    class Interrupted(dict):
        def update(self, *arguments, **named):
            super().update(*arguments, **named)
            self.interrupt()

        def __setitem__(self, key, value):
            super().__setitem__(key, value)
            self.interrupt()

        def interrupt(self):
            if not self.get("interrupted"):
                dict.__setitem__(self, "interrupted", True)
                data.placed(theirs)

    object.__setattr__(data, "_placed", Interrupted())
    np.testing.assert_array_equal(data.placed(mine)[1], expected)
