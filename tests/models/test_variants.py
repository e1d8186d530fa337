"""SOLVE-GP, ODVGP and the full variational GP: dense references and order."""

import numpy as np
from hypothesis import given

import tightgp as tgp
from tests.models.problems import M, Q, build, laws, problems, random_q
from tests.reference import Uncollapsed
from tightgp import likelihoods as lk


@laws
@given(problems)
def test_solve_gp(problem):
    """Between its standard bound and the evidence; ODVGP is SOLVE-GP with the prior's second covariance (§6)."""
    kernel, data, Z, noise, rng = build(problem)
    O = data.X[M : M + Q] + 0.05  # noqa: E741
    (mean, root), (mean_o, root_o) = random_q(rng, M), random_q(rng, Q)
    first = {"q.mean": mean, "q.root": root, "q_orthogonal.mean": mean_o}
    S, S_o = root[0] @ root[0].T, root_o[0] @ root_o[0].T
    common = (kernel, data.X, data.y, Z, noise, mean[:, 0], S, 1e-6, data.noise_variance, O, mean_o[:, 0])
    evidence = float(tgp.ExactGP(kernel, noise).log_evidence(data))
    for bound in ("standard", "diagonal"):
        solve = tgp.assign(tgp.SOLVEGP(kernel, lk.Gaussian(noise), Z, O, bound), {**first, "q_orthogonal.root": root_o})
        odvgp = tgp.assign(tgp.ODVGP(kernel, lk.Gaussian(noise), Z, O, bound), first)
        dense, prior = Uncollapsed(*common, S_o), Uncollapsed(*common, np.eye(Q))
        values = [float(solve.elbo(data)), float(odvgp.elbo(data))]
        wanted = [d.scaled() if bound == "standard" else d.tight() for d in (dense, prior)]
        np.testing.assert_allclose(values, wanted, rtol=1e-8)
        assert max(values) <= evidence
        if bound == "standard":
            standard = values
    assert np.all(np.array(values) >= np.array(standard) - 1e-9 * abs(evidence))


def test_odvgp_holds_its_second_covariance_in_training(problem):
    data, Z, kernel = problem
    model = tgp.ODVGP(kernel, lk.Gaussian(0.1), Z, data.X[10:14])
    result = tgp.fit(model, data, steps=5, progress=False)
    np.testing.assert_array_equal(result.model.q_orthogonal.root, model.q_orthogonal.root)
    assert not np.array_equal(result.model.q_orthogonal.mean, model.q_orthogonal.mean)
    assert "4 orthogonal" in repr(result.model)


def test_full_variational_gp_is_no_worse_than_sparse_ones(rng):
    X = np.linspace(-5, 5, 30)[:, None]
    data = tgp.Dataset(X, rng.poisson(3.5 + 3 * np.sin(X[:, 0])))
    kernel = tgp.kernels.SquaredExponential()
    full = tgp.fit(tgp.VGP(kernel, lk.Poisson(), X), data, progress=False)
    values = [full.objective]
    for bound in ("spherical", "standard"):
        values.append(tgp.fit(tgp.SVGP(kernel, lk.Poisson(), X[::7], bound), data, progress=False).objective)
    assert values[0] >= values[1] >= values[2]
    np.testing.assert_array_equal(full.model.Z, X)
