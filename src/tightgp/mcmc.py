"""Hyperparameters as draws instead of one best value: log densities for any sampler, and what follows from draws.

The samplers themselves are BlackJAX's and NumPyro's, and diagnostics are ArviZ's: see docs/mcmc.md.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tightgp import checks, parameters
from tightgp.data import Dataset
from tightgp.forking import check_not_forked
from tightgp.models import SGPR, SVGP, ExactGP
from tightgp.models.base import with_fields
from tightgp.parameters import Parameter
from tightgp.posterior.averaged import AveragedPosterior

#: Parameters of the approximation and not of the Gaussian process: they keep the values that training gave them.
_VARIATIONAL = ("Z", "orthogonal", "v")
#: Inducing variables that are sampled; their prior is part of the model.
_VALUES = ("q", "q_orthogonal")
#: Standard deviation, in unconstrained coordinates, of the points from which chains start.
_START_SD = 0.3
#: Log evidence, or joint density of hyperparameters and inducing variables, by kind of model.
_SUPPORTED = (ExactGP, SGPR, SVGP)


def log_density(model: ExactGP | SGPR | SVGP, data: Dataset) -> "LogDensity":
    """The model's objective and the priors of its parameters, as a log density for samplers (maths 16.1).

    What is sampled are the trained parameters of kernel, mean and likelihood, each of which needs a prior
    (`with_priors`); a frozen one keeps its value. Inducing inputs belong to the approximation and keep theirs too, so
    train them first. Of an `SVGP` or `VGP` the whitened inducing variables are sampled together with the
    hyperparameters, in the place of a Gaussian q(u) (maths 16.2); a trained q says where they start.

    Args:
        model: an `ExactGP`, `SGPR`, `SVGP` or `VGP`.
        data: the training data.

    Returns:
        A function of a dictionary of unconstrained arrays, by the names of `named_parameters`.

    >>> model = tgp.with_priors(tgp.ExactGP(tgp.kernels.Matern32(), 0.1), {"*": tgp.priors.LogNormal(0.0, 1.0)})
    >>> density = tgp.log_density(model, tgp.Dataset(X, y))
    >>> sorted(density.start)
    ['kernel.lengthscale', 'kernel.variance', 'noise_variance']
    >>> bool(density(density.start) < 0)
    True
    """
    if not isinstance(model, _SUPPORTED):
        raise ValueError(f"model must be an ExactGP, SGPR, SVGP or VGP, got {type(model).__name__}")
    if isinstance(model, SVGP):
        model = model.at_values()
    sampled, unknown = [], []
    for name, parameter in parameters.named_parameters(model).items():
        part = name.split(".")[0].split("[")[0]
        if parameter.frozen or part in _VARIATIONAL:
            continue
        sampled.append(name)
        if parameter.prior is None and part not in _VALUES:
            unknown.append(name)
    if unknown:
        raise ValueError(
            f"model needs a prior on each parameter that is sampled, and has none on {', '.join(unknown)}: use "
            "tightgp.with_priors(model, {...}), or tightgp.freeze for a parameter that keeps its value"
        )
    if not sampled:
        raise ValueError("model has nothing to sample: every parameter is frozen; unfreeze one")
    return LogDensity(model, data, tuple(sampled))


class LogDensity:
    """What `log_density` returns: a function of unconstrained arrays, and the ways to and from constrained values.

    Attributes:
        names: the names of the sampled parameters.
        start: where the model is, as a dictionary of unconstrained arrays.
    """

    def __init__(self, model: Any, data: Dataset, names: tuple[str, ...]):
        self._model, self._rows = model.prepare(data)
        self._data, self.names = data, names
        self._parameters = {name: p for name, p in parameters.named_parameters(self._model).items() if name in names}
        self.start = {name: p.raw for name, p in self._parameters.items()}

    def __call__(self, position: Mapping[str, Array]) -> Float[Array, ""]:
        """Log density of unconstrained arrays: that of their values, and the log Jacobian of the transforms. Pure."""
        check_not_forked()
        jacobian = [jnp.sum(p.transform.log_slope(position[name])) for name, p in self._parameters.items()]
        return self._model_at(position).objective(self._rows)[0] + sum(jacobian)

    def constrained(self, values: Mapping[str, Any]) -> Float[Array, ""]:
        """Log density of values, as a user reads them: bound or evidence, and the log prior densities. Pure."""
        check_not_forked()
        return self._model_at(self._raw(values)).objective(self._rows)[0]

    def potential(self, position: Mapping[str, Array]) -> Float[Array, ""]:
        """Minus the log density of unconstrained arrays, as NumPyro takes it."""
        return -self(position)

    def values(self, positions: Mapping[str, Array]) -> dict[str, Array]:
        """The constrained values of unconstrained arrays, which may have more axes in front."""
        self._check_names("positions", positions)
        return {name: p.transform.forward(jnp.asarray(positions[name])) for name, p in self._parameters.items()}

    def position(self, values: Mapping[str, Any]) -> dict[str, Array]:
        """The unconstrained arrays of values; the inverse of `values`."""
        self._check_names("values", values)
        return self._raw({name: p.transform.check(name, values[name]) for name, p in self._parameters.items()})

    def starts(self, key, num_chains: int) -> dict[str, Array]:
        """Points around ``start`` from which chains can begin: arrays with an axis of chains in front."""
        checks.count("num_chains", num_chains)
        keys = dict(zip(self.names, jax.random.split(key, len(self.names)), strict=True))

        def around(name: str, start: Array) -> Array:
            return start + _START_SD * jax.random.normal(keys[name], (num_chains, *start.shape), start.dtype)

        return {name: around(name, start) for name, start in self.start.items()}

    def model(self, position: Mapping[str, Array]) -> Any:
        """The model with these unconstrained arrays."""
        self._check_names("position", position)
        return self._model_at(position)

    def posterior(self, positions: Mapping[str, Array], num_draws: int = 100) -> AveragedPosterior:
        """Predictions that average over draws.

        Args:
            positions: draws as samplers return them: unconstrained arrays, with axes of chains and draws in front.
            num_draws: how many of them are used, evenly spaced. Each has a posterior with factors of its own.
        """
        checks.count("num_draws", num_draws)
        flat = self._flat(positions)
        count = len(next(iter(flat.values())))
        chosen = np.unique(np.linspace(0, count - 1, min(num_draws, count)).round().astype(int))
        return AveragedPosterior(self._posterior({name: a[i] for name, a in flat.items()}) for i in chosen)

    def inference_data(self, positions: Mapping[str, Array], sample_stats: Mapping[str, Any] | None = None) -> Any:
        """Draws as ArviZ's ``InferenceData``, in constrained values (``pip install 'tightgp[mcmc]'``).

        Args:
            positions: unconstrained arrays with axes (chains, draws) in front.
            sample_stats: arrays (chains, draws) by name, such as ``diverging``.
        """
        try:
            import arviz
        except ImportError as missing:
            raise ImportError("inference_data needs ArviZ: pip install 'tightgp[mcmc]'") from missing
        values = {name: np.asarray(a) for name, a in self.values(positions).items()}
        for name, start in self.start.items():
            if values[name].ndim != start.ndim + 2:
                raise ValueError(
                    f"positions[{name!r}] must have shape (chains, draws{''.join(f', {n}' for n in start.shape)}), got "
                    f"{values[name].shape}; of a single chain pass a[None]"
                )
        groups = {"posterior": values}
        if sample_stats is not None:
            groups["sample_stats"] = {name: np.asarray(a) for name, a in sample_stats.items()}
        return arviz.from_dict(**groups) if int(arviz.__version__.split(".")[0]) < 1 else arviz.from_dict(groups)

    def _model_at(self, position: Mapping[str, Array]) -> Any:
        def changed(p: Parameter, name: str) -> Parameter:
            return replace(p, raw=jnp.asarray(position[name], p.raw.dtype)) if name in self._parameters else p

        nodes, structure = jax.tree.flatten(self._model, is_leaf=_is_parameter)
        names = iter(parameters.named_parameters(self._model))
        return jax.tree.unflatten(structure, [changed(n, next(names)) if _is_parameter(n) else n for n in nodes])

    def _posterior(self, position: Mapping[str, Array]) -> Any:
        model = self._model_at(position)
        if not isinstance(model, SVGP):
            return model.posterior(self._data)
        return with_fields(model, vector=self._data.vector).posterior()

    def _raw(self, values: Mapping[str, Any]) -> dict[str, Array]:
        return {
            name: p.transform.inverse(jnp.asarray(values[name], p.raw.dtype)) for name, p in self._parameters.items()
        }

    def _flat(self, positions: Mapping[str, Array]) -> dict[str, Array]:
        """Draws with one axis in front."""
        self._check_names("positions", positions)
        flat = {}
        for name, start in self.start.items():
            a = jnp.asarray(positions[name])
            if a.shape[a.ndim - start.ndim :] != start.shape:
                raise ValueError(f"positions[{name!r}] must have shape (..., *{start.shape}), got {a.shape}")
            flat[name] = a.reshape(-1, *start.shape)
        if len({len(a) for a in flat.values()}) > 1:
            raise ValueError("positions must have the same number of draws of every parameter")
        return flat

    def _check_names(self, argument: str, given: Mapping[str, Any]) -> None:
        if set(given) != set(self.names):
            raise ValueError(f"{argument} must have the keys {', '.join(self.names)}; got {', '.join(given) or 'none'}")

    def __repr__(self) -> str:
        return f"LogDensity of {', '.join(self.names)}"


def _is_parameter(node: Any) -> bool:
    return isinstance(node, Parameter)
