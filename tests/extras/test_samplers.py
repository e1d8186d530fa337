"""NUTS of NumPyro and of BlackJAX on the same density; ArviZ's diagnostics."""

import jax
import numpy as np
import pytest

import tightgp as tgp

blackjax = pytest.importorskip("blackjax")
numpyro = pytest.importorskip("numpyro")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

PRIORS = {"kernel.*": tgp.priors.LogNormal(0.0, 1.0), "noise_variance": tgp.priors.LogNormal(-2.0, 1.0)}
CHAINS, DRAWS = 2, 300


@pytest.fixture(scope="module")
def density():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(30, 1))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=30)
    return tgp.log_density(tgp.with_priors(tgp.ExactGP(tgp.kernels.Matern32(), 0.1), PRIORS), tgp.Dataset(X, y))


@pytest.fixture(scope="module")
def by_numpyro(density):
    from numpyro.infer import MCMC, NUTS

    nuts = NUTS(potential_fn=density.potential)
    run = MCMC(
        nuts, num_warmup=300, num_samples=DRAWS, num_chains=CHAINS, chain_method="sequential", progress_bar=False
    )
    run.run(jax.random.key(0), init_params=density.starts(jax.random.key(1), CHAINS))
    return run.get_samples(group_by_chain=True)


@pytest.fixture(scope="module")
def by_blackjax(density):
    def chain(key, start):
        warm_up, draws = jax.random.split(key)
        (state, settings), _ = blackjax.window_adaptation(blackjax.nuts, density).run(warm_up, start, 300)
        step = blackjax.nuts(density, **settings).step

        def one(state, key):
            state, info = step(key, state)
            return state, (state.position, info.is_divergent)

        return jax.lax.scan(one, state, jax.random.split(draws, DRAWS))[1]

    chains = jax.random.split(jax.random.key(2), CHAINS), density.starts(jax.random.key(3), CHAINS)
    return jax.jit(lambda chains: jax.lax.map(lambda one: chain(*one), chains))(chains)


def test_diagnostics_are_fine(density, by_numpyro, by_blackjax):
    arviz = pytest.importorskip("arviz")
    draws, diverging = by_blackjax
    for data in (density.inference_data(by_numpyro), density.inference_data(draws, {"diverging": diverging})):
        assert float(max(arviz.rhat(data).to_array())) < 1.05
        assert float(min(arviz.ess(data).to_array())) > 60
        assert (np.asarray(data["posterior"]["noise_variance"]) > 0).all()
    with pytest.raises(ValueError, match="single chain"):
        density.inference_data({name: a[0] for name, a in draws.items()})


def test_both_samplers_agree(density, by_numpyro, by_blackjax):
    one, other = (density.values(draws) for draws in (by_numpyro, by_blackjax[0]))
    for name in density.names:
        a, b = np.log(one[name]), np.log(other[name])
        assert abs(a.mean() - b.mean()) < 0.5 * a.std()
        assert 0.7 < a.std() / b.std() < 1.4
