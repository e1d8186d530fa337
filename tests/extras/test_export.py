"""Programs and graphs in files give the numbers of the model that they were made from."""

import subprocess
import sys
from dataclasses import replace

import equinox as eqx
import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import tightgp as tgp
from tightgp import kernels as K
from tightgp.io.modelfile import ModelFileError
from tightgp.io.program import Description, write_program

pytest.importorskip("flatbuffers")
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=60)
PLACES = np.column_stack([RNG.uniform(-60, 60, 60), RNG.uniform(-180, 180, 60), X[:, 0]])
NETWORK = eqx.nn.MLP(3, 2, 4, 1, activation=jnp.tanh, key=jax.random.key(0))
KERNELS = {
    "matern32": K.Matern32(1.0, [1.0, 2.0, 0.5]),
    "matern12 of two columns": K.Matern12(active_dims=[2, 0]),
    "sum": K.Matern52() + 0.3 * K.Linear() + K.White(0.1),
    "product": K.RationalQuadratic() * K.Periodic(period=3.0),
    "polynomial": K.Polynomial(2),
    "matern": K.Matern(smoothness=1.1),
    "spectral mixture": K.SpectralMixture([1.0, 0.5], RNG.normal(size=(2, 3)), np.ones((2, 3))),
    "change point": K.ChangePoint(K.SquaredExponential(), K.Linear()),
    "on sphere": K.OnSphere(K.Matern32(1.0, 3000.0), active_dims=[0, 1]),
    "deep": K.Deep(K.Matern32(), NETWORK),
}


def run_onnx(path, rows):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {"rows": rows})


def assert_same(got, wanted, tolerance=1e-5):
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", KERNELS)
def test_onnxruntime_gives_the_same_numbers(name, tmp_path):
    rows = PLACES if name == "on sphere" else X
    post = tgp.SGPR(KERNELS[name], rows[:12], 0.1).posterior(tgp.Dataset(rows, Y))
    tgp.export(post, tmp_path / "model.onnx", neighbours=0)
    for n in (1, 7):
        assert_same(
            run_onnx(tmp_path / "model.onnx", rows[20 : 20 + n]), post.predict_y(rows[20 : 20 + n], neighbours=0)
        )


def test_operations_that_onnxruntime_lacks_are_named(tmp_path):
    post = tgp.SGPR(K.Matern32(), X[:12], 0.1, bound="vecchia").posterior(tgp.Dataset(X, Y))
    with pytest.raises(ValueError, match=r"onnxruntime has no operator for .*pass neighbours=0"):
        tgp.export(post, tmp_path / "model.onnx", neighbours=4)
    assert not list(tmp_path.iterdir())


#: Their alphabetical order is another one.
LEVELS = ["low", "mid", "high"]
CLASSES = ("two", "three", "levels")


@pytest.fixture(scope="module")
def estimators():
    gaps = X.copy()
    gaps[3, 1] = np.nan
    made = {
        "regression": tgp.SparseGPRegressor(n_inducing=12, max_iter=5, target_transform="none").fit(gaps, Y),
        "counts": tgp.SparseGPCountRegressor(n_inducing=8, max_iter=5).fit(gaps, np.round(np.exp(Y + 1))),
        "two": tgp.SparseGPClassifier(n_inducing=8, max_iter=5).fit(gaps, np.where(Y > 0, "up", "down")),
        "three": tgp.SparseGPClassifier(n_inducing=8, max_iter=5).fit(gaps, np.digitize(Y, [-0.5, 0.5])),
        "levels": tgp.SparseGPClassifier(n_inducing=8, max_iter=5, likelihood="ordinal", levels=LEVELS).fit(
            gaps, np.array(LEVELS)[np.digitize(Y, [-0.5, 0.5])]
        ),
    }
    return gaps, made


@pytest.mark.parametrize("name", ["regression", "counts", *CLASSES])
def test_programs_of_estimators_give_the_same_numbers(estimators, name, tmp_path):
    rows, made = estimators
    estimator = made[name]
    tgp.export(estimator, tmp_path / "model.program", platforms=("cpu",))
    program = tgp.Program.load(tmp_path / "model.program")
    wanted = [estimator.predict_proba(rows)] if name in CLASSES else estimator.predict(rows, return_std=True)
    assert_same(program(rows).values(), wanted, 1e-9)
    if name in CLASSES:
        assert list(program.description.classes) == estimator.classes_.tolist()


@pytest.mark.parametrize("name", ["regression", "counts"])
def test_graphs_of_estimators_give_the_same_numbers(estimators, name, tmp_path):
    rows, made = estimators
    estimator = made[name].set_params(neighbours=0) if name == "regression" else made[name]
    tgp.export(estimator, tmp_path / "model.onnx")
    assert_same(run_onnx(tmp_path / "model.onnx", rows), estimator.predict(rows, return_std=True))


def test_a_program_runs_without_tightgp(tmp_path):
    post = tgp.SGPR(K.Matern32(), X[:12], 0.1, bound="vecchia").posterior(tgp.Dataset(X, Y))
    tgp.export(post, tmp_path / "model.program", neighbours=6)
    np.savez(tmp_path / "rows.npz", X=X[:5], mean=post.predict_y(X[:5], neighbours=6)[0])
    code = """
import sys, numpy as np, jax
from jax import export
from safetensors import safe_open
jax.config.update("jax_enable_x64", True)
with safe_open("model.program", framework="numpy") as file:
    program = export.deserialize(bytearray(file.get_tensor("value.program").tobytes()))
rows = np.load("rows.npz")
np.testing.assert_allclose(program.call(rows["X"])[0], rows["mean"], rtol=1e-9)
assert not any(name.startswith("tightgp") for name in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)


def test_rows_are_padded_cut_and_checked(tmp_path):
    post = tgp.SGPR(K.Matern32(), X[:12], 0.1).posterior(tgp.Dataset(X, Y))
    tgp.export(post, tmp_path / "model.program", platforms=("cpu",))
    program = tgp.Program.load(tmp_path / "model.program")
    object.__setattr__(program.description, "rows_at_a_time", 25)
    np.testing.assert_allclose(program(X)["mean"], post.predict_y(X)[0], rtol=1e-9)
    for wrong in (X[:0], X[:, :2], X[0]):
        with pytest.raises(ValueError, match=r"X must have shape \(n, 3\)"):
            program(wrong)


def test_damaged_and_other_files_are_refused(tmp_path):
    path = tmp_path / "model.program"
    post = tgp.SGPR(K.Matern32(), X[:12], 0.1).posterior(tgp.Dataset(X, Y))
    tgp.export(post, path, platforms=("cpu",))
    with pytest.raises(ModelFileError, match="'program' file where a model file is expected"):
        tgp.load(path)
    data = bytearray(path.read_bytes())
    data[-10] ^= 1
    path.write_bytes(data)
    with pytest.raises(ModelFileError, match="content has changed"):
        tgp.Program.load(path)
    tgp.save(post, path)
    with pytest.raises(ModelFileError, match="'model' file where a program file is expected"):
        tgp.Program.load(path)
    with pytest.raises(ValueError, match="platforms must be some of cpu, cuda"):
        tgp.export(post, path, platforms="cpu")


def test_programs_that_call_something_else_are_refused(tmp_path):
    """Such a call could lead into Python, or to any library of the process."""
    rows = jax.ShapeDtypeStruct((4, 2), np.float64)
    call = jax.ffi.ffi_call("someone_else", rows)
    checks = [jax.export.DisabledSafetyCheck.custom_call("someone_else")]
    made = jax.export.export(jax.jit(lambda X: (call(X),)), platforms=("cpu",), disabled_checks=checks)(rows)
    write_program(tmp_path / "model.program", Description(("a", "b"), ("mean",), "float64", 4), made.serialize())
    with pytest.raises(ModelFileError, match="calls 'someone_else'"):
        tgp.Program.load(tmp_path / "model.program")


def test_descriptions_of_other_programs_are_refused(tmp_path):
    rows = jax.ShapeDtypeStruct((4, 2), np.float64)
    made = jax.export.export(jax.jit(lambda X: (X[:, 0],)), platforms=("cpu",))(rows).serialize()
    good = Description(("a", "b"), ("mean",), "float64", 4)
    write_program(tmp_path / "model.program", good, made)
    np.testing.assert_array_equal(tgp.Program.load(tmp_path / "model.program")(X[:4, :2])["mean"], X[:4, 0])
    for changed in ({"columns": ("a",)}, {"outputs": ("mean", "sd")}, {"dtype": "float32"}):
        write_program(tmp_path / "model.program", replace(good, **changed), made)
        with pytest.raises(ModelFileError, match="its description is of another program"):
            tgp.Program.load(tmp_path / "model.program")
