"""Measure the noise of minibatches made of blocks of neighbours: the variance of the gradient, against random batches.

On Kin40k, at an SVGP after some epochs of Adam, under the same diagonal bound.

    TIGHTGP_DATA=... python -m experiments.batches
"""

from collections.abc import Callable

import equinox as eqx
import jax
import numpy as np
from jax.flatten_util import ravel_pytree

import tightgp as tgp
from experiments.reproduction import rows
from tightgp import parameters

INDUCING, BATCH, BLOCK, EPOCHS, DRAWS = 128, 1024, 64, 10, 60


def main() -> None:
    data = rows.parts("kin40k", 0, quick=False).train
    start = tgp.SVGP(
        tgp.kernels.Matern32(1.0, 2.0), tgp.likelihoods.Gaussian(0.2), tgp.inducing.kmeans(data.X, INDUCING, seed=0)
    )
    model = tgp.fit(start, data, "adam", batch_size=BATCH, epochs=EPOCHS).model
    point, fixed = eqx.partition(model, parameters.trainable(model))

    @jax.jit
    def gradient(X, y):
        def elbo(point):
            return eqx.combine(point, fixed).elbo(tgp.Dataset(X, y), num_data=data.num_data)

        return ravel_pytree(jax.grad(elbo)(point))[0]

    def variance(drawn: Callable[[], np.ndarray]) -> float:
        found = [gradient(data.X[batch], data.y[batch]) for batch in (drawn() for _ in range(DRAWS))]
        return float(np.var(np.stack(found), axis=0).sum())

    rng = np.random.default_rng(0)
    near = tgp.Block(BLOCK).partition.order(data.X, np.ones(data.num_inputs))
    blocks = near[: len(near) // BLOCK * BLOCK].reshape(-1, BLOCK)
    alone = variance(lambda: rng.permutation(data.num_data)[:BATCH])
    together = variance(lambda: blocks[rng.permutation(len(blocks))[: BATCH // BLOCK]].ravel())
    print(f"variance of the gradient, blocks of {BLOCK} neighbours / rows at random: {together / alone:.1f}")


if __name__ == "__main__":
    main()
