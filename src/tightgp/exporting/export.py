"""`export`: a fitted model's predictions as a file that other programs run."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import tightgp
from tightgp import checks
from tightgp.estimators.base import SparseGP
from tightgp.io.files import atomic_write
from tightgp.io.program import Description, flatbuffers_installed, write_program
from tightgp.posterior import Posterior

#: Numbers that a program may make at a time, of rows by inducing points or by training rows.
_NUMBERS = 1 << 24
#: The devices that a program is made for.
PLATFORMS = ("cpu", "cuda")


class Predictor(NamedTuple):
    """A function of rows (n, C), for any n, that JAX can trace, and what its columns are."""

    function: Callable[[Any], tuple]
    description: Description


def export(model, path, *, neighbours: int | None = None, platforms: tuple[str, ...] = PLATFORMS) -> None:
    """Write a posterior's or a fitted estimator's predictions as a program for any number of rows.

    A name that ends in ``.onnx`` gives an ONNX graph, for predictions from inducing points. Any other gives StableHLO,
    which `Program.load` runs, and so does JAX alone.

    What comes out are the means and variances of new targets (posteriors), means and standard deviations
    (`SparseGPRegressor`, `SparseGPCountRegressor`), or probabilities (`SparseGPClassifier`). An estimator's program
    takes rows as they were in training, with NaN for missing cells: its encoding is inside. It needs columns of numbers
    and a target that was not transformed.

    Args:
        model: a `Posterior`, or a fitted estimator.
        path: the name of the file.
        neighbours: predict also from this many nearest training rows, which the program then contains, 20 000 at most;
            None as the model itself does, 0 from the inducing points alone.
        platforms: the devices that a StableHLO program is for: "cpu", "cuda", "rocm", "tpu".

    >>> post = tgp.SGPR(tgp.kernels.Matern32(), X[:20]).posterior(tgp.Dataset(X, y))
    >>> tgp.export(post, "model.onnx")  # doctest: +SKIP
    """
    if neighbours is not None:
        checks.seed("neighbours", neighbours)
    path = Path(path)
    if path.suffix == ".onnx":
        from tightgp.exporting.onnx_graph import onnx_installed, to_onnx

        onnx_installed()
        predictor = predictor_of(model, neighbours)
        content = to_onnx(predictor.function, predictor.description).SerializeToString()
        with atomic_write(path) as temporary:
            temporary.write_bytes(content)
        return
    flatbuffers_installed()
    predictor = predictor_of(model, neighbours)
    write_program(path, predictor.description, _stablehlo(predictor, platforms))


def _stablehlo(predictor: Predictor, platforms) -> bytes:
    from jax import export

    allowed = ("cpu", "cuda", "rocm", "tpu")
    if isinstance(platforms, str) or not platforms or any(one not in allowed for one in platforms):
        raise ValueError(f"platforms must be some of {', '.join(allowed)}, such as ('cpu',); got {platforms!r}")
    made = export.export(jax.jit(predictor.function), platforms=tuple(platforms))(
        rows_of_any_number(predictor.description)
    )
    return bytes(made.serialize())


def rows_of_any_number(description: Description) -> jax.ShapeDtypeStruct:
    """Rows (n, C) for tracing, where n stands for any number."""
    from jax import export

    (n,) = export.symbolic_shape("n")
    return jax.ShapeDtypeStruct((n, len(description.columns)), np.dtype(description.dtype))


def predictor_of(model, neighbours: int | None) -> Predictor:
    """The predictions of a posterior or an estimator as a function of rows."""
    if isinstance(model, Posterior):
        return _of_posterior(model, neighbours)
    if isinstance(model, SparseGP):
        return _of_estimator(model, neighbours)
    hint = "; pass its posterior: model.posterior(data)" if hasattr(model, "posterior") else ""
    raise ValueError(f"model must be a Posterior or a fitted estimator, got {type(model).__name__}{hint}")


def _of_posterior(post: Posterior, neighbours: int | None) -> Predictor:
    Z = post.latents[0].Z
    names = tuple(f"x{i}" for i in range(Z.shape[1]))
    used = _neighbours(post, neighbours)
    description = _description(post, used, names, ("mean", "variance"), "Posterior")
    return Predictor(lambda X: tuple(post.predict_y(X, neighbours=used)), description)


def _of_estimator(estimator: SparseGP, neighbours: int | None) -> Predictor:
    if not hasattr(estimator, "posterior_"):
        raise ValueError(f"this {type(estimator).__name__} is not fitted; fit it first")
    if neighbours is not None and "neighbours" in estimator.get_params():
        estimator = copy.copy(estimator).set_params(neighbours=neighbours)
    elif neighbours:
        raise ValueError(f"neighbours goes with SparseGPRegressor, not {type(estimator).__name__}; leave it out")
    encoding = estimator.encoding_
    outputs = estimator.traced_outputs()
    classes = tuple(np.asarray(getattr(estimator, "classes_", ())).tolist())
    names = tuple(column.name for column in encoding.columns)
    encoding.check_traceable()
    used = _neighbours(estimator.posterior_, estimator.neighbours_used() or 0)
    description = _description(estimator.posterior_, used, names, outputs, type(estimator).__name__, classes)
    return Predictor(lambda X: estimator.traced_predictions(encoding.traced(X)), description)


def _neighbours(post: Posterior, neighbours: int | None) -> int | None:
    """How many neighbours a program uses; None where there are no training rows to leave out."""
    if neighbours is None:
        neighbours = post.neighbours if post.training is not None else 0
    return neighbours if neighbours or post.training is not None else None


def _description(post: Posterior, neighbours: int | None, names, outputs, made_of: str, classes=()) -> Description:
    width = max(group.Z.shape[0] for group in post.latents)
    if neighbours:
        rows = post.training.rows.num_rows if post.training is not None else 0
        width = max(width + rows, neighbours * (width + 4 * neighbours))
    at_a_time = 2 ** int(np.log2(max(1, min(_NUMBERS // width, 1 << 14))))
    by = f"tightgp {tightgp.__version__} with JAX {jax.__version__} from a {made_of}"
    return Description(names, outputs, str(post.latents[0].Z.dtype), at_a_time, classes, by)
