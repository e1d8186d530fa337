"""Where new rows lie among the latent inputs that a `GPLVM` has learnt (maths 7.8)."""

import jax
import jax.numpy as jnp
import numpy as np

from tightgp import checks, parameters, predictive
from tightgp.conditionals import DIAGONAL
from tightgp.data import Dataset
from tightgp.models.gplvm import GPLVM
from tightgp.models.latent_inputs import LatentInputs
from tightgp.models.placement import Placement, each_objective
from tightgp.posterior import Posterior
from tightgp.training import fit

#: Distances between new rows and training rows held at a time.
_MOST_DISTANCES = 1 << 22


def place(
    model: GPLVM,
    data: Dataset,
    new: Dataset,
    *,
    posterior: Posterior | None = None,
    starts: int = 3,
    steps: int = 200,
    progress: bool = False,
) -> LatentInputs:
    """q of the latent inputs of ``new`` rows, given the ``model`` trained on ``data``.

    Outputs that were not seen are NaN in ``Dataset.latent(Y, Q, missing=True)``. Each row starts from the latent
    inputs of the ``starts`` training rows whose outputs are nearest to its own, and keeps the best; L-BFGS takes up to
    ``steps`` steps from each. ``posterior`` is ``model.posterior(data)``, where that is at hand.

    >>> inputs = place(result.model, data, Dataset.latent(Y_new, 7))
    >>> inputs.mean, inputs.variance
    """
    if not isinstance(model, GPLVM):
        raise ValueError(f"model must be a trained tightgp.GPLVM, got {type(model).__name__}")
    checks.count("starts", starts, len(model.inputs.mean), "the number of training rows")
    checks.count("steps", steps)
    if not isinstance(data, Dataset):
        raise ValueError(f"data must be the Dataset that model was trained on, got {type(data).__name__}")
    if not isinstance(new, Dataset) or (new.num_outputs, new.num_inputs) != (data.num_outputs, data.num_inputs):
        raise ValueError(f"new must be a Dataset with {data.num_outputs} output(s) and {data.num_inputs} input(s)")
    checks.same_dtype("y of new", new.y, "the model", model.inputs.mean)
    posterior = model.posterior(data) if posterior is None else posterior
    try:
        posterior.likelihood.check_targets(np.asarray(new.targets))
    except ValueError as error:
        raise ValueError(f"new: {error}") from None
    near = nearest(_outputs(posterior, model.inputs, data), np.asarray(new.targets), starts)
    best, values = model.inputs.take(near[:, 0]), np.full(new.num_data, -np.inf)
    for k in range(starts):
        start = _placement(model, posterior, model.inputs.take(near[:, k]))
        # Rows are placed together, but should not feel it: each goes as far as it can.
        result = fit(start, new, steps=steps, tolerance=1e-14, progress=progress)
        if result.message == "interrupted":
            raise KeyboardInterrupt
        placed = result.model
        here = np.asarray(each_objective(*placed.prepare(new)))
        better = here > values
        best = jax.tree.map(lambda a, b, w=better: jnp.where(w[:, None], a, b), placed.inputs, best)
        values = np.where(better, here, values)
    return best


def row_bounds(model: GPLVM, posterior: Posterior, inputs: LatentInputs, new: Dataset) -> np.ndarray:
    """A lower bound on the log density of each of ``new`` rows (7.8), with this q of their latent inputs."""
    return np.asarray(each_objective(*_placement(model, posterior, inputs).prepare(new)))


def _placement(model: GPLVM, posterior: Posterior, inputs: LatentInputs) -> Placement:
    v, bound = getattr(model.model, "v", None), model.model.bound
    structure = DIAGONAL if bound.curvature and v is None else bound
    return Placement(parameters.freeze(posterior.without_rows(), "*"), inputs, v, structure)


def _outputs(posterior: Posterior, inputs: LatentInputs, data: Dataset) -> np.ndarray:
    """What the functions make of the training rows' latent inputs."""
    f = predictive.marginals(posterior, None, inputs.among(jnp.asarray(data.X), data.spread))
    return np.asarray(predictive.apply(posterior.likelihood, "predict", *f)[0])


def nearest(outputs: np.ndarray, Y: np.ndarray, count: int) -> np.ndarray:
    """For each row of ``Y`` the ``count`` rows of ``outputs`` nearest to it, in the columns that it has."""
    step = max(1, _MOST_DISTANCES // len(outputs))
    found = []
    for i in range(0, len(Y), step):
        seen = ~np.isnan(Y[i : i + step])
        y = np.where(seen, Y[i : i + step], 0.0)
        distance = seen @ (outputs**2).T - 2 * y @ outputs.T
        found.append(np.argsort(distance, axis=1, kind="stable")[:, :count])
    return np.concatenate(found)
