"""Synthetic data follow their seed and their docstrings."""

import numpy as np
import pandas as pd
import pytest

from tightgp import datasets


@pytest.mark.parametrize("make", [datasets.wiggly, datasets.counts, datasets.classes])
def test_same_seed_gives_the_same_data(make):
    assert make(20, seed=3).num_data == 20
    np.testing.assert_array_equal(make(20, seed=3).X, make(20, seed=3).X)
    np.testing.assert_array_equal(make(20, seed=3).y, make(20, seed=3).y)
    assert not np.array_equal(make(20, seed=3).y, make(20, seed=4).y)
    with pytest.raises(ValueError, match="num_data must be a whole number of at least"):
        make(0)
    with pytest.raises(ValueError, match="seed must be a whole number"):
        make(20, seed=-1)


def test_wiggly_adds_noise_of_the_given_size():
    still = datasets.wiggly(400, seed=1, noise_sd=0.0)
    noisy = datasets.wiggly(400, seed=1)
    np.testing.assert_array_equal(still.X, noisy.X)
    np.testing.assert_allclose(np.std(noisy.y - still.y), 0.28, rtol=0.1)
    assert 0 <= still.X.min() < still.X.max() <= 6


def test_counts_have_the_rate_of_count_rate():
    x = np.linspace(-10, 10, 50)
    np.testing.assert_array_equal(datasets.counts().X[:, 0], x)
    mean = np.mean([datasets.counts(seed=s).y for s in range(400)], axis=0)
    np.testing.assert_allclose(mean, datasets.count_rate(x), atol=0.6)
    assert np.all(datasets.counts().y == np.rint(datasets.counts().y))
    np.testing.assert_array_equal(datasets.counts(50, 7).y, np.random.default_rng(7).poisson(3.5 + 3 * np.sin(x)))


@pytest.mark.parametrize("num_classes", [2, 3, 5])
def test_every_class_occurs_and_can_be_learnt(num_classes):
    from sklearn.neighbors import KNeighborsClassifier

    data = datasets.classes(60 * num_classes, num_classes, seed=1)
    assert data.X.shape == (60 * num_classes, 2)
    np.testing.assert_array_equal(np.bincount(data.y.astype(int)), [60] * num_classes)
    new = datasets.classes(500, num_classes, seed=2)
    assert KNeighborsClassifier(5).fit(data.X, data.y).score(new.X, new.y) > 0.85
    assert set(datasets.classes(num_classes, num_classes).y) == set(range(num_classes))


def test_arguments_of_classes_are_checked():
    with pytest.raises(ValueError, match="num_classes must be a whole number of at least 2, got 1"):
        datasets.classes(10, 1)
    with pytest.raises(ValueError, match=r"num_data must be .* at least 3, got 2; each class needs a row"):
        datasets.classes(2, 3)


def test_mixed_table_has_the_documented_columns():
    frame = datasets.mixed_table(300, seed=1, missing=0.1)
    pd.testing.assert_frame_equal(frame, datasets.mixed_table(300, seed=1, missing=0.1))
    assert not frame.equals(datasets.mixed_table(300, seed=2, missing=0.1))
    assert list(frame.columns) == ["area", "rooms", "district", "since", "rent"]
    assert frame.shape == (300, 5)
    assert frame.isna().sum().tolist() == [30, 30, 30, 30, 0]
    assert all(pd.api.types.is_numeric_dtype(frame[name]) for name in ("area", "rooms", "rent"))
    assert pd.api.types.is_datetime64_any_dtype(frame["since"])
    assert set(frame["district"].dropna()) == {"Altstadt", "Harbour", "Westend", "Neuville"}
    assert (frame["rent"] > 0).all()


def test_rent_depends_on_each_column():
    frame = datasets.mixed_table(2000, missing=0.0)
    assert not frame.isna().any(axis=None)
    price = frame["rent"] / frame["area"]
    by_district = price.groupby(frame["district"]).mean()
    assert by_district["Altstadt"] > by_district["Harbour"] > by_district["Westend"] > by_district["Neuville"]
    assert price.corr(frame["since"].astype("int64").rank()) > 0.5
    assert frame["rent"].corr(frame["area"]) > 0.8


def test_small_tables_have_missing_cells():
    assert datasets.mixed_table(5, missing=0.01).isna().sum().tolist() == [1, 1, 1, 1, 0]
    with pytest.raises(ValueError, match="missing must be at least 0"):
        datasets.mixed_table(missing=1.0)
    with pytest.raises(ValueError, match="num_rows must be a whole number"):
        datasets.mixed_table(0)
