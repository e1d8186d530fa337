"""New rows without training: the posterior of all rows together."""

from dataclasses import replace

import numpy as np
import pytest

import tightgp as tgp
from tightgp.data.partition import Partition

KERNEL = tgp.kernels.Matern32(1.2, [1.0, 1.5])
N, CUT = 60, 41


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (N, 2))
    y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=N)
    return tgp.Dataset(X, y, rng.uniform(0.01, 0.1, N)), rng.uniform(-2, 2, (7, 2))


def conditioned(post, data, first, last=None, **how):
    new = data.take(slice(first, last))
    return post.condition(new.X, new.y, noise_variance=new.noise_variance, **how)


def assert_same(one, other, X, **how):
    for a, b in zip(one.predict_f(X, full_cov=True, **how), other.predict_f(X, full_cov=True, **how), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)


def test_exact_posterior_knows_new_rows_and_forgets_old_ones(rows):
    data, X = rows
    model = tgp.ExactGP(KERNEL, 0.05, mean=tgp.means.Constant(0.3))
    post = model.posterior(data.take(slice(0, CUT)))
    later = conditioned(conditioned(post, data, CUT, CUT + 1), data, CUT + 1)
    assert_same(later, model.posterior(data), X)
    assert_same(conditioned(post, data, CUT, window=30), model.posterior(data.take(slice(N - 30, N))), X)
    assert_same(conditioned(later, data, 0, 5, window=12), model.posterior(data.take([*range(N - 7, N), *range(5)])), X)


@pytest.mark.parametrize("bound", ["spherical", tgp.PowerEP(0.5), tgp.Neighbours(8, block=4)])
def test_sparse_posterior_is_that_of_all_rows(rows, bound):
    data, X = rows
    model = tgp.SGPR(KERNEL, data.X[:8], 0.05, bound)
    post, batch = model.posterior(data.take(slice(0, CUT))), model.posterior(data)
    post.predict_f(X, neighbours=5)  # prepares the search, which then goes on
    later = conditioned(conditioned(post, data, CUT, CUT + 1), data, CUT + 1)
    assert_same(later, batch, X, neighbours=0)
    for a, b in zip(later.predict_f(X, neighbours=5), batch.predict_f(X, neighbours=5), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)
    if bound == "spherical":
        np.testing.assert_allclose(later.scales, batch.scales, rtol=1e-9)
    last = model.posterior(data.take(slice(N - 30, N)))
    assert_same(conditioned(post, data, CUT, window=30), last, X, neighbours=0)


def updated(m, S, rows, targets, cov):
    """N(m, S) times N(targets | rows w, cov), by the dense formula."""
    P = np.linalg.inv(S) + rows.T @ np.linalg.solve(cov, rows)
    return np.linalg.solve(P, np.linalg.solve(S, m) + rows.T @ np.linalg.solve(cov, targets)), np.linalg.inv(P)


def by_neighbours(count):
    """Vecchia: each new row by itself, given the nearest rows before it."""

    def seen(m, S, A, D, y, noise, X, cut):
        for i in range(cut, len(y)):
            near = np.argsort(np.sum(((X[:i] - X[i]) / np.asarray(KERNEL.lengthscale)) ** 2, axis=1))[:count]
            h = np.linalg.solve(D[np.ix_(near, near)] + np.diag(noise[near]), D[near, i])
            var = D[i, i] + noise[i] - D[i, near] @ h
            m, S = updated(m, S, (A[i] - h @ A[near])[None], y[i : i + 1] - h @ y[near], var.reshape(1, 1))
        return m, S

    return seen


def by_blocks(alpha, size):
    """Power EP: blocks of new rows, whose targets have the covariance ``αD + Σ`` given u."""

    def seen(m, S, A, D, y, noise, X, cut):
        order = cut + Partition(size, "locality").order(X[cut:], np.asarray(KERNEL.lengthscale))
        for b in np.split(order, range(size, len(order), size)):
            m, S = updated(m, S, A[b], y[b], alpha * D[np.ix_(b, b)] + np.diag(noise[b]))
        return m, S

    return seen


@pytest.mark.parametrize(
    ("bound", "seen"),
    [(tgp.Vecchia(6, block=1), by_neighbours(6)), (tgp.PowerEP(0.7, block=4), by_blocks(0.7, 4))],
    ids=["vecchia", "power_ep"],
)
def test_new_blocks_come_after_the_others(rows, bound, seen):
    data, X = rows
    post = tgp.SGPR(KERNEL, data.X[:8], 0.05, bound).posterior(data.take(slice(0, CUT)))
    (group,) = post.latents
    A, A_new = np.asarray(group.rows(data.X)), np.asarray(group.rows(X))
    root = np.asarray(group.q[0].root[0])
    given = A, np.asarray(KERNEL(data.X)) - A @ A.T, data.y, 0.05 + data.noise_variance, data.X, CUT
    m, S = seen(np.asarray(group.q[0].mean[:, 0]), root @ root.T, *given)
    mean, cov = conditioned(post, data, CUT).predict_f(X, full_cov=True, neighbours=0)
    np.testing.assert_allclose(mean, A_new @ m, atol=1e-9)
    np.testing.assert_allclose(cov, np.asarray(KERNEL(X)) - A_new @ A_new.T + A_new @ S @ A_new.T, atol=1e-9)


def test_a_window_of_blocks_forgets_what_came_before(rows):
    data, X = rows
    post = tgp.SGPR(KERNEL, data.X[:8], 0.05, tgp.Vecchia(6, block=4)).posterior(data.take(slice(0, CUT)))
    alike = data.take([*range(20), *range(CUT - 20, CUT)])
    other = tgp.SGPR(KERNEL, data.X[:8], 0.05, tgp.Vecchia(6, block=4)).posterior(alike)
    window = N - CUT + 20
    one, another = (conditioned(p, data, CUT, window=window) for p in (post, other))
    assert_same(one, another, X)
    assert one.training.rows.num_rows == window


def test_kernels_without_lengthscales_keep_their_metric(rows, tmp_path):
    """Inputs are divided by the standard deviations of the first rows, whatever rows come, go or are loaded."""
    data, X = rows
    first, new = data.take(slice(0, CUT)), data.take(slice(CUT, N))
    new_X = new.X * [5.0, 0.1]
    model = tgp.SGPR(tgp.kernels.Linear() + tgp.kernels.Constant(), data.X[:3], 0.05, tgp.Block(8))
    for window in (None, 40, 10):
        later = model.posterior(first).condition(new_X, new.y, window=window)
        np.testing.assert_allclose(later.training.metric, first.X.std(axis=0), rtol=1e-12)
        before = later.predict_f(X, neighbours=5)
        tgp.save(later, tmp_path / "later.safetensors")
        loaded = tgp.load(tmp_path / "later.safetensors")
        for a, b in zip(before, loaded.predict_f(X, neighbours=5), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-12)
        more = [one.condition(X, X[:, 0]) for one in (later, loaded)]
        assert_same(*more, X)
    assert len(loaded.training.rows.X) == 10


def test_what_was_prepared_for_other_hyperparameters_is_not_used(rows):
    data, X = rows
    first = data.take(slice(0, CUT))
    post = tgp.SGPR(KERNEL, data.X[:8], 0.05).posterior(first)
    other = replace(tgp.SGPR(KERNEL, data.X[:8], 0.5).posterior(first), training=post.training)
    post.predict_f(X, neighbours=5)  # prepares the rows that both have
    later = conditioned(other, data, CUT)
    assert "neighbours" not in later.training.prepared
    fresh = replace(later, training=replace(later.training))
    assert_same(later, fresh, X, neighbours=5)


def test_explicit_q_and_several_outputs(rows):
    data, X = rows
    Y = np.stack([np.asarray(data.y), np.cos(data.X[:, 0])], axis=1)
    sgpr = tgp.SGPR(KERNEL, data.X[:8], 0.05)
    first, both = tgp.Dataset(data.X[:CUT], Y[:CUT]), tgp.Dataset(data.X, Y)
    optimal = sgpr.posterior(first).latents[0].q[0]
    svgp = tgp.SVGP(KERNEL, tgp.likelihoods.Gaussian(0.05), data.X[:8], num_latents=2)
    svgp = tgp.assign(svgp, {"q.mean": optimal.mean, "q.root": np.repeat(np.asarray(optimal.root), 2, axis=0)})
    for post in (svgp.posterior(), svgp.posterior(first), sgpr.posterior(first)):
        later = post.condition(data.X[CUT:], Y[CUT:])
        assert_same(later, sgpr.posterior(both), X)


def test_what_cannot_be_conditioned_says_so(rows):
    data, X = rows
    y = np.zeros(len(X))
    counts = tgp.SVGP(KERNEL, tgp.likelihoods.Poisson(), data.X[:8]).posterior()
    with pytest.raises(ValueError, match="Gaussian noise, not Poisson"):
        counts.condition(X, y)
    diagonal = tgp.SVGP(KERNEL, tgp.likelihoods.Gaussian(), data.X[:8], covariance="diagonal").posterior()
    with pytest.raises(ValueError, match="full covariance"):
        diagonal.condition(X, y)
    post = tgp.SGPR(KERNEL, data.X[:8], 0.05, tgp.Vecchia(6)).posterior(data).without_rows()
    with pytest.raises(ValueError, match="needs the training rows"):
        post.condition(X, y)
    post = tgp.SGPR(KERNEL, data.X[:8], 0.05, tgp.PowerEP(0.5)).posterior(data).without_rows()
    with pytest.raises(ValueError, match="rows of a model under Power EP or Vecchia"):
        post.condition(X, y)
    known = tgp.SGPR(KERNEL, data.X[:8], None).posterior(data)
    for noise in (None, np.where(np.arange(len(X)), 0.1, 0.0)):
        with pytest.raises(ValueError, match="noise_variance of new rows must be above zero"):
            known.condition(X, y, noise_variance=noise)
    missing = tgp.Dataset(data.X, np.where(np.arange(N) == 3, np.nan, data.y), missing=True)
    svgp = tgp.SVGP(KERNEL, tgp.likelihoods.Gaussian(0.05), data.X[:8]).posterior(missing)
    with pytest.raises(ValueError, match="window needs training rows without missing targets"):
        svgp.condition(X, y, window=5)
    post = tgp.SGPR(KERNEL, data.X[:8], 0.05).posterior(data)
    with pytest.raises(ValueError, match=r"y must have shape \(7,\)"):
        post.condition(X, y[:3])
    with pytest.raises(ValueError, match="window"):
        post.condition(X, y, window=0)
    with pytest.raises(ValueError, match="window needs the training rows"):
        post.without_rows().condition(X, y, window=5)
