"""Placing new rows among the latent inputs of a GP-LVM. Laws and errors are tested with the model."""

import numpy as np
import pytest

import tightgp as tgp
from tightgp import placing


@pytest.fixture(scope="module")
def curve():
    """A model of 30 rows along a curve, and their data."""
    t = np.random.default_rng(0).uniform(-1.5, 1.5, 30)
    data = tgp.Dataset.latent(np.stack([np.sin(t), t, np.tanh(t)], axis=1), 1)
    model = tgp.GPLVM.start(data.y, num_latents=1, num_inducing=6)
    return tgp.fit(model, data, steps=30, progress=False).model, data


def test_chunks_give_the_same_as_all_rows_together(curve, monkeypatch):
    model, data = curve
    together = tgp.place(model, data, data.take(np.arange(20)), starts=1)
    monkeypatch.setattr(placing, "_MOST_ROWS", 16)
    chunked = tgp.place(model, data, data.take(np.arange(20)), starts=1)
    assert chunked.mean.shape == chunked.variance.shape == (20, 1)
    np.testing.assert_allclose(chunked.mean, together.mean, atol=1e-3)
    np.testing.assert_allclose(chunked.variance, together.variance, rtol=1e-2)


def test_nearest_ignores_missing_columns(rng):
    outputs, Y = rng.normal(size=(30, 4)), rng.normal(size=(7, 4))
    Y[rng.random(Y.shape) < 0.3] = np.nan
    distances = np.nansum((Y[:, None] - outputs) ** 2, axis=2)
    np.testing.assert_array_equal(placing.nearest(outputs, Y, 3), np.argsort(distances, axis=1)[:, :3])
