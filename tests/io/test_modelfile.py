import json
import pickle
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

import tightgp as tgp
from tightgp.io import modelfile
from tightgp.io.modelfile import ModelFileError

X = np.random.default_rng(0).normal(size=(30, 2))
DATA = tgp.Dataset(X, np.sin(X[:, 0]))
KERNEL = tgp.kernels.Matern32(1.0, [1.0, 2.0], active_dims=[1, 0]) + 0.3 * tgp.kernels.Linear(0.1)
PRIORS = {"parts[0].lengthscale": tgp.priors.Gamma(2.0, 1.0), "parts[0].variance": tgp.priors.LogNormal()}
LIKELIHOODS = [
    tgp.likelihoods.Gaussian(0.3),
    tgp.likelihoods.Gaussian(None),
    tgp.likelihoods.StudentT(4.0, 0.5),
    tgp.likelihoods.NegativeBinomial(0.5),
    tgp.likelihoods.Binomial(7, link="logit"),
    tgp.likelihoods.Bernoulli(),
    tgp.likelihoods.Ordinal(4),
    tgp.likelihoods.RobustMax(3, epsilon=0.01),
]
OBJECTS = {
    "SGPR": tgp.SGPR(tgp.with_priors(KERNEL, PRIORS), X[:5], 0.1, mean=tgp.means.Constant(0.4)),
    "block": tgp.SGPR(KERNEL, X[:5], 0.1, bound=tgp.Block(8), jitter=1e-5),
    "frozen": tgp.freeze(tgp.SGPR(KERNEL, X[:5], 0.1), "Z", "kernel.*"),
    "float32": tgp.SGPR(KERNEL, X[:5].astype(np.float32), 0.1),
    "ExactGP": tgp.ExactGP(KERNEL, 0.1, tgp.means.Linear([1.0, 2.0])),
    "SOLVEGP": tgp.SOLVEGP(KERNEL, tgp.likelihoods.Poisson(), X[:5], X[5:9]),
    "VGP": tgp.VGP(KERNEL, tgp.likelihoods.Poisson(), X[:5]),
    "separate": tgp.SVGP([KERNEL, tgp.kernels.Matern52()], tgp.likelihoods.HeteroscedasticGaussian(), [X[:4], X[:6]]),
    "mixed": tgp.SVGP(KERNEL, tgp.likelihoods.Gaussian(0.1), X[:5], mixing=np.ones((3, 2)), whiten=False),
    **{type(one).__name__ + str(i): one for i, one in enumerate(LIKELIHOODS)},
}


def assert_same(one, other):
    a, shape_a = jax.tree.flatten(one)
    b, shape_b = jax.tree.flatten(other)
    assert type(one) is type(other)
    assert shape_a == shape_b  # with every static field
    for x, y in zip(a, b, strict=True):
        assert (type(x), x.dtype) == (type(y), y.dtype)
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("name", OBJECTS)
def test_loaded_objects_equal_the_saved_ones(name, tmp_path):
    path = tmp_path / "model.safetensors"
    tgp.save(OBJECTS[name], path)
    assert_same(tgp.load(path), OBJECTS[name])
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_predictions_are_identical_after_loading_in_another_process(tmp_path):
    data = tgp.Dataset(X, np.sin(X))
    model = tgp.SGPR(KERNEL, X[:5], 0.1, bound=tgp.Block(8))
    post = model.posterior(data)
    tgp.save(model, tmp_path / "model.safetensors")
    tgp.save(post, tmp_path / "posterior.safetensors")
    expected = [*post.predict_y(X), *post.predict_f(X[:4], full_cov=True), post.scales]
    code = """
import sys, numpy as np, tightgp as tgp
X = np.random.default_rng(0).normal(size=(30, 2))
data = tgp.Dataset(X, np.sin(X))
posts = [tgp.load("posterior.safetensors"), tgp.load("model.safetensors").posterior(data)]
for i, post in enumerate(posts):
    arrays = [*post.predict_y(X), *post.predict_f(X[:4], full_cov=True), post.scales]
    np.savez(f"{i}.npz", *map(np.asarray, arrays))
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)
    for i in range(2):
        with np.load(tmp_path / f"{i}.npz") as got:
            for array, name in zip(expected, got.files, strict=True):
                np.testing.assert_array_equal(got[name], array)


class CustomKernel(tgp.kernels.Kernel):
    """A kernel that a user defines."""

    rate: jax.Array
    word: str = eqx.field(static=True)

    def matrix(self, X, X2):
        return self.rate * X @ (X if X2 is None else X2).T

    def variances(self, X):
        return self.rate * jnp.sum(X * X, axis=1)


def test_classes_of_the_user_are_passed_to_load(tmp_path):
    path = tmp_path / "model.safetensors"
    model = tgp.SGPR(CustomKernel(jnp.asarray(2.0), "word"), X[:5], 0.1)
    tgp.save(model, path)
    with pytest.raises(ModelFileError, match=r"user.CustomKernel.*classes="):
        tgp.load(path)
    assert_same(tgp.load(path, classes=[CustomKernel]), model)
    with pytest.raises(ValueError, match="classes must hold classes"):
        tgp.load(path, classes=["CustomKernel"])


def test_unsupported_values_are_refused_and_leave_the_old_file(tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_text("old")
    with pytest.raises(ValueError, match=r"value must be a tightgp model.*got dict"):
        tgp.save({}, path)
    with pytest.raises(ValueError, match=r"kernel\.word is a function"):
        tgp.save(tgp.SGPR(CustomKernel(jnp.asarray(2.0), lambda: 0), X[:5], 0.1), path)
    with pytest.raises(ValueError, match="random key"):
        modelfile.write({"key": jax.random.key(0)}, path, "model")
    with pytest.raises(ValueError, match="path must be the name of a file"):
        tgp.save(KERNEL, 3)
    assert path.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_plain_values_are_unchanged(tmp_path):
    path = tmp_path / "values.safetensors"
    values = {
        "numbers": [1, 2**70, -0.0, float("inf"), 5e-324, True, None, "text\n\x00ü", np.float32(1.5), np.int64(3)],
        "tuple": (1, (2,), [], {}, ()),
        "arrays": [np.array(3), np.zeros((0, 4)), np.asfortranarray(X), X[::-2], X.astype(">f8"), np.array([True])],
        "strings": [np.array(["a", "bcd"]), np.array(["a", None, 1.5], object), np.array([["x"]])],
    }
    modelfile.write(values, path, "model")
    got = modelfile.read(path, "model")
    assert repr(got["numbers"]) == repr(values["numbers"])
    assert [type(v) for v in got["numbers"]] == [type(v) for v in values["numbers"]]
    assert got["tuple"] == values["tuple"]
    for name in ("arrays", "strings"):
        for a, b in zip(got[name], values[name], strict=True):
            np.testing.assert_array_equal(a, b)
            assert a.dtype == b.dtype.newbyteorder("=")
    modelfile.write([float("nan")], path, "model")
    assert np.isnan(modelfile.read(path, "model")[0])


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "model.safetensors"
    tgp.save(tgp.SGPR(KERNEL, X[:5], 0.1), path)
    return path.read_bytes()


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("code was run",))


def test_foreign_and_damaged_files_are_refused(saved, tmp_path):
    path = tmp_path / "model.safetensors"

    def refused(content, message):
        path.write_bytes(content)
        with pytest.raises(ModelFileError, match=message) as error:
            tgp.load(path)
        assert str(path) in str(error.value)
        assert "\n" not in str(error.value)

    for half in (
        b"",
        saved[:5],
        saved[: len(saved) // 2],
        saved[:-1],
        pickle.dumps(Bomb()),
        b"PK\x03\x04",
        b"x" * 9999,
    ):
        refused(half, "not a model file, or only a part of one")
    refused(saved[:-3] + b"\x01" + saved[-2:], "damaged: its content has changed")
    save_file({"a": np.zeros(3)}, path, {"format": "pt"})
    refused(path.read_bytes(), "tightgp did not write it")
    save_file({"a": np.zeros(3)}, path)
    refused(path.read_bytes(), "tightgp did not write it")
    newer = saved.replace(b'"version":"1"', b'"version":"2"')
    assert newer != saved
    refused(newer, "written by a newer tightgp.*upgrade")
    refused(saved.replace(b'"version":"1"', b'"version":"x"'), "has no version")
    with pytest.raises(FileNotFoundError):
        tgp.load(tmp_path / "missing")
    with pytest.raises(ModelFileError, match="is a folder"):
        tgp.load(tmp_path)


def test_a_full_disk_is_an_error_of_the_system_with_the_file(tmp_path):
    resource = pytest.importorskip("resource")
    path = tmp_path / "model.safetensors"
    tgp.save(OBJECTS["SGPR"], path)
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2048, hard))
    try:
        with pytest.raises(OSError, match="too large") as caught:
            tgp.save(tgp.SGPR(KERNEL, np.zeros((200, 2)), 0.1), path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.filename == str(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_loading_float64_needs_64_bit_floats(saved, tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(saved)
    with jax.enable_x64(False), pytest.raises(ModelFileError, match="without 64-bit floats"):
        tgp.load(path)


EXAMPLES = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@EXAMPLES
@given(
    cuts=st.lists(st.tuples(st.integers(0, 10**6), st.binary(max_size=4), st.integers(0, 9)), min_size=1, max_size=4)
)
def test_damaged_files_are_refused(saved, tmp_path, cuts):
    content = saved
    for place, new, gone in cuts:
        place %= len(content) + 1
        content = content[:place] + new + content[place + gone :]
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    if content != saved:
        with pytest.raises(ModelFileError):
            tgp.load(path)


def test_malicious_descriptions_are_refused(tmp_path):
    path, strings = tmp_path / "model.safetensors", {"$": "strings", "dtype": "O", "shape": [1], "values": ["a"]}
    for tree, tensors in (
        ("[" * 600 + "]" * 600, {}),
        ("[" * 100_000, {}),
        ({"$": "scalar", "dtype": "(,)f8", "value": 1}, {}),
        ({**strings, "dtype": "<U100000", "values": ["a" * 100_000, *[""] * 99_999]}, {}),
        ([{"$": "jax", "name": "a"}] * 2, {"a": np.zeros(2)}),
        ({"$": "zzz", "name": "a"}, {"a": np.zeros(2)}),
        (["no model"], {}),
    ):
        tree = tree if isinstance(tree, str) else json.dumps(tree)
        header = {"format": "tightgp", "version": "1", "kind": "model", "tree": tree}
        header["fingerprint"] = modelfile.fingerprint("model", tree, tensors)
        save_file(tensors, path, header)
        with pytest.raises(ModelFileError):
            tgp.load(path)
    save_file({}, path, {**header, "kind": "", "fingerprint": modelfile.fingerprint("", tree, {})})
    with pytest.raises(ModelFileError, match="is a '' file"):
        tgp.load(path)


def test_keys_that_look_like_paths_do_not_collide(tmp_path):
    value = {"a.b": np.zeros(2), "a": {"b": np.ones(2)}}
    modelfile.write(value, tmp_path / "v", "model")
    got = modelfile.read(tmp_path / "v", "model")
    np.testing.assert_array_equal([got["a.b"], got["a"]["b"]], [[0, 0], [1, 1]])
