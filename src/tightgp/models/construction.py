"""How a variational model reads its arguments: one or many kernels and inducing sets, bounds, latents."""

import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tightgp import checks, parameters
from tightgp.bounds import structures
from tightgp.bounds.structures import Blocks, Structure
from tightgp.data import Dataset
from tightgp.likelihoods.base import Likelihood
from tightgp.models.base import check_noise_is_known
from tightgp.parameters import Parameter

#: The size of a block that takes in whatever minibatch comes.
WHOLE_BATCH = sys.maxsize


def as_tuple(value: Any, length: int = 1) -> tuple:
    """``value`` where it is a tuple, else a tuple that repeats it."""
    return value if isinstance(value, tuple) else (value,) * length


def is_many(Z) -> bool:
    """Whether ``Z`` is a list of sets of inducing inputs rather than one set."""
    return isinstance(Z, list | tuple) and all(np.ndim(_raw(z)) == 2 for z in Z)


def _raw(value) -> Any:
    return value.raw if isinstance(value, Parameter) else value


def choose_bound(bound: str | Structure | None, likelihood: Likelihood) -> Structure:
    """The structure of V, refused where it gives no bound with this likelihood."""
    if bound is None:
        bound = "diagonal" if likelihood.quadratic else "spherical"
    structure = structures.named(bound)
    if not structure.is_bound:
        raise ValueError(f"bound={structure.name} has no q(f|u); use it with SGPR, or choose a bound here")
    if not (structure.uniform or likelihood.quadratic):
        raise ValueError(
            f"bound={structure.name!r} needs Gaussian noise: with {type(likelihood).__name__} a v for each row leaves "
            "the variances of q(f) unknown without an N×N root, and putting v_i·d_i in their place is no bound "
            "(maths 5.3); use bound='spherical' (one trained v for each latent function) or 'standard'"
        )
    return Blocks(WHOLE_BATCH, "rows") if bound == "block" else structure


def inducing_sets(name: str, Z) -> tuple[Parameter, ...]:
    """One set of inducing inputs, or the sets of a list."""
    if isinstance(Z, list | tuple) and not len(Z):
        raise ValueError(f"{name} is empty; give inducing inputs (M, D), or a list of them")
    sets = tuple(parameters.real(z, name=name) for z in (Z if is_many(Z) else (Z,)))
    for one in sets:
        checks.matrix(name, one.value)
        checks.matrix(name, one.value, sets[0].raw.shape[1])
        checks.same_dtype(name, one.raw, f"the first of {name}", sets[0].raw)
    return sets


def count_latents(num_kernels, num_sets, likelihood: Likelihood, num_latents: int | None, mixing) -> int:
    """How many latent functions there are; whoever says so must agree."""
    claims: dict[str, int] = {}
    if num_latents is not None:
        claims["num_latents"] = checks.count("num_latents", num_latents)
    if num_kernels is not None:
        claims["the list of kernels"] = num_kernels
    if num_sets is not None:
        claims["the list of inducing inputs"] = num_sets
    if mixing is not None:
        shape = np.shape(_raw(mixing))
        if len(shape) != 2:
            raise ValueError(f"mixing must have shape (P, L), outputs by latent functions, got {shape}")
        if likelihood.num_latents is not None:
            raise ValueError(
                f"mixing goes with likelihoods that treat each output by itself, not with {type(likelihood).__name__}"
            )
        claims["mixing"] = shape[1]
    if likelihood.num_latents is not None:
        claims[type(likelihood).__name__] = likelihood.num_latents
    if not claims:
        return 1
    if len(set(claims.values())) > 1:
        said = ", ".join(f"{who} says {count}" for who, count in claims.items())
        raise ValueError(f"the number of latent functions is not clear: {said}")
    return next(iter(claims.values()))


def check_data(data: Dataset, Z, likelihood: Likelihood, outputs: int) -> None:
    """Refuse data that do not fit inducing inputs ``Z``, the likelihood, or the number of outputs."""
    if data.num_inputs != Z.shape[1]:
        raise ValueError(f"X has {data.num_inputs} column(s) but Z has {Z.shape[1]}; they must agree")
    checks.same_dtype("X", data.X, "Z", Z)
    if data.num_outputs != outputs:
        raise ValueError(
            f"y has {data.num_outputs} column(s) but the model has {outputs} output(s); "
            "pass num_latents= (or mixing=) to match y"
        )
    if data.noise_variance is not None:
        likelihood.with_known(jnp.zeros(1))
    if getattr(likelihood, "_noise_variance", 0) is None:
        check_noise_is_known(data)
    likelihood.check_targets(data.targets if isinstance(data.y, jax.core.Tracer) else np.asarray(data.targets))


def trained_scales(bound: Structure, count: int, dtype) -> Parameter | None:
    """v of each latent function, started at the prior's own spread, where the bound trains it."""
    if not bound.pooled:
        return None
    return parameters.positive(jnp.ones(count, dtype), name="v")
