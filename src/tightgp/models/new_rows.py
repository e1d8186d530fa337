"""New rows of a GP-LVM: q of their latent inputs, given everything else (maths 7.8)."""

from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Float

from tightgp.bounds import uncollapsed
from tightgp.bounds.structures import Structure
from tightgp.bounds.uncollapsed import Functions
from tightgp.data import Dataset
from tightgp.data.placement import OnDevice, PlacedRows, on_device
from tightgp.data.rows import Rows
from tightgp.models.base import Model
from tightgp.models.latent_inputs import LatentInputs
from tightgp.posterior import Posterior


class NewRows(Model):
    """New rows of a GP-LVM. Training finds their latent inputs alone, each row's by itself, since q(u) is known."""

    posterior: Posterior
    inputs: LatentInputs
    v: Float[Array, " l"] | None
    structure: Structure = eqx.field(static=True)

    def prepare(self, data: Dataset) -> tuple["NewRows", OnDevice]:
        self.inputs.check(data)
        return self, on_device(data.rows())

    def value_on(self, rows: PlacedRows, key: jax.Array | None = None) -> tuple[Float[Array, ""], dict[str, Any]]:
        assert isinstance(rows, OnDevice)
        return _objective(self, rows.rows, jax.random.key(0) if key is None else key), {}

    def random_start(self, key: jax.Array, rows: PlacedRows) -> "NewRows":
        return eqx.tree_at(lambda m: m.inputs, self, self.inputs.perturbed(key))

    def explain(self, rows: PlacedRows) -> str:
        return "the latent inputs of new rows ran away; look for rows of Y that are unlike all others"


@eqx.filter_jit
def _objective(model: NewRows, rows: Rows, key: jax.Array) -> Float[Array, ""]:
    post, inputs = model.posterior, model.inputs
    functions = Functions(post.latents, post.mixing, post.mean, post.likelihood, model.v)
    value = uncollapsed.rows_term(functions, OnDevice(inputs.placed(rows)), model.structure, key).value
    return value - inputs.divergence(rows)


@eqx.filter_jit
def row_objectives(model: NewRows, rows: OnDevice) -> Float[Array, " n"]:
    """The objective of each row by itself."""

    def one(inputs_and_row):
        inputs, row = jax.tree.map(lambda a: a[None], inputs_and_row)
        return _objective(eqx.tree_at(lambda m: m.inputs, model, inputs), row, jax.random.key(0))

    return jax.lax.map(one, (model.inputs, rows.rows), batch_size=64)
