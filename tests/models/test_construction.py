"""How variational models read kernels, inducing inputs, bounds and numbers of latent functions."""

import jax
import numpy as np
import pytest

import tightgp as tgp
from tightgp import likelihoods as lk
from tightgp.models.construction import choose_bound, draw_rows, inducing_inputs

KERNEL = tgp.kernels.SquaredExponential()


def make(kernel=KERNEL, likelihood=None, Z=None, bound=None, **options):
    return tgp.SVGP(kernel, likelihood or lk.Gaussian(), np.eye(2) if Z is None else Z, bound, **options)


def test_the_default_bound_is_the_tightest_that_the_likelihood_allows():
    assert choose_bound(None, lk.Gaussian()).name == "diagonal"
    assert choose_bound(None, lk.Poisson()).name == "spherical"
    assert choose_bound("standard", lk.Poisson()).name == "standard"


def test_one_set_of_inducing_inputs_or_several():
    one = inducing_inputs("Z", [[0.0, 1.0], [2.0, 3.0]])
    np.testing.assert_array_equal(one.value, [[0, 1], [2, 3]])
    several = inducing_inputs("Z", [np.eye(2), np.ones((3, 2))])
    assert [z.raw.shape for z in several] == [(2, 2), (3, 2)]


@pytest.mark.parametrize(
    ("Z", "message"),
    [
        ([], "Z is empty"),
        (np.ones(3), r"pass Z\[:, None\]"),
        ([np.eye(2), np.eye(3)], "Z has 3 column.*2 are expected"),
        ([np.eye(2), np.eye(2, dtype="float32")], "Z has dtype float32 but the first of Z has float64"),
    ],
)
def test_bad_inducing_inputs_are_refused(Z, message):
    with pytest.raises(ValueError, match=message):
        inducing_inputs("Z", Z)


def test_drawn_rows_are_distinct_if_there_are_enough():
    rows = np.asarray(draw_rows(jax.random.key(0), 10, 10))
    np.testing.assert_array_equal(np.sort(rows), np.arange(10))
    assert draw_rows(jax.random.key(0), 3, 10).shape == (10,)


def test_the_number_of_latent_functions():
    assert make().num_latents == 1
    assert make(num_latents=3).num_latents == 3
    assert make(likelihood=lk.Softmax(3)).num_latents == 3
    assert make([KERNEL, KERNEL]).num_latents == 2
    assert make(Z=[np.eye(2), np.ones((1, 2))]).num_latents == 2
    mixed = make(mixing=np.ones((3, 2)))
    assert (mixed.num_latents, mixed.num_outputs) == (2, 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bound": "diagonal", "likelihood": lk.Poisson()}, "v for each row.*maths 5.3.*'spherical'"),
        ({"bound": tgp.PowerEP(0.5)}, "use it with SGPR"),
        ({"num_latents": 0}, "num_latents must be a whole number"),
        ({"num_latents": 2, "likelihood": lk.Softmax(3)}, "num_latents says 2, Softmax says 3"),
        ({"kernel": [KERNEL] * 2, "Z": [np.eye(2)] * 3}, "kernels says 2.*inputs says 3"),
        ({"mixing": np.ones(3)}, r"mixing must have shape \(P, L\)"),
        ({"mixing": np.ones((3, 3)), "likelihood": lk.Softmax(3)}, "not with Softmax"),
    ],
)
def test_arguments_that_disagree_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        make(**arguments)
