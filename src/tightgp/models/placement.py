"""Where new rows lie among latent inputs: q of theirs, when everything else is known (maths 7.8)."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tightgp import uncollapsed
from tightgp.conditionals import Conditional
from tightgp.data import Batch, Dataset
from tightgp.models.base import Model
from tightgp.models.latent_inputs import LatentInputs
from tightgp.posterior import Posterior
from tightgp.uncollapsed import Functions


class Placement(Model):
    """New rows, whose latent inputs alone are trained: each row's by itself, for the functions are known."""

    posterior: Posterior
    inputs: LatentInputs
    v: Float[Array, " l"] | None
    structure: Conditional = eqx.field(static=True)

    def prepare(self, data: Dataset) -> tuple["Placement", Batch]:
        self.inputs.check(data)
        weight = np.ones(data.num_data, data.X.dtype)
        batch = Batch(data.X, data.targets, data.noise_variance, weight, jax.random.key(0), data.spread)
        return self, jax.tree.map(jnp.asarray, batch)

    def objective(self, rows: Batch) -> tuple[Float[Array, ""], dict[str, Any]]:
        return _objective(self, rows), {}

    def random_start(self, key, rows: Batch) -> "Placement":
        return eqx.tree_at(lambda m: m.inputs, self, self.inputs.perturbed(key))

    def explain(self, rows: Batch) -> str:
        return "the latent inputs of new rows ran away; look for rows of Y that are unlike all others"


@eqx.filter_jit
def _objective(model: Placement, rows: Batch) -> Float[Array, ""]:
    post, inputs = model.posterior, model.inputs
    functions = Functions(post.latents, post.mixing, post.mean, post.likelihood, model.v)
    there = rows._replace(X=inputs.among(rows.X, rows.spread), spread=inputs.spread(rows.spread))
    value = uncollapsed.rows_term(functions, there, model.structure).value
    return value - inputs.divergence(rows.X, rows.spread, rows.weight)


@eqx.filter_jit
def each_objective(model: Placement, rows: Batch) -> Float[Array, " n"]:
    """The objective of each row by itself."""

    def one(inputs, row):
        alone = jax.tree.map(lambda a: a[None], (inputs, row))
        return _objective(eqx.tree_at(lambda m: m.inputs, model, alone[0]), alone[1]._replace(key=rows.key))

    return jax.lax.map(lambda both: one(*both), (model.inputs, rows._replace(key=None)), batch_size=64)
