"""How variational models read their arguments: kernels, inducing inputs, bounds and numbers of latent functions."""

import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tightgp import checks, parameters
from tightgp.bounds import structures
from tightgp.bounds.latents import Latents
from tightgp.bounds.structures import Blocks, Structure
from tightgp.data import Dataset
from tightgp.kernels import Kernel
from tightgp.likelihoods.base import Likelihood
from tightgp.models.base import check_noise_is_known
from tightgp.numerics.linalg import NumericalError
from tightgp.parameters import Parameter

#: The block size that puts a whole minibatch into one block.
WHOLE_BATCH = sys.maxsize


def as_tuple(value: Any, length: int = 1) -> tuple:
    """A list or tuple ``value`` as a tuple; anything else repeated ``length`` times."""
    return tuple(value) if isinstance(value, list | tuple) else (value,) * length


def choose_bound(bound: str | Structure | None, likelihood: Likelihood) -> Structure:
    """The structure of V that ``bound`` names; ValueError if it gives no bound with this likelihood."""
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


def inducing_inputs(name: str, Z) -> Parameter | tuple[Parameter, ...]:
    """One set of inducing inputs (M, D) as a parameter, or a tuple of them if ``Z`` is a list of sets."""
    if isinstance(Z, list | tuple) and not len(Z):
        raise ValueError(f"{name} is empty; give inducing inputs (M, D), or a list of them")
    many = isinstance(Z, list | tuple) and all(isinstance(z, Parameter) or np.ndim(z) == 2 for z in Z)
    sets = tuple(parameters.real(z, name=name) for z in (Z if many else (Z,)))
    columns = checks.matrix(name, sets[0].value).shape[1]
    for one in sets:
        checks.matrix(name, one.value, columns)
        checks.same_dtype(name, one.raw, f"the first of {name}", sets[0].raw)
    return sets if many else sets[0]


def draw_rows(key: jax.Array, num_rows: int, count: int) -> Array:
    """Numbers of ``count`` random rows out of ``num_rows``, without repetition if there are enough rows."""
    return jax.random.choice(key, num_rows, (count,), replace=num_rows < count)


def count_latents(
    kernel: Kernel | tuple[Kernel, ...],
    Z: Parameter | tuple[Parameter, ...],
    likelihood: Likelihood,
    num_latents: int | None,
    mixing: Parameter | None,
) -> int:
    """The number of latent functions; ValueError if the arguments that imply one disagree."""
    if mixing is not None and mixing.raw.ndim != 2:
        raise ValueError(f"mixing must have shape (P, L), outputs by latent functions, got {mixing.raw.shape}")
    name = type(likelihood).__name__
    if mixing is not None and likelihood.num_latents is not None:
        raise ValueError(f"mixing goes with likelihoods that treat each output by itself, not with {name}")
    claims = {
        "num_latents": None if num_latents is None else checks.count("num_latents", num_latents),
        "the list of kernels": len(kernel) if isinstance(kernel, tuple) else None,
        "the list of inducing inputs": len(Z) if isinstance(Z, tuple) else None,
        "mixing": None if mixing is None else mixing.raw.shape[1],
        name: likelihood.num_latents,
    }
    counts = {who: count for who, count in claims.items() if count is not None}
    if len(set(counts.values())) > 1:
        said = ", ".join(f"{who} says {count}" for who, count in counts.items())
        raise ValueError(f"the number of latent functions is not clear: {said}")
    return next(iter(counts.values()), 1)


def trained_scales(bound: Structure, count: int, dtype) -> Parameter | None:
    """v of each latent function, 1 to start with (the prior's own variance); None if ``bound`` does not train it."""
    return parameters.positive(jnp.ones(count, dtype), name="v") if bound.pooled else None


def check_data(data: Dataset, Z: Float[Array, "m d"], likelihood: Likelihood, outputs: int) -> None:
    """Refuse data that do not fit the inducing inputs, the likelihood, or the number of outputs."""
    if not isinstance(data, Dataset):
        raise ValueError(f"data must be a tightgp.Dataset(X, y), got {type(data).__name__}")
    if data.num_inputs != Z.shape[1]:
        raise ValueError(f"X has {data.num_inputs} column(s) but Z has {Z.shape[1]}; they must agree")
    checks.same_dtype("X", data.X, "Z", Z)
    if data.num_outputs != outputs:
        raise ValueError(
            f"y has {data.num_outputs} column(s) but the model has {outputs} output(s); "
            "pass num_latents= (or mixing=) to match y"
        )
    if data.noise_variance is not None or data.noise_factor is not None:
        likelihood.of_rows(jnp.zeros(1), jnp.ones(1))
    if getattr(likelihood, "_noise_variance", 0) is None:
        check_noise_is_known(data)
    likelihood.check_targets(data.targets if isinstance(data.y, jax.core.Tracer) else np.asarray(data.targets))


def check_factors(latents: tuple[Latents, ...], message: str) -> None:
    """NumericalError if a factor of ``Kuu`` is not finite. Inside a trace nothing is known yet."""
    finite = jnp.all(jnp.stack([jnp.all(jnp.isfinite(group.whitener.inverse)) for group in latents]))
    if not isinstance(finite, jax.core.Tracer) and not bool(finite):
        raise NumericalError(message)
