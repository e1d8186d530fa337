"""Arrays that do not fit together are refused when a file is loaded, not when a prediction is wanted."""

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

import tightgp as tgp
from tightgp.io import modelfile
from tightgp.io.modelfile import ModelFileError

X = np.random.default_rng(0).normal(size=(40, 3))
DATA = tgp.Dataset(X, np.sin(X[:, 0]))
KERNEL = tgp.kernels.Matern32(1.0, [1.0, 2.0, 3.0])


def changes(array):
    """The array with another shape: turned around, cut, longer."""
    for axis in range(array.ndim):
        yield np.take(array, range(array.shape[axis] - 1), axis)
        yield np.concatenate([array, np.take(array, [0], axis)], axis)
    if array.ndim > 1 and array.shape[-1] != array.shape[-2]:
        yield np.ascontiguousarray(array.swapaxes(-1, -2))


def spoilt(path):
    """Write the file again and again, with one of its arrays in another shape and a valid fingerprint."""
    with safe_open(path, framework="numpy") as file:
        header, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    for name, array in tensors.items():
        for other in changes(array):
            tensors_now = {**tensors, name: other}
            print_ = modelfile.fingerprint(header["kind"], header["tree"], tensors_now)
            save_file(tensors_now, path, {**header, "fingerprint": print_})
            yield name, other.shape


SGPR = tgp.SGPR(KERNEL, X[:6], 0.1, bound=tgp.Vecchia(4))
OBJECTS = {
    "posterior": lambda: SGPR.posterior(DATA),
    "SGPR": lambda: SGPR,
    "SVGP": lambda: tgp.SVGP(KERNEL, tgp.likelihoods.Poisson(), X[:6]),
    "estimator": lambda: tgp.SparseGPRegressor(n_inducing=6, max_iter=2).fit(X, DATA.y),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_arrays_of_other_shapes_are_refused(name, tmp_path):
    path = tmp_path / "model.safetensors"
    tgp.save(OBJECTS[name](), path)
    tgp.load(path)
    harmless = []
    for name, shape in spoilt(path):
        try:
            tgp.load(path)
        except ModelFileError:
            continue
        harmless.append((name, shape))
    # How training went is shown, never computed with; an SGPR with fewer inducing inputs is another good SGPR.
    assert [one for one in harmless if "trace_" not in one[0] and one[0] != "value._Z.raw"] == []


def test_the_message_says_which_shapes(tmp_path):
    path = tmp_path / "model.safetensors"
    tgp.save(tgp.SGPR(KERNEL, X[:6], 0.1).posterior(DATA), path)
    for name, shape in spoilt(path):
        if name == "value.latents[0].Z" and shape == (5, 3):
            with pytest.raises(ModelFileError, match=r"the factor has shape \(6, 6\) where \(5, 5\) fits the rest"):
                tgp.load(path)
            return
    pytest.fail("the posterior has no inducing inputs")
