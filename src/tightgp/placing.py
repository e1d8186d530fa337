"""Place new rows among the latent inputs that a `GPLVM` has learnt (maths 7.8)."""

import jax
import jax.numpy as jnp
import numpy as np

from tightgp import checks, parameters
from tightgp.bounds.structures import DIAGONAL, STANDARD
from tightgp.data import Dataset
from tightgp.models.gplvm import GPLVM
from tightgp.models.latent_inputs import LatentInputs
from tightgp.models.new_rows import NewRows, row_objectives
from tightgp.numerics import chunks
from tightgp.posterior import Posterior
from tightgp.training import fit

#: The most rows to place at a time.
_MOST_ROWS = 1024


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
    """Find q of the latent inputs of new rows, with everything else as trained (maths 7.8).

    Each row starts from the latent inputs of the ``starts`` training rows whose outputs are nearest to its own, and
    keeps the best result.

    Args:
        model: the trained model.
        data: the N rows it was trained on.
        new: the rows to place, such as ``Dataset.latent(Y, Q)``; NaN in ``Dataset.latent(Y, Q, missing=True)`` is a
            missing output.
        posterior: ``model.posterior(data)``, to save the time to compute it.
        starts: number of starts of each row.
        steps: most steps of L-BFGS from each start.
        progress: show a progress bar.

    Returns:
        Means and variances (n, Q) of the latent inputs.

    >>> data = tgp.Dataset.latent(np.column_stack([X, y]), 1)
    >>> model = tgp.GPLVM.start(data.y, num_latents=1, num_inducing=5)
    >>> tgp.place(model, data, data.take([0, 1]), starts=1, steps=5).mean.shape
    (2, 1)
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
    X = model.inputs.placed(data.rows()).X
    outputs = np.asarray(posterior.predict_y(X)[0]).reshape(len(X), -1)
    near = nearest(outputs, np.asarray(new.targets), starts)
    # Chunks of few sizes, because JAX compiles a program for each; the last row fills up the last chunk.
    size, number = chunks.plan(chunks.rounded_up(new.num_data), _MOST_ROWS)
    parts = np.minimum(np.arange(number * size), new.num_data - 1).reshape(number, size)
    placed = [_place_rows(model, posterior, new.take(rows), near[rows], steps, progress) for rows in parts]
    return jax.tree.map(lambda *part: jnp.concatenate(part)[: new.num_data], *placed)


def _place_rows(
    model: GPLVM, posterior: Posterior, new: Dataset, near: np.ndarray, steps: int, progress: bool
) -> LatentInputs:
    """Place rows with one start from each column of ``near``, numbers of training rows, and keep each row's best."""
    best, values = model.inputs.take(near[:, 0]), np.full(new.num_data, -np.inf)
    for rows in near.T:
        start = _new_rows(model, posterior, model.inputs.take(rows))
        # A low tolerance, because it applies to the sum over rows and each row should converge.
        result = fit(start, new, steps=steps, tolerance=1e-14, progress=progress)
        if result.interrupted:
            raise KeyboardInterrupt
        placed = result.model
        objectives = np.asarray(row_objectives(*placed.prepare(new)))
        better = objectives > values
        best = jax.tree.map(lambda a, b, w=better: jnp.where(w[:, None], a, b), placed.inputs, best)
        values = np.where(better, objectives, values)
    return best


def row_bounds(model: GPLVM, posterior: Posterior, inputs: LatentInputs, new: Dataset) -> np.ndarray:
    """A lower bound (n,) on the log density of each new row (maths 7.8), with this q of its latent inputs."""
    return np.asarray(row_objectives(*_new_rows(model, posterior, inputs).prepare(new)))


def _new_rows(model: GPLVM, posterior: Posterior, inputs: LatentInputs) -> NewRows:
    v, bound = getattr(model.model, "v", None), model.model.bound
    structure = DIAGONAL if v is None and bound != STANDARD else bound
    return NewRows(parameters.freeze(posterior.without_rows(), "*"), inputs, v, structure)


def nearest(outputs: np.ndarray, Y: np.ndarray, count: int) -> np.ndarray:
    """The ``count`` rows of ``outputs`` (N, P) nearest to each row of ``Y`` (n, P), in its columns that are not NaN.

    >>> from tightgp.placing import nearest
    >>> nearest(np.array([[0.0, 9.0], [5.0, 1.0]]), np.array([[np.nan, 2.0]]), 1)
    array([[1]])
    """
    from sklearn.neighbors import NearestNeighbors

    search = NearestNeighbors(n_neighbors=count, metric="nan_euclidean").fit(outputs)
    return search.kneighbors(Y, return_distance=False)
