"""The spectral mixture kernel."""

import numpy as np

import tightgp as tgp
from tightgp import kernels as K


def test_starts_have_the_frequencies_of_the_data():
    x = np.sort(np.random.default_rng(0).uniform(0, 10, 300))[:, None]
    y = np.sin(2 * np.pi * 1.7 * x[:, 0]) + 0.5 * np.cos(2 * np.pi * 0.4 * x[:, 0])
    kernel = K.SpectralMixture.of_data(x, y, components=2)
    np.testing.assert_allclose(np.sort(np.abs(kernel.frequency[:, 0])), [0.4, 1.7], atol=0.05)
    np.testing.assert_allclose(np.sum(kernel.weight), np.var(y), rtol=0.2)


def test_starts_in_two_inputs():
    X = np.random.default_rng(0).uniform(0, 3, (500, 2))
    kernel = K.SpectralMixture.of_data(X, np.cos(2 * np.pi * (X @ [1.0, -0.5])), components=1)
    frequency = np.asarray(kernel.frequency[0])
    np.testing.assert_allclose(frequency * np.sign(frequency[0]), [1.0, -0.5], atol=0.1)


def test_a_constant_target_has_a_start():
    kernel = K.SpectralMixture.of_data(np.arange(5.0)[:, None], np.ones(5), active_dims=[0])
    assert np.all(np.isfinite(kernel(np.arange(3.0)[:, None])))


def test_at_short_distances_it_is_a_squared_exponential():
    kernel = K.SpectralMixture([0.4, 0.6], [[0.5, 0.1], [0.2, 0.0]], [[1.0, 2.0], [3.0, 0.5]])
    short = K.SquaredExponential(1.0, kernel.length_scales(2))
    for x in np.eye(2):
        X = np.stack([np.zeros(2), 1e-3 * x])
        np.testing.assert_allclose(1 - kernel(X)[0, 1], 1 - short(X)[0, 1], rtol=1e-4)


def test_it_goes_on_with_a_wave_where_a_stationary_kernel_forgets_it():
    x = np.linspace(0, 10, 80)[:, None]
    y = np.sin(2 * np.pi * x[:, 0] / 2.5)
    model = tgp.ExactGP(K.SpectralMixture.of_data(x, y, 1), 0.01)
    model = tgp.fit(model, tgp.Dataset(x, y), steps=30, progress=False).model
    new = np.linspace(10, 14, 9)[:, None]
    mean, _ = model.posterior(tgp.Dataset(x, y)).predict_f(new)
    np.testing.assert_allclose(mean, np.sin(2 * np.pi * new[:, 0] / 2.5), atol=0.1)
