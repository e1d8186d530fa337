"""Kernels of latitude and longitude."""

import numpy as np
import pytest

import tightgp as tgp
from tests.kernels.cases import great_circle
from tightgp import kernels as K
from tightgp.kernels.sphere import EARTH

PLACES = np.stack(
    [np.degrees(np.arcsin(np.linspace(-1, 1, 80))), 180 * np.random.default_rng(0).uniform(-1, 1, 80)], axis=1
)


def test_the_great_circle_from_london_to_paris():
    london, paris = np.array([[51.5074, -0.1278]]), np.array([[48.8566, 2.3522]])
    distance = -100 * np.log(K.GreatCircle(lengthscale=100.0)(london, paris)[0, 0])
    assert float(distance) == pytest.approx(343.6, abs=0.2)


@pytest.mark.parametrize("kernel", [K.GreatCircle(1.0, 500.0), K.OnSphere(K.Matern52(1.0, 500.0))])
def test_there_is_no_seam_and_no_pole(kernel):
    east, west = np.array([[10.0, 179.5]]), np.array([[10.0, -179.5]])
    here = np.array([[10.0, 20.0]])
    np.testing.assert_allclose(kernel(east, west), kernel(here, here + np.array([[0.0, 1.0]])), rtol=1e-9)
    np.testing.assert_allclose(kernel(np.array([[90.0, 0.0]]), np.array([[90.0, 77.0]])), 1.0, rtol=1e-9)


def test_opposite_places_are_half_a_circumference_apart():
    kernel = K.GreatCircle(lengthscale=EARTH)
    np.testing.assert_allclose(kernel(np.array([[30.0, 20.0]]), np.array([[-30.0, -160.0]])), np.exp(-np.pi), rtol=1e-7)


def test_matrices_of_places_around_the_earth_are_positive_definite():
    for length in (500.0, 5000.0, 50_000.0):
        assert np.linalg.eigvalsh(K.GreatCircle(lengthscale=length)(PLACES)).min() > 0
        assert np.linalg.eigvalsh(K.OnSphere(K.Matern32(lengthscale=length))(PLACES)).min() > 0


def test_a_smooth_function_of_the_great_circle_distance_is_no_kernel():
    angle = np.array([[great_circle(a, b) if a is not b else 0.0 for b in PLACES] for a in PLACES])
    assert np.linalg.eigvalsh(np.exp(-0.5 * angle**2)).min() < -1e-6


def test_a_chord_is_within_one_percent_up_to_3000_km():
    arc = 3000 / EARTH
    assert 0.99 < 2 * np.sin(arc / 2) / arc < 1


def test_lengthscales_are_in_degrees():
    degree = EARTH * np.pi / 180
    for kernel in (
        K.GreatCircle(1.0, 2 * degree, active_dims=[1, 2]),
        K.OnSphere(K.Matern32(1.0, 2 * degree), active_dims=[1, 2]),
    ):
        np.testing.assert_allclose(kernel.length_scales(3), [np.inf, 2.0, 2.0], rtol=1e-12)


def test_neighbours_bring_predictions_nearer_to_the_exact_gp():
    y = np.sin(np.radians(PLACES[:, 0])) + np.cos(np.radians(PLACES[:, 1]))
    kernel, data = K.OnSphere(K.Matern32(1.0, 3000.0)), tgp.Dataset(PLACES, y)
    post, new = tgp.SGPR(kernel, PLACES[::10], 0.01, bound="vecchia").posterior(data), PLACES[5:40:5] + 3.0
    exact = tgp.ExactGP(kernel, 0.01).posterior(data).predict_f(new)[0]
    far, near = (np.max(np.abs(post.predict_f(new, neighbours=k)[0] - exact)) for k in (0, 20))
    assert near < 0.3 * far
