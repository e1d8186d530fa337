"""Checks of the arguments of `fit`, before anything is computed."""

import os

import jax
import numpy as np
import optax

from tightgp import checks
from tightgp.data import Batches, Dataset
from tightgp.training.first_order import has_natural_step
from tightgp.training.protocols import Minibatched, Trainable

METHODS = ("lbfgs", "adam", "natural")


def check(model, method, steps, learning_rate, natural_rate, tolerance, restarts, seed, callback) -> None:
    """Check the arguments of every method."""
    known = isinstance(method, optax.GradientTransformation) or (isinstance(method, str) and method in METHODS)
    if not known:
        raise ValueError(
            f"method must be one of {', '.join(map(repr, METHODS))}, or an optax transformation such as "
            f"optax.adamw(1e-2); got {method!r}"
        )
    checks.count("steps", steps)
    _check_rate(learning_rate)
    if natural_rate is not None:
        checks.positive("natural_rate", checks.number("natural_rate", natural_rate))
        if method != "natural":
            raise ValueError("natural_rate goes with method='natural'")
    checks.positive("tolerance", checks.number("tolerance", tolerance))
    checks.seed("restarts", restarts)
    checks.seed("seed", seed)
    if callback is not None and not callable(callback):
        raise ValueError(f"callback must be a function of (step, row), got {type(callback).__name__}")
    if not isinstance(model, Trainable):
        raise ValueError(f"model must be a model such as tightgp.SGPR, got {type(model).__name__}")
    if method == "natural" and not any(map(has_natural_step, jax.tree.leaves(model, is_leaf=has_natural_step))):
        raise ValueError(f"method='natural' needs a model with an explicit q(u) such as SVGP, not {_kind(model)}")


def check_stops(method, min_gain, time_limit) -> None:
    """Check what ends training early."""
    if checks.not_negative("min_gain", checks.number("min_gain", min_gain)) > 0 and method != "lbfgs":
        raise ValueError("min_gain goes with method='lbfgs'")
    if time_limit is not None:
        checks.positive("time_limit", checks.number("time_limit", time_limit))


def check_minibatches(model, data, method, batch_size, epochs, validation, patience, stream, restarts) -> None:
    """Check the arguments of minibatch training, or that none is given without it."""
    if batch_size is None:
        if isinstance(data, Batches):
            raise ValueError("batch_size is needed where data come as Batches")
        if getattr(model, "draws_anew", False):
            raise ValueError(
                f"batch_size is needed: the objective of this {_kind(model)} is made of few draws, which must be new "
                "in each step; pass batch_size (the number of rows for all of them)"
            )
        for name, value in (("epochs", epochs), ("validation", validation), ("stream", stream)):
            if value is not None:
                raise ValueError(f"{name} goes with minibatches: pass batch_size too")
        return
    checks.count("batch_size", batch_size)
    if method == "lbfgs":
        raise ValueError("batch_size goes with method='adam' or 'natural': L-BFGS needs the whole objective")
    if not isinstance(model, Minibatched) or not getattr(model, "minibatches", True):
        raise ValueError(f"batch_size needs a model with an explicit q(u) such as SVGP; {_kind(model)} sees all rows")
    if isinstance(data, Batches) and getattr(model, "remembers_rows", False):
        raise ValueError(f"Batches do not say which row is which, and a {_kind(model)} must know: pass a Dataset")
    if not isinstance(data, Dataset | Batches):
        raise ValueError(f"data must be a tightgp.Dataset or tightgp.Batches, got {type(data).__name__}")
    if epochs is not None:
        checks.count("epochs", epochs)
    checks.count("patience", patience)
    checks.choice("stream", stream, (True, False, None))
    if validation is not None and not isinstance(validation, Dataset):
        raise ValueError(f"validation must be a tightgp.Dataset of held-out rows, got {type(validation).__name__}")
    if restarts:
        raise ValueError("restarts go with full-batch training: minibatch objectives are too noisy to choose by")


def check_refresh(model, refresh, batch_size) -> None:
    """Check that the model's partition can be recomputed ``refresh`` times."""
    if not checks.seed("refresh", refresh):
        return
    if batch_size is not None:
        raise ValueError(
            "refresh goes with full-batch training, so leave out batch_size: minibatches are drawn from one partition, "
            "made before the first epoch"
        )
    if not getattr(model, "groups_neighbours", False):
        raise ValueError(
            "refresh needs a bound that groups neighbours, such as bound=tightgp.Block(64) or "
            f"tightgp.PowerEP(1.0, block=64) with partition='locality'; this {_kind(model)} has no such partition, "
            "so leave refresh at 0"
        )


def check_checkpoint(checkpoint, seconds, resume) -> None:
    """Check the arguments of checkpoints."""
    if checkpoint is not None and not isinstance(checkpoint, str | os.PathLike):
        raise ValueError(f"checkpoint must be the name of a file, got {type(checkpoint).__name__}")
    checks.not_negative("checkpoint_seconds", checks.number("checkpoint_seconds", seconds))
    if resume not in (True, False):
        raise ValueError(f"resume must be True or False, got {resume!r}")
    if resume and checkpoint is None:
        raise ValueError("resume=True needs checkpoint=, the file to go on from")


def _check_rate(learning_rate) -> None:
    first = learning_rate
    if callable(learning_rate):
        try:
            first = np.asarray(jax.jit(learning_rate)(0))
        except Exception as error:
            raise ValueError(
                "learning_rate must be a function of the step that JAX can compile, such as those of "
                f"optax.schedules (use jnp.where instead of if); it raised {type(error).__name__}"
            ) from error
    checks.positive("learning_rate", checks.number("learning_rate", first))


def _kind(model) -> str:
    return type(model).__name__
