"""The rate of a plain matrix product, for the limits: the better of XLA's and NumPy's."""

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.workers.common import timed, versions

jax.config.update("jax_enable_x64", True)


def probe() -> dict:
    return {"versions": versions("jax", "jaxlib", "numpy"), "device": jax.devices()[0].device_kind}


def rate(dtype: str, n: int, m: int, budget: float) -> dict:
    """Operations a second of (n, m) times (m, m); a multiplication and an addition are two."""
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(n, m)).astype(dtype), rng.normal(size=(m, m)).astype(dtype)
    on_cpu = jax.default_backend() == "cpu"
    with jax.default_matmul_precision("highest"):  # otherwise a GPU rounds float32 to fewer bits
        C, D = jnp.asarray(A), jnp.asarray(B)
        product = jax.jit(lambda C, D: C @ D)
        ways = {"XLA": timed(lambda: jax.block_until_ready(product(C, D)), budget)["seconds"]}
    if on_cpu:
        ways["NumPy"] = timed(lambda: A @ B, budget)["seconds"]
    name = min(ways, key=lambda way: min(ways[way]))
    return {"seconds": ways[name], "variant": name, "flops_per_second": 2 * n * m * m / min(ways[name])}


TASKS = {"rate": rate}
