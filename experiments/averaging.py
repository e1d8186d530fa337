"""Predictions that average over hyperparameters, beside those of one best value: ``python -m experiments.averaging``.

Exact GPs on a few rows of real sets, where the hyperparameters are uncertain: by maximum evidence, by maximum a
posteriori under the priors below, and averaged over draws of NUTS under the same priors.
Needs ``pip install 'tightgp[mcmc]'``.
"""

import argparse
import json
import math
from pathlib import Path

import blackjax
import jax
import numpy as np
from sklearn.datasets import load_diabetes

import tightgp as tgp

CHAINS, WARM_UP, DRAWS, AVERAGED = 4, 300, 500, 50
TEST_ROWS = 1000


def rows(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets of a set."""
    if name == "diabetes":
        return load_diabetes(return_X_y=True)
    loaded = tgp.datasets.load(name)
    return loaded.X, loaded.y


def split(X, y, count: int, seed: int) -> tuple[tgp.Dataset, tgp.Dataset]:
    """Training and test rows, standardised by the training rows."""
    order = np.random.default_rng(seed).permutation(len(X))
    train, test = order[:count], order[count : count + TEST_ROWS]
    X, y = X[:, np.std(X[train], axis=0) > 0], y.astype(float)
    X = (X - X[train].mean(axis=0)) / X[train].std(axis=0)
    y = (y - y[train].mean()) / y[train].std()
    return tgp.Dataset(X[train], y[train]), tgp.Dataset(X[test], y[test])


def priors(d: int) -> dict[str, tgp.priors.Prior]:
    """Weak priors for standardised rows."""
    return {
        "kernel.variance": tgp.priors.LogNormal(0.0, 1.0),
        "kernel.lengthscale": tgp.priors.LogNormal(0.5 * math.log(d) + 0.5, 1.0),
        "noise_variance": tgp.priors.LogNormal(-1.5, 1.5),
    }


def nuts(density, key):
    """Draws (chains, draws, ...) of BlackJAX's NUTS, and which of them diverged."""

    def chain(key, start):
        warm_up, draws = jax.random.split(key)
        adaptation = blackjax.window_adaptation(blackjax.nuts, density)
        (state, settings), _ = adaptation.run(warm_up, start, WARM_UP)
        step = blackjax.nuts(density, **settings).step

        def one(state, key):
            state, info = step(key, state)
            return state, (state.position, info.is_divergent)

        return jax.lax.scan(one, state, jax.random.split(draws, DRAWS))[1]

    start_key, key = jax.random.split(key)
    chains = jax.random.split(key, CHAINS), density.starts(start_key, CHAINS)
    return jax.jit(lambda chains: jax.lax.map(lambda one: chain(*one), chains))(chains)


def run(name: str, count: int, seed: int, ard: bool) -> dict:
    import arviz

    train, test = split(*rows(name), count, seed)
    d = train.num_inputs
    plain = tgp.ExactGP(tgp.kernels.Matern52(lengthscale=np.full(d, math.sqrt(d)) if ard else math.sqrt(d)), 0.2)
    best = tgp.fit(plain, train, restarts=2, progress=False).model
    mode = tgp.fit(tgp.with_priors(plain, priors(d)), train, restarts=2, progress=False).model
    density = tgp.log_density(mode, train)
    draws, diverging = nuts(density, jax.random.key(seed))
    summary = arviz.summary(
        density.inference_data(draws, {"diverging": diverging}), kind="diagnostics", round_to="none"
    )

    def score(post) -> float:
        return float(np.mean(post.log_density(test.X, test.y)))

    return {
        "set": name,
        "rows": count,
        "ard": ard,
        "seed": seed,
        "maximum evidence": score(best.posterior(train)),
        "maximum a posteriori": score(mode.posterior(train)),
        "average over draws": score(density.posterior(draws, AVERAGED)),
        "worst R-hat": float(summary["r_hat"].max()),
        "least effective sample size": float(summary["ess_bulk"].min()),
        "divergences": int(np.sum(diverging)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=["diabetes", "kin40k"])
    parser.add_argument("--rows", type=int, default=30)
    parser.add_argument("--ard", action="store_true", help="a lengthscale for each input")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("experiments/results/averaging.jsonl"))
    given = parser.parse_args()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    with given.out.open("w", encoding="utf-8") as out:
        for name in given.sets:
            for seed in range(given.splits):
                line = json.dumps(run(name, given.rows, seed, given.ard))
                print(line, flush=True)
                out.write(line + "\n")


if __name__ == "__main__":
    main()
