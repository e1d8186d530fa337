"""Small models and data for the tests of training."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import tightgp as tgp
from tightgp import likelihoods as lk
from tightgp.data.placement import on_device
from tightgp.data.rows import Rows


def sgpr(data, **options):
    """A collapsed model of `snelson_like`."""
    Z = tgp.inducing.subset(data.X, 7, seed=0)
    return tgp.SGPR(tgp.kernels.SquaredExponential(0.5, 1.0), Z, 0.26, **options)


def svgp(data, **options):
    """A model of `waves` with an explicit q(u)."""
    Z = np.linspace(-3, 3, 8)[:, None]
    return tgp.SVGP(tgp.kernels.SquaredExponential(1.0, 1.0), lk.Gaussian(0.1), Z, **options)


def train_on_batches(model, data, **options):
    settings = {"batch_size": 50, "epochs": 8, "learning_rate": 0.02, "progress": False}
    return tgp.fit(model, data, **{**settings, **options})


class Cliff(eqx.Module):
    """Maximise −(x − 3)², where everything beyond 2.5 is not a number."""

    x: tgp.parameters.Parameter

    def ungrouped(self):
        return self

    def prepare(self, data):
        return self, on_device(Rows(np.zeros((1, 1)), np.zeros((1, 1)), np.ones(1)))

    def objective(self, rows, key=None):
        x = self.x.value
        return jnp.where(x < 2.5, -((x - 3.0) ** 2), jnp.nan), {}

    def random_start(self, key, rows):
        return self

    def explain(self, rows):
        return "beyond the cliff"


def assert_same(one, other):
    """Two results are equal bit for bit, except for their times."""
    for name in ("message", "reason", "objective", "evaluations", "restarts"):
        assert getattr(one, name) == getattr(other, name)
    for a, b in zip(jax.tree.leaves(one.model), jax.tree.leaves(other.model), strict=True):
        np.testing.assert_array_equal(a, b)
    assert one.trace.keys() == other.trace.keys()
    for name in set(one.trace) - {"steps_per_second"}:
        np.testing.assert_array_equal(one.trace[name], other.trace[name])
