"""Time of a posterior that takes new rows, as a ratio to making it again: ``python -m benchmarks.streaming``.

Both are measured in this process, in CPU seconds, after their programs are compiled.
"""

import argparse
import json
import time
from functools import partial

import jax
import numpy as np

import tightgp as tgp


def seconds(action, repeats: int) -> float:
    """CPU seconds of one call, the median of some; the first, which compiles, is left out."""
    taken = []
    for _ in range(repeats + 1):
        began = time.process_time()
        jax.block_until_ready(action().latents)
        taken.append(time.process_time() - began)
    return float(np.median(taken[1:]))


def made_again(model, data: tgp.Dataset):
    """The posterior of data that no call has seen."""
    return model.posterior(tgp.Dataset(data.X, data.y))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--new", type=int, nargs="+", default=[1, 100])
    parser.add_argument("--inducing", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    for n in given.rows:
        X = rng.uniform(-2, 2, size=(n + max(given.new), 3))
        y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=len(X))
        kernel = tgp.kernels.Matern32()
        models = {
            "diagonal": tgp.SGPR(kernel, X[: given.inducing], 0.01),
            "vecchia": tgp.SGPR(kernel, X[: given.inducing], 0.01, tgp.Vecchia(32)),
        }
        if n <= 2000:
            models["exact"] = tgp.ExactGP(kernel, 0.01)
        for name, model in models.items():
            post = model.posterior(tgp.Dataset(X[:n], y[:n]))
            for k in given.new:
                together, new = tgp.Dataset(X[: n + k], y[: n + k]), slice(n, n + k)
                again = seconds(partial(made_again, model, together), 2)
                update = seconds(partial(post.condition, X[new], y[new]), given.repeats)
                found = {"model": name, "rows": n, "new": k, "ms": 1e3 * update, "ratio": again / update}
                print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
