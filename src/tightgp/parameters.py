"""Parameters: unconstrained arrays for the optimiser, constrained values for the user.

A `Parameter` is a node of a model's tree. It stores an unconstrained array and a transform. Modules expose the
constrained value as a plain property (``kernel.variance``), so formulas never see the transform. Functions here name,
freeze and change the parameters of a model.
"""

import zlib
from dataclasses import dataclass, replace
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

#: The lower bound of noise variances and lengthscales; variances of kernels have the lower bound zero.
FLOOR = 1e-6
#: Most numbers that are transformed by NumPy.
_FEW = 10_000


class Transform:
    """An invertible map from the unconstrained array of a parameter to its value; by default the identity."""

    def forward(self, raw: Array) -> Array:
        """The value of an unconstrained array."""
        return raw

    def inverse(self, value: Array) -> Array:
        """The unconstrained array of a value."""
        return value

    def log_slope(self, raw: Array) -> Array:
        """``log |d value / d raw|`` of each entry."""
        return jnp.zeros_like(raw)

    def check(self, name: str, value) -> Any:
        """``value`` as an array; ValueError if it breaks the constraint."""
        array = checks.floats(name, value)
        checks.finite(name, array)
        return array


@dataclass(frozen=True)
class Real(Transform):
    """No constraint: the value is the unconstrained array."""


def _numpy_for(array: Array | np.ndarray) -> Any:
    """NumPy for a few known numbers on one device, for which JAX would compile each operation by itself; else JAX's."""
    known = isinstance(array, np.ndarray) or (
        isinstance(array, jax.Array) and not isinstance(array, jax.core.Tracer) and len(array.devices()) == 1
    )
    return np if known and array.size <= _FEW else jnp


def _softplus(raw: Array, xp: Any) -> Array:
    with np.errstate(invalid="ignore"):  # NaN stays NaN, as in JAX
        return xp.logaddexp(raw, np.zeros((), raw.dtype))


def _inverse_softplus(value: Array, xp: Any) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        return value + xp.log(-xp.expm1(-value))


@dataclass(frozen=True)
class Positive(Transform):
    """``value = floor + softplus(raw)``, or ``floor + softplus(raw)²`` where a standard deviation is optimised."""

    floor: float = 0.0
    squared: bool = False

    def forward(self, raw: Array) -> Array:
        xp = _numpy_for(raw)
        return jnp.asarray(self.floor + _softplus(xp.asarray(raw), xp) ** (1 + self.squared))

    def inverse(self, value: Array) -> Array:
        xp = _numpy_for(value)
        excess = xp.asarray(value) - self.floor
        return jnp.asarray(_inverse_softplus(xp.sqrt(excess) if self.squared else excess, xp))

    def check(self, name: str, value) -> Any:
        return checks.positive(name, value, self.floor)

    def log_slope(self, raw: Array) -> Array:
        slope = jax.nn.log_sigmoid(raw)
        return slope + jnp.log(2 * jax.nn.softplus(raw)) if self.squared else slope

    def logarithm(self, raw: Array) -> Array:
        """``log(value − floor)``."""
        xp = _numpy_for(raw)
        with np.errstate(divide="ignore"):
            return jnp.asarray((1 + self.squared) * xp.log(_softplus(xp.asarray(raw), xp)))

    def from_logarithm(self, log: Array | np.ndarray) -> Array:
        """The unconstrained array whose ``log(value − floor)`` is ``log``."""
        xp = _numpy_for(log)
        return jnp.asarray(_inverse_softplus(xp.exp(xp.asarray(log) / (1 + self.squared)), xp))


@dataclass(frozen=True)
class Triangular(Transform):
    """Lower triangular matrices (..., m, m); entries above the diagonal are ignored."""

    def forward(self, raw: Array) -> Array:
        return jnp.tril(raw)

    def check(self, name: str, value) -> Any:
        array = super().check(name, value)
        checks.triangular(name, array)
        return array


class Parameter(eqx.Module):
    """An unconstrained array with its transform, whether it is frozen in training, and its prior."""

    raw: Float[Array, "..."]
    transform: Transform = eqx.field(static=True, default=Real())
    frozen: bool = eqx.field(static=True, default=False)
    prior: Prior | None = eqx.field(static=True, default=None)

    @property
    def value(self) -> Float[Array, "..."]:
        """The constrained value."""
        return self.transform.forward(self.raw)

    def with_value(self, name: str, value) -> "Parameter":
        """This parameter with another value: one number, or an array of the same shape."""
        new = self.transform.check(name, value)
        if new.shape not in ((), self.raw.shape):
            raise ValueError(f"{name} has shape {self.raw.shape}, got a value of shape {new.shape}")
        new = jnp.broadcast_to(jnp.asarray(new, self.raw.dtype), self.raw.shape)
        return replace(self, raw=self.transform.inverse(new))


def _parameter(value, name: str, transform: Transform, **options) -> Parameter:
    if isinstance(value, Parameter):
        return value
    return Parameter(transform.inverse(jnp.asarray(transform.check(name, value))), transform, **options)


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

    Args:
        value: the constrained value, above ``floor``.
        name: the name of the argument, for error messages.
        floor: the lower bound.
        squared: whether the square root of the value is what softplus constrains; for variances.
        frozen: whether training leaves the parameter unchanged.
        prior: a prior on the constrained value.
        scalar: whether the value must be one number.

    >>> noise = tgp.parameters.positive(0.5, floor=1e-8, squared=True, frozen=True)
    >>> noise.value
    Array(0.5, dtype=float64)
    """
    parameter = _parameter(value, name, Positive(floor, squared), frozen=frozen, prior=prior)
    if scalar and parameter.raw.ndim:
        raise ValueError(f"{name} must be one number, got shape {parameter.raw.shape}")
    return parameter


def real(value, *, name: str = "value", frozen: bool = False, prior: Prior | None = None) -> Parameter:
    """An unconstrained parameter; an existing `Parameter` passes through unchanged."""
    return _parameter(value, name, Real(), frozen=frozen, prior=prior)


def triangular(value, *, name: str = "value", frozen: bool = False) -> Parameter:
    """Lower triangular matrices (..., m, m); an existing `Parameter` passes through unchanged."""
    return _parameter(value, name, Triangular(), frozen=frozen)


def check_per_output(name: str, parameter: Parameter) -> Parameter:
    """Check that a parameter is one number, or has one for each of P outputs."""
    if parameter.raw.ndim > 1:
        raise ValueError(f"{name} must be one number or have shape (P,), got {parameter.raw.shape}")
    return parameter


def reader(field: str, doc: str) -> Any:
    """A read-only property: the constrained value of the parameter in ``field``.

    If the field holds a tuple of parameters, the property is a tuple of values; if it holds None, None.
    """
    return property(lambda self: jax.tree.map(lambda p: p.value, getattr(self, field), is_leaf=_is_parameter), doc=doc)


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
    """All parameters of a model, kernel or likelihood by name, such as ``kernel.lengthscale`` or ``Z``.

    >>> list(tgp.named_parameters(tgp.kernels.Linear() + tgp.kernels.White()))
    ['parts[0].variance', 'parts[1].variance']
    """
    leaves = jax.tree_util.tree_leaves_with_path(module, is_leaf=_is_parameter)
    return {_name(path): leaf for path, leaf in leaves if _is_parameter(leaf)}


def _matches(name: str, pattern: str) -> bool:
    """Whether ``name`` fits ``pattern`` with wildcards ``*`` and ``?``; brackets are literal, as in ``parts[0]``."""
    return fnmatchcase(name, pattern.replace("[", "[[]"))


def _map_matching(module: T, patterns, change) -> T:
    """Replace each parameter that fits a pattern by ``change(name, parameter, pattern)``; the last pattern wins."""
    names = named_parameters(module)
    known = ", ".join(names) or "none"
    if not patterns:
        raise ValueError(f"name at least one parameter; there are {known}")
    for pattern in patterns:
        if not any(_matches(name, pattern) for name in names):
            raise ValueError(f"no parameter is called {pattern!r}; there are {known}")

    def visit(path, leaf):
        name = _name(path) if _is_parameter(leaf) else ""
        matches = [p for p in patterns if _matches(name, p)]
        return change(name, leaf, matches[-1]) if matches and _is_parameter(leaf) else leaf

    return jax.tree_util.tree_map_with_path(visit, module, is_leaf=_is_parameter)


def freeze(module: T, *names: str) -> T:
    """``module`` with these parameters fixed in training. Names may have wildcards: ``"kernel.*"``.

    >>> kernel = tgp.freeze(tgp.kernels.Matern32(), "lengthscale")
    >>> tgp.named_parameters(kernel)["lengthscale"].frozen
    True
    """
    return _map_matching(module, names, lambda name, p, pattern: replace(p, frozen=True))


def unfreeze(module: T, *names: str) -> T:
    """``module`` with these parameters trained again; the opposite of `freeze`.

    >>> likelihood = tgp.unfreeze(tgp.likelihoods.StudentT(), "df")
    """
    return _map_matching(module, names, lambda name, p, pattern: replace(p, frozen=False))


def with_priors(module: T, priors: dict[str, Prior | None]) -> T:
    """``module`` with these priors on its parameters, so that training is MAP estimation; None removes a prior.

    >>> kernel = tgp.with_priors(tgp.kernels.Matern32(), {"lengthscale": tgp.priors.Gamma(2.0, 1.0)})
    """
    for name, prior in priors.items():
        if prior is not None and not isinstance(prior, Prior):
            raise ValueError(f"the prior of {name!r} must be one of tightgp.priors, got {prior!r}")
    return _map_matching(module, priors, lambda name, p, pattern: replace(p, prior=priors[pattern]))


def assign(module: T, values: dict[str, Any]) -> T:
    """``module`` with other parameter values; a number is taken for every entry of an array.

    >>> kernel = tgp.assign(tgp.kernels.Matern32(lengthscale=[1.0, 2.0]), {"lengthscale": 0.5})
    >>> kernel.lengthscale
    Array([0.5, 0.5], dtype=float64)
    """
    return _map_matching(module, values, lambda name, p, pattern: p.with_value(name, values[pattern]))


def cast(module: T, dtype) -> T:
    """``module`` with every floating-point array in ``dtype``."""
    return jax.tree.map(lambda leaf: leaf.astype(dtype) if eqx.is_inexact_array(leaf) else leaf, module)


def perturbed(module: T, key) -> T:
    """``module`` for a random restart: each trained positive parameter is multiplied by a log-normal draw."""

    def change(name, p, pattern):
        if p.frozen or not isinstance(p.transform, Positive):
            return p
        noise = jax.random.normal(jax.random.fold_in(key, zlib.crc32(name.encode())), p.raw.shape, p.raw.dtype)
        floor = p.transform.floor
        return replace(p, raw=p.transform.inverse(floor + (p.value - floor) * jnp.exp(0.7 * noise)))

    return _map_matching(module, ["*"], change)


def trainable(module: T) -> T:
    """A tree of booleans with the structure of ``module``: True for each leaf that is optimised."""

    def mark(node):
        wanted = _is_parameter(node) and not node.frozen
        return jax.tree.map(lambda _: wanted, node)

    return jax.tree.map(mark, module, is_leaf=_is_parameter)


def log_prior(module) -> Float[Array, ""] | float:
    """The sum of the log prior densities of all parameters with a prior."""
    terms = [jnp.sum(p.prior.log_density(p.value)) for p in named_parameters(module).values() if p.prior is not None]
    return sum(terms, 0.0)


def table(module, title: str) -> str:
    """The parameters of ``module`` as aligned text: name, value, shape, whether trained, and prior."""
    rows = [("parameter", "value", "shape", "trained", "prior")]
    for name, p in named_parameters(module).items():
        rows.append((name, _format(p), str(np.shape(p.raw)), "no" if p.frozen else "yes", str(p.prior or "")))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([title, *("  " + line for line in lines)])


def _format(p: Parameter) -> str:
    if isinstance(p.raw, jax.core.Tracer) or not eqx.is_array(p.raw):
        return "..."
    value = np.asarray(p.value)
    if value.size > 6 or value.ndim > 1:
        return f"{value.min():.4g} to {value.max():.4g}"
    return np.array2string(value, precision=4, separator=", ") if value.ndim else f"{value:.5g}"
