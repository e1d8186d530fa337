"""The certificate: its bracket holds at every effort, and its parts are what their docstrings say, by dense algebra."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tightgp as tgp
from tests.reference import Dense
from tightgp.bounds import certificate, probes
from tightgp.bounds.certificate import BLOCK, Certifier
from tightgp.bounds.sparse_root import covariance_times
from tightgp.data.neighbours import arrival
from tightgp.numerics import conjugate

N, M, D, GIVEN = 80, 6, 2, 7
PROBLEMS = [(seed, noise) for seed, noise in enumerate([1.01e-6, 1e-4, 1e-2, 0.1, 1.0])]


def build(seed, noise, given=GIVEN, neighbours=(4, 16, N)):
    """A certifier, and the dense problem. Inducing points are rows for even seeds; odd seeds have duplicate rows."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(N, D))
    X[: N // 4 * (seed % 2)] = X[N // 2 : N // 2 + N // 4 * (seed % 2)]
    y = np.stack([np.sin(2 * X[:, 0]), X[:, 1]], axis=1) + np.sqrt(noise) * rng.normal(size=(N, 2))
    known = noise * rng.uniform(0, 1, size=N)
    kernel = tgp.kernels.Matern32(10 ** rng.uniform(-1, 1), rng.uniform(0.3, 3, size=D))
    mean, data = tgp.means.Constant([0.3, -0.2]), tgp.Dataset(X, y, known)
    Z = X[:: N // M][:M] + (0.1 * rng.normal(size=(M, D)) if seed % 2 else 0.0)
    model = tgp.SGPR(kernel, Z, noise, mean=mean)
    parts = certificate.prepare(model._process(), data.rows(), np.ones(D), 1e-6)
    certifier = Certifier(parts, model.evidence_bracket(data), given, neighbours)
    return certifier, Dense(kernel, X, y, Z, noise, mean=np.array([0.3, -0.2]), known=known)


@pytest.mark.parametrize(("seed", "noise"), PROBLEMS)
def test_the_bracket_holds_and_narrows_with_all_work(seed, noise):
    """lower ≤ evidence ≤ upper whatever has been done; more steps and more neighbours never widen it."""
    certifier, dense = build(seed, noise)
    evidence = dense.evidence()
    slack = 1e-8 * (abs(evidence) + N)
    ends = [certifier.ends]
    for what in ["solve", "determinant", "solve", "determinant", *["solve"] * 20]:
        certifier.work(what)
        ends.append(certifier.ends)
    lower, upper, certain = (np.array([getattr(e, name) for e in ends]) for name in ("lower", "upper", "certain_upper"))
    assert np.all(lower <= evidence + slack)
    assert np.all(evidence <= upper + slack)
    assert np.all(upper <= certain)
    assert np.all(np.diff(lower) >= 0)
    assert np.all(np.diff(upper) <= 0)
    assert lower[-1] > lower[0]
    assert upper[-1] < upper[0]
    # All earlier rows are conditioners now and the solver has converged: the lower bound is the evidence.
    assert lower[-1] == pytest.approx(evidence, abs=1e-6 * N)
    assert certifier.ends.estimate == pytest.approx(evidence, abs=0.2 * N)


def covariance(dense):
    scale = 1 / np.sqrt(dense.noise)
    return np.eye(N) + dense.K * np.outer(scale, scale)


def test_the_sparse_root_against_dense_algebra():
    certifier, dense = build(0, 0.01)
    root, n = certifier.root, len(certifier.problem.rows.X)
    G, here = np.asarray(root.apply(jnp.eye(n))), np.asarray(certifier.problem.rows.scale) > 0
    C = np.asarray(covariance_times(certifier.problem.kernel, certifier.problem.rows, jnp.eye(n)))
    eigenvalues = np.linalg.eigvalsh(covariance(dense))
    np.testing.assert_allclose(np.linalg.eigvalsh(C[np.ix_(here, here)]), eigenvalues, rtol=1e-9)
    B = (G @ C @ G.T)[np.ix_(here, here)]
    np.testing.assert_allclose(np.diag(B), 1.0, rtol=1e-9)
    np.testing.assert_allclose(root.transposed(jnp.eye(n)), G.T, atol=1e-12)
    order = jnp.asarray(arrival(len(root.groups), 0))
    np.testing.assert_allclose(np.asarray(root.solve(jnp.asarray(G), order))[np.ix_(here, here)], np.eye(N), atol=1e-9)
    assert float(root.logdet) == pytest.approx(-2 * np.linalg.slogdet(G[np.ix_(here, here)])[1], rel=1e-10)
    assert float(root.logdet) > np.sum(np.log(eigenvalues))
    assert n == -(-N // BLOCK) * BLOCK


def test_the_root_is_exact_where_all_earlier_rows_are_given():
    certifier, dense = build(2, 0.01, neighbours=(N,))
    exact = np.linalg.slogdet(covariance(dense))[1]
    assert float(certifier.root.logdet) == pytest.approx(exact, rel=1e-9)


def test_quadratures_bound_the_logarithm_and_are_exact_for_low_degrees(rng):
    A = rng.normal(size=(30, 30))
    B = A @ A.T + 0.5 * np.eye(30)
    w = rng.normal(size=(30, 1))
    _, taken = conjugate.advance(lambda U: jnp.asarray(B) @ U, conjugate.start(jnp.asarray(w)), 6)
    values, vectors = np.linalg.eigh(B)
    weights = (vectors.T @ w)[:, 0] ** 2 / np.sum(w * w)
    gauss, radau = conjugate.quadratures(np.asarray(taken.step)[:, 0], np.asarray(taken.ratio)[:, 0], 0.5)
    truth = -weights @ np.log(values)
    assert gauss.mean(lambda v: -np.log(v)) < truth < radau.mean(lambda v: -np.log(v))
    for degree in (1, 5, 11):
        assert gauss.mean(lambda v, d=degree: v**d) == pytest.approx(weights @ values**degree, rel=1e-8)
        assert radau.mean(lambda v, d=degree: v**d) == pytest.approx(weights @ values**degree, rel=1e-8)
    assert radau.at[0] == pytest.approx(0.5)


def test_the_excess_is_above_the_truth_and_the_estimate_near(rng):
    """Of a matrix with a unit diagonal, over many draws of the probes."""
    A = rng.normal(size=(60, 60))
    C = A @ A.T / 60 + np.eye(60)
    G = np.diag(1 / np.sqrt(np.diag(C)))
    B, truth = G @ C @ G, -np.linalg.slogdet(G @ C @ G)[1]
    steps, found = jax.jit(lambda w: conjugate.advance(lambda U: B @ U, conjugate.start(w), 8)[1]), []
    for _ in range(20):
        w = rng.normal(size=(60, 64))
        taken = steps(w)
        stretch = np.max(np.sum(np.linalg.solve(G, w) ** 2, axis=0))
        found.append(probes.excess(np.asarray(taken.step), np.asarray(taken.ratio), np.sum(w * w, axis=0), stretch))
    assert all(truth < one.most < truth + 0.5 * 60 for one in found)
    assert np.mean([one.estimate for one in found]) == pytest.approx(truth, rel=0.05)
    assert all(0 <= one.open < 0.01 for one in found)


def test_effort_and_seconds(problem):
    data, Z, kernel = problem
    evidence = float(tgp.ExactGP(kernel, 0.2).log_evidence(data))
    model = tgp.SGPR(kernel, Z, 0.2, bound=tgp.Vecchia(8))
    cheap, tight = model.evidence_bracket(data), model.evidence_bracket(data, effort=0.02, seconds=600)
    assert cheap.certificate is None
    assert cheap.lower < tight.lower <= evidence + 1e-6
    assert evidence <= tight.upper <= cheap.upper
    assert tight.certificate.steps % 5 == 0
    assert f"{tight.certificate.steps} steps" in str(tight.certificate)
    assert tight.distance(evidence) <= tight.nats_per_point * (1 + 1e-9)
    assert model.evidence_bracket(data, effort=1e3).certificate is None
    assert model.evidence_bracket(data, seconds=1e-3).certificate is None


def test_what_has_no_certificate_is_refused(problem):
    data, Z, kernel = problem
    model = tgp.SGPR(kernel, Z, 0.2)
    with pytest.raises(ValueError, match="effort must be positive"):
        model.evidence_bracket(data, effort=0.0)
    with pytest.raises(ValueError, match="seconds must be positive"):
        model.evidence_bracket(data, seconds=-1)
    single = tgp.Dataset(data.X.astype("float32"), data.y.astype("float32"))
    with pytest.raises(ValueError, match="64-bit"):
        tgp.SGPR(kernel, Z.astype("float32"), 0.2).evidence_bracket(single, effort=0.1)
    uncertain = tgp.Dataset(data.X, data.y, input_variance=0.1)
    with pytest.raises(ValueError, match="inputs that are known"):
        tgp.SGPR(tgp.kernels.SquaredExponential(), Z, 0.2).evidence_bracket(uncertain, effort=0.1)
