"""Whether the parts of a loaded object fit together: arrays of shapes that no model of tightgp has are refused.

A file names the class of each part and the number of axes of each array. That arrays belong together is checked here,
by computing with their shapes alone: nothing is compiled, and no value is looked at.
"""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import numpy as np

from tightgp.bounds.latents import Latents
from tightgp.data.rows import Rows
from tightgp.models.sgpr import SGPR
from tightgp.models.svgp import SVGP
from tightgp.posterior import marginals
from tightgp.posterior.posterior import Posterior


class InconsistentError(ValueError):
    """Arrays whose shapes do not fit together."""


def check_consistent(value: Any) -> None:
    """Refuse posteriors, models and estimators whose arrays do not fit together."""
    try:
        for part in _parts(value):
            match part:
                case Posterior():
                    _check_posterior(part)
                case SGPR() | SVGP():
                    _check_model(part)
    except InconsistentError:
        raise
    except Exception as error:  # whatever shapes make JAX and our own code raise
        reason = " ".join(str(error).split())[:200]
        raise InconsistentError(f"its arrays do not fit together ({type(error).__name__}: {reason})") from None


def _parts(value: Any) -> Iterator[Any]:
    """An object, or the model, the encoding and the posterior of a fitted estimator."""
    if not hasattr(value, "posterior_"):
        yield value
        return
    for name in ("model_", "posterior_"):
        yield getattr(value, name)
    if isinstance(value.model_, SGPR):
        _same("the array of inducing inputs", value.model_.Z.shape, value.posterior_.latents[0].Z.shape)
    encoding, columns = getattr(value, "encoding_", None), getattr(value.posterior_, "latents", ())
    if encoding is not None:
        for one in columns:
            _same("the array of inducing inputs", one.Z.shape[1:], (len(encoding.feature_names),))
        _same("the list of features", (len(encoding.feature_columns),), (len(encoding.feature_names),))


def _check_posterior(posterior: Posterior) -> None:
    count = sum(_check_latents(one) for one in posterior.latents)
    if posterior.mixing is not None:
        _same("mixing", posterior.mixing.shape[1:], (count,))
    if posterior.scale is not None:
        _same("scale", posterior.scale.shape, (count,))
    (columns,) = {one.Z.shape[1] for one in posterior.latents}
    X = jax.ShapeDtypeStruct((3, columns), posterior.latents[0].Z.dtype)
    outputs = count if posterior.mixing is None else len(posterior.mixing)
    mean, variance = eqx.filter_eval_shape(marginals.marginals, posterior._functions, X)
    _same("a prediction", mean.shape, (3, outputs))
    _same("a prediction", variance.shape, (3, outputs))
    if posterior.training is not None:
        _check_training(posterior.training, posterior.latents[0], outputs)


def _check_latents(latents: Latents) -> int:
    """The number of functions."""
    (num_inducing, columns), (count,) = latents.Z.shape, {one.mean.shape[1] for one in latents.q}
    _same("the factor", latents.whitener.inverse.shape, (num_inducing, num_inducing))
    for one in latents.q:
        size = len(one.mean)
        if one.root is not None:
            shapes = [(k, *rest) for k in (1, count) for rest in ((size,), (size, size))]
            if one.root.shape not in shapes:
                raise InconsistentError(f"a root has shape {one.root.shape} beside a mean of {one.mean.shape}")
    if sum(len(one.mean) for one in latents.q) != num_inducing:
        raise InconsistentError(f"{num_inducing} inducing inputs have another number of inducing variables")
    _check_kernel(latents.kernel, columns, latents.Z.dtype)
    return count


def _check_kernel(kernel, columns: int, dtype) -> None:
    X = jax.ShapeDtypeStruct((3, columns), dtype)
    _same("the kernel's matrix", eqx.filter_eval_shape(lambda k, X: k(X), kernel, X).shape, (3, 3))
    _same("the kernel's matrix", eqx.filter_eval_shape(lambda k, X: k.diagonal(X), kernel, X).shape, (3,))


def _check_training(training, latents: Latents, outputs: int) -> None:
    rows: Rows = training.rows
    count, columns = rows.X.shape[0], latents.Z.shape[1]
    _same("the array of training inputs", rows.X.shape, (count, columns))
    _same("the array of training targets", rows.y.shape, (count, outputs))
    _same("the array of weights", rows.weight.shape, (count,))
    for noise in (rows.noise_variance, rows.noise_factor):
        if noise is not None:
            _same("the array of noise variances", noise.shape, (count,))
    if training.order is not None:
        order = training.order
        if order.shape != (count,) or not np.array_equal(np.sort(order), np.arange(count)):
            raise InconsistentError(f"the order of {count} training rows is no order of them")
    if training.metric is not None:
        _same("the metric", training.metric.shape, (columns,))
    if training.process is not None:
        _same("the array of inducing inputs", training.process.Z.shape, latents.Z.shape)
        _check_kernel(training.process.kernel, columns, training.process.Z.dtype)


def _check_model(model: SGPR | SVGP) -> None:
    inputs = model.Z if isinstance(model.Z, tuple) else (model.Z,)
    kernels = model.kernel if isinstance(model.kernel, tuple) else (model.kernel,) * len(inputs)
    for Z, kernel in zip(inputs, kernels, strict=True):
        _check_kernel(kernel, Z.shape[1], Z.dtype)
        if model.metric is not None:
            _same("the metric", model.metric.shape, Z.shape[1:])
    if isinstance(model, SVGP):
        parts = model.q if isinstance(model.q, tuple) else (model.q,) * len(inputs)
        for Z, q in zip(inputs, parts, strict=True):
            size, functions = q.mean.shape
            _same("the mean of q(u)", (size,), (len(Z),))
            _same("the root of q(u)", q.root.shape, (functions, *(size,) * (q.root.ndim - 1)))
        if model._v is not None:
            groups = model.q if isinstance(model.q, tuple) else (model.q,)
            _same("v", model._v.value.shape, (sum(q.mean.shape[1] for q in groups),))


def _same(what: str, found: tuple[int, ...], expected: tuple[int, ...]) -> None:
    if tuple(found) != tuple(expected):
        raise InconsistentError(f"{what} has shape {tuple(found)} where {tuple(expected)} fits the rest")
