"""Parameters: what is optimised underneath, what a user passes and reads back, and how to freeze or change one.

A `Parameter` is a node of a model's tree. It stores an unconstrained array and a transform; modules expose its
constrained value as a plain property (``kernel.variance``), so formulas never see the transform.
"""

import zlib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tightgp import checks
from tightgp.priors import Prior

T = TypeVar("T")

#: Noise variances and lengthscales stay above this, variances of kernels above zero.
FLOOR = 1e-6


@dataclass(frozen=True)
class Real:
    """No constraint: the value is what is optimised."""

    def forward(self, raw: Array) -> Array:
        return raw

    def inverse(self, value: Array) -> Array:
        return value


def _before_softplus(value: Array) -> Array:
    return value + jnp.log(-jnp.expm1(-value))


@dataclass(frozen=True)
class Positive:
    """``floor + softplus(raw)``, or its square above the floor where what is optimised is a standard deviation."""

    floor: float = 0.0
    squared: bool = False

    def forward(self, raw: Array) -> Array:
        root = jax.nn.softplus(raw)
        return self.floor + (root * root if self.squared else root)

    def inverse(self, value: Array) -> Array:
        above = value - self.floor
        root = jnp.sqrt(above) if self.squared else above
        return _before_softplus(root)

    def logarithm(self, raw: Array) -> Array:
        """The logarithm of what is above the floor."""
        return (1 + self.squared) * jnp.log(jax.nn.softplus(raw))

    def from_logarithm(self, log: Array) -> Array:
        """What is stored where what is above the floor has this logarithm."""
        return _before_softplus(jnp.exp(log / (1 + self.squared)))


@dataclass(frozen=True)
class Triangular:
    """A stack of lower triangular matrices; what is above the diagonal is ignored."""

    def forward(self, raw: Array) -> Array:
        return jnp.tril(raw)

    def inverse(self, value: Array) -> Array:
        return jnp.tril(value)


class Parameter(eqx.Module):
    """An unconstrained array, the transform that gives its value, whether it is trained, and its prior."""

    raw: Float[Array, "..."]
    transform: Real | Positive | Triangular = eqx.field(static=True, default=Real())
    frozen: bool = eqx.field(static=True, default=False)
    prior: Prior | None = eqx.field(static=True, default=None)

    @property
    def value(self) -> Float[Array, "..."]:
        """The constrained value."""
        return self.transform.forward(self.raw)

    def assigned(self, name: str, value) -> "Parameter":
        """This parameter with another value, of the same shape or a scalar."""
        new = _checked(name, value, self.transform)
        if new.shape not in ((), self.raw.shape):
            raise ValueError(f"{name} has shape {self.raw.shape}, got a value of shape {new.shape}")
        new = jnp.broadcast_to(jnp.asarray(new, self.raw.dtype), self.raw.shape)
        return Parameter(self.transform.inverse(new), self.transform, self.frozen, self.prior)


def _checked(name, value, transform):
    if isinstance(transform, Positive):
        return checks.positive(name, value, transform.floor)
    array = checks.floats(name, value)
    checks.finite(name, array)
    if isinstance(transform, Triangular):
        checks.triangular(name, array)
    return array


def positive(
    value,
    *,
    name: str = "value",
    floor: float = 0.0,
    squared: bool = False,
    frozen: bool = False,
    prior: Prior | None = None,
    scalar: bool = False,
) -> Parameter:
    """A positive parameter; an existing `Parameter` passes through unchanged.

    >>> noise = positive(0.1, floor=1e-8, squared=True, frozen=True)
    """
    if not isinstance(value, Parameter):
        transform = Positive(floor, squared)
        array = jnp.asarray(_checked(name, value, transform))
        value = Parameter(transform.inverse(array), transform, frozen, prior)
    if scalar and value.raw.ndim:
        raise ValueError(f"{name} must be one number, got shape {value.raw.shape}")
    return value


def real(value, *, name: str = "value", frozen: bool = False, prior: Prior | None = None) -> Parameter:
    """An unconstrained parameter; an existing `Parameter` passes through unchanged."""
    if isinstance(value, Parameter):
        return value
    return Parameter(jnp.asarray(_checked(name, value, Real())), Real(), frozen, prior)


def triangular(value, *, name: str = "value", frozen: bool = False) -> Parameter:
    """Lower triangular matrices (..., m, m); an existing `Parameter` passes through unchanged."""
    if isinstance(value, Parameter):
        return value
    return Parameter(jnp.tril(jnp.asarray(_checked(name, value, Triangular()))), Triangular(), frozen)


def reader(field: str, doc: str) -> Any:
    """A read-only property that gives the constrained value of the parameter stored in ``field``."""
    return property(lambda self: getattr(self, field).value, doc=doc)


def _is_parameter(node) -> bool:
    return isinstance(node, Parameter)


def _name(path) -> str:
    parts: list[str] = []
    for key in path:
        if isinstance(key, jax.tree_util.SequenceKey):
            parts[-1] += f"[{key.idx}]"
        else:
            parts.append(key.name.lstrip("_"))
    return ".".join(parts)


def named_parameters(module) -> dict[str, Parameter]:
    """Every parameter of a model or kernel by its name, such as ``kernel.lengthscale`` or ``Z``."""
    leaves = jax.tree_util.tree_leaves_with_path(module, is_leaf=_is_parameter)
    return {_name(path): leaf for path, leaf in leaves if _is_parameter(leaf)}


def _matches(name: str, pattern: str) -> bool:
    """Whether ``pattern`` with wildcards ``*`` and ``?`` fits; brackets stand for themselves, as in ``parts[0]``."""
    return fnmatchcase(name, pattern.replace("[", "[[]"))


def _map_matching(module: T, patterns, change) -> T:
    names = named_parameters(module)
    if not patterns:
        raise ValueError(f"name at least one parameter; there are {', '.join(names) or 'none'}")
    for pattern in patterns:
        if not any(_matches(name, pattern) for name in names):
            raise ValueError(f"no parameter is called {pattern!r}; there are {', '.join(names) or 'none'}")

    def visit(path, leaf):
        name = _name(path) if _is_parameter(leaf) else ""
        matches = [p for p in patterns if _matches(name, p)]
        return change(name, leaf, matches[-1]) if matches and _is_parameter(leaf) else leaf

    return jax.tree_util.tree_map_with_path(visit, module, is_leaf=_is_parameter)


def freeze(module: T, *names: str) -> T:
    """``module`` with these parameters held fixed in training. Names may hold wildcards: ``"kernel.*"``."""
    return _map_matching(module, names, lambda _n, p, _m: Parameter(p.raw, p.transform, True, p.prior))


def unfreeze(module: T, *names: str) -> T:
    """``module`` with these parameters trained again."""
    return _map_matching(module, names, lambda _n, p, _m: Parameter(p.raw, p.transform, False, p.prior))


def with_priors(module: T, priors: dict[str, Prior | None]) -> T:
    """``module`` with these priors on its parameters (None removes one); training is then MAP estimation."""
    for name, prior in priors.items():
        if prior is not None and not isinstance(prior, Prior):
            raise ValueError(f"the prior of {name!r} must be one of tightgp.priors, got {prior!r}")
    return _map_matching(module, priors, lambda _n, p, m: Parameter(p.raw, p.transform, p.frozen, priors[m]))


def assign(module: T, values: dict[str, Any]) -> T:
    """``module`` with other parameter values: ``assign(model, {"noise_variance": 0.1})``."""
    return _map_matching(module, values, lambda name, p, m: p.assigned(name, values[m]))


def cast(module: T, dtype) -> T:
    """``module`` with every floating-point leaf in ``dtype``."""
    return jax.tree.map(lambda leaf: leaf.astype(dtype) if eqx.is_inexact_array(leaf) else leaf, module)


def perturbed(module: T, key) -> T:
    """``module`` with each trained positive parameter multiplied by a log-normal draw, for a restart."""

    def change(name, p, _):
        if p.frozen or not isinstance(p.transform, Positive):
            return p
        noise = jax.random.normal(jax.random.fold_in(key, zlib.crc32(name.encode())), p.raw.shape, p.raw.dtype)
        above = (p.value - p.transform.floor) * jnp.exp(0.7 * noise)
        return Parameter(p.transform.inverse(p.transform.floor + above), p.transform, p.frozen, p.prior)

    return _map_matching(module, ["*"], change)


def trainable(module: T) -> T:
    """A tree of booleans like ``module``: True where a leaf is optimised."""

    def mark(node):
        wanted = _is_parameter(node) and not node.frozen
        return jax.tree.map(lambda _: wanted, node)

    return jax.tree.map(mark, module, is_leaf=_is_parameter)


def log_prior(module) -> Float[Array, ""] | float:
    """Sum of the log prior densities of all parameters that have one."""
    terms = [jnp.sum(p.prior.log_density(p.value)) for p in named_parameters(module).values() if p.prior is not None]
    return sum(terms, 0.0)


def table(module, title: str) -> str:
    """``module``'s parameters as aligned text: name, value, shape, and whether each is trained."""
    rows = [("parameter", "value", "shape", "trained", "prior")]
    for name, p in named_parameters(module).items():
        rows.append((name, _shown(p), str(p.raw.shape), "no" if p.frozen else "yes", str(p.prior or "")))
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([title, *("  " + line for line in lines)])


def _shown(p: Parameter) -> str:
    if isinstance(p.raw, jax.core.Tracer) or not eqx.is_array(p.raw):
        return "..."
    value = np.asarray(p.value)
    if value.size > 6 or value.ndim > 1:
        return f"{value.min():.4g} to {value.max():.4g}"
    return np.array2string(value, precision=4, separator=", ") if value.ndim else f"{value:.5g}"
