"""Deep GPs by doubly stochastic variational inference, with the tight terms (maths 7.6)."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tightgp import checks, inducing, means
from tightgp.bounds.structures import Structure
from tightgp.data import Dataset
from tightgp.data.placement import OnDevice, PlacedRows
from tightgp.data.rows import Rows
from tightgp.kernels import Kernel, SquaredExponential
from tightgp.likelihoods.base import Likelihood
from tightgp.models.base import (
    BatchModel,
    as_estimate,
    check_finite,
    check_mean,
    explain_rows,
    with_fields,
)
from tightgp.models.construction import as_tuple, check_data
from tightgp.models.hidden import HiddenLayer, linear
from tightgp.models.svgp import SVGP
from tightgp.numerics import linalg
from tightgp.numerics.components import principal
from tightgp.posterior.deep import DeepPosterior, paths

#: Without widths a start has as many hidden functions as inputs, up to this many.
_WIDEST = 30
#: Fewer draws for each row than this must not stay the same in training.
_FIXED_DRAWS = 10


class DeepGP(BatchModel):
    """GPs of GPs: hidden layers, and an `SVGP` whose inputs are the last one's values (Salimbeni & Deisenroth 2017).

    ``output`` says the likelihood, and its bound: "diagonal" for Gaussian noise has the tight term of each row, at
    the hidden values it is drawn at (maths 7.6b); other likelihoods train v. Blocks are refused. Hidden layers train a
    v for each function. `start` makes one from data alone.

    Paths are drawn anew in each step on minibatches. Without ``batch_size`` the draws stay the same, and the model
    would learn few of them by heart: `fit` then asks for ``batch_size``, be it the number of rows, or for more draws.

    Args:
        hidden: a `HiddenLayer`, or a list of them, each with as many inputs as the one before has functions.
        output: an `SVGP` whose ``Z`` has as many columns as the last hidden layer has functions.
        num_samples: paths drawn for each row in training. One is unbiased; more are less noisy.

    >>> model = DeepGP(HiddenLayer(SquaredExponential(), Z, 1), SVGP(SquaredExponential(), likelihoods.Gaussian(), Z))
    >>> result = fit(model, data, batch_size=256, epochs=200)
    """

    hidden: tuple[HiddenLayer, ...]
    output: SVGP
    num_samples: int = eqx.field(static=True)

    def __init__(self, hidden: HiddenLayer | list[HiddenLayer] | tuple[HiddenLayer, ...], output: SVGP, num_samples=1):
        layers = tuple(hidden) if isinstance(hidden, list | tuple) else (hidden,)
        if not layers or not all(isinstance(layer, HiddenLayer) for layer in layers):
            raise ValueError(
                f"hidden must be a HiddenLayer or a list of them, got {', '.join(_kinds(layers)) or 'an empty list'}"
            )
        if not isinstance(output, SVGP):
            raise ValueError(f"output must be a tightgp.SVGP, got {type(output).__name__}")
        if output.bound.partition.size > 1:
            raise ValueError(
                f"bound={output.bound.name!r} of output groups rows by their inputs, which are drawn anew in each step;"
                " use 'diagonal' or 'spherical'"
            )
        checks.count("num_samples", num_samples)
        for i, layer in enumerate(layers):
            follows = f"hidden[{i + 1}]" if i + 1 < len(layers) else "output"
            Z = layers[i + 1]._Z.raw if i + 1 < len(layers) else as_tuple(output._Z)[0].raw
            if Z.shape[1] != layer.num_functions:
                raise ValueError(
                    f"hidden[{i}] has {layer.num_functions} function(s), but Z of {follows}, which takes them as its "
                    f"inputs, has {Z.shape[1]} column(s); they must agree"
                )
            checks.same_dtype(f"Z of {follows}", Z, "hidden[0]", layers[0]._Z.raw)
        self.hidden, self.output, self.num_samples = layers, output, int(num_samples)

    @property
    def draws_anew(self) -> bool:
        """Whether training needs fresh draws in each step: so few that stay the same would be learnt by heart."""
        return self.num_samples < _FIXED_DRAWS

    @classmethod
    def start(
        cls,
        X,
        likelihood: Likelihood,
        hidden: int | tuple[int, ...] | None = None,
        *,
        num_inducing: int = 100,
        kernel: Callable[..., Kernel] = SquaredExponential,
        bound: str | Structure | None = None,
        hidden_bound: str = "spherical",
        mean: means.Mean | None = None,
        num_latents: int | None = None,
        num_samples: int = 1,
        seed: int = 0,
    ) -> "DeepGP":
        """A deep GP to train, from standardised inputs ``X``.

        ``hidden`` are the widths of the hidden layers; None is one as wide as ``X``, up to 30. Each begins as its mean
        function: the identity, or the main directions of its inputs where it is narrower, or zeros beside them where
        it is wider. ``kernel`` is a class such as `tightgp.kernels.Matern52`, made for each layer with a lengthscale
        for each input. Inducing inputs are k-means centres, taken through the mean functions. ``bound``, ``mean`` and
        ``num_latents`` are the last layer's.
        """
        X = np.asarray(checks.matrix("X", X))
        widths = (min(X.shape[1], _WIDEST),) if hidden is None else hidden
        widths = tuple(widths) if isinstance(widths, list | tuple) else (widths,)
        if not widths:
            raise ValueError("hidden is empty; give the width of at least one hidden layer, or use tightgp.SVGP")
        if not callable(kernel) or isinstance(kernel, Kernel):
            raise ValueError("kernel must be a class such as tightgp.kernels.Matern52: each layer has one of its own")
        Z, layers = inducing.kmeans(X, num_inducing, seed), []
        for width in widths:
            slopes = _directions(X, checks.count("hidden", width))
            values = X @ slopes
            spread = float(np.mean(np.var(values, axis=0))) or 1.0
            layers.append(HiddenLayer(_ard(kernel, X, spread), Z, width, linear(slopes), bound=hidden_bound))
            X, Z = values, Z @ slopes
        options: dict[str, Any] = {"mean": mean, "num_latents": num_latents}
        return cls(layers, SVGP(_ard(kernel, X, 1.0), likelihood, Z, bound, **options), num_samples)

    def elbo(
        self, data: Dataset, num_data: int | None = None, key=None, num_samples: int | None = None
    ) -> Float[Array, ""]:
        """An unbiased estimate of the bound on the log evidence, in total nats (maths 7.6d).

        ``num_samples`` paths are drawn for each row (None takes the model's own number) by ``key``; without it the
        draws are always the same. With ``num_data``, ``data`` is a minibatch of so many rows.
        """
        if num_data is not None:
            checks.count("num_data", num_data)
        model, rows = self.prepare(data)
        if num_samples is not None:
            model = with_fields(model, num_samples=checks.count("num_samples", num_samples))
        value, followed = model.value_on(rows, key)
        return check_finite(as_estimate(value, followed["divergence"], data.num_data, num_data), model, rows)

    def posterior(self, *, scaled: bool = False) -> DeepPosterior:
        """What q implies at new inputs, its factors computed once.

        ``scaled`` multiplies the conditionals' variances by the trained v also there (maths 8.3), in every layer that
        has one.
        """
        hidden = _hidden(self, scaled)[0]
        whole = jnp.all(jnp.stack([jnp.all(jnp.isfinite(layer.latents[0].whitener.inverse)) for layer in hidden]))
        if not isinstance(whole, jax.core.Tracer) and not bool(whole):
            raise linalg.NumericalError("Kuu of a layer could not be factorised; elbo(data) says more about why")
        return DeepPosterior(hidden, self.output.posterior(scaled=scaled and self.output.v is not None))

    def for_targets(self, vector: bool) -> "DeepGP":
        """This model for targets (N,) or (N, 1): its predictions will have the same shape."""
        return with_fields(self, output=self.output.for_targets(vector))

    def check_rows(self, data: Dataset) -> Rows:
        """Refuse data that this model cannot be trained on; its rows, still where they are."""
        if not isinstance(data, Dataset):
            raise ValueError(f"data must be a tightgp.Dataset(X, y), got {type(data).__name__}")
        if data.input_variance is not None:
            raise ValueError("input_variance does not go with a DeepGP; leave it out, or use tightgp.SVGP")
        out = self.output
        functions = out.num_latents if out.mixing is None else len(out.mixing)
        values = jnp.zeros((1, self.hidden[-1].num_functions), self._dtype)
        check_mean(out.mean, values, functions, shared=out.likelihood.num_latents is None)
        check_data(data, self.hidden[0]._Z.raw, out.likelihood, out.num_outputs)
        return data.rows()

    def value_on(self, rows: PlacedRows, key: jax.Array | None = None) -> tuple[Float[Array, ""], dict[str, Any]]:
        return _elbo(self, rows, jax.random.key(0) if key is None else key)

    @property
    def natural_rate(self) -> float:
        """The step size of natural gradients: no single step solves for the q of coupled layers (maths 4.4)."""
        return 0.1

    def random_start(self, key: jax.Array, rows: PlacedRows) -> "DeepGP":
        real, layers = rows.sample(rows.real()), []
        X = real.X
        for i, layer in enumerate(self.hidden):
            layers.append(layer.random_start(jax.random.fold_in(key, i), X))
            X = jnp.broadcast_to(layer.mean(X), (len(X), layer.num_functions))
        output = self.output.random_start(jax.random.fold_in(key, len(layers)), OnDevice(real._replace(X=X)))
        return with_fields(self, hidden=tuple(layers), output=output)

    def explain(self, rows: PlacedRows) -> str:
        layers = [(f"hidden[{i}]", layer.kernel, layer.Z) for i, layer in enumerate(self.hidden)]
        layers += [("output", *pair) for pair in self.output.groups()]
        broken = [one for one in layers if not _factorises(*one[1:])]
        name, kernel, Z = (broken or layers)[0]
        return f"in {name}: {explain_rows(self, rows, kernel, Z, 'Kuu', missing=True)}"

    @property
    def vector(self) -> bool:
        """Whether predictions are (n,) rather than (n, 1)."""
        return self.output.vector

    @property
    def _dtype(self):
        return self.hidden[0]._Z.raw.dtype

    def _title(self) -> str:
        layers = "; ".join(layer.outline for layer in self.hidden)
        return f"DeepGP, hidden {layers}; output {self.output._title()}"


def _kinds(layers) -> list[str]:
    return [type(layer).__name__ for layer in layers]


def _directions(X: np.ndarray, width: int) -> np.ndarray:
    """Slopes (D, width): the identity, the main directions of ``X``, or the identity with zeros beside it."""
    D = X.shape[1]
    if width >= D:
        return np.eye(D, width, dtype=X.dtype)
    return np.ascontiguousarray(principal(X).directions[:width].T)


def _ard(kernel: Callable[..., Kernel], X: np.ndarray, variance: float) -> Kernel:
    """A kernel with a lengthscale for each input, that rows begin neither near nor far."""
    sd = np.std(X, axis=0)
    return kernel(variance=variance, lengthscale=np.where(sd > 0, sd, 1.0) * max(1.0, 0.5 * np.sqrt(X.shape[1])))


@eqx.filter_jit
def _factorises(kernel: Kernel, Z) -> Array:
    return jnp.all(jnp.isfinite(linalg.factorise(kernel(Z), linalg.default_jitter(Z.dtype)).lower))


@eqx.filter_jit
def _hidden(model: DeepGP, scaled: bool):
    """The posteriors of the hidden layers, and the largest jitter that their factors took."""
    posteriors, levels = zip(*(layer.factored(scaled) for layer in model.hidden), strict=True)
    return posteriors, jnp.max(jnp.stack(levels))


@eqx.filter_jit
def _elbo(model: DeepGP, rows: PlacedRows, key: jax.Array):
    """The bound (maths 7.6d): the last layer's own at the ends of drawn paths, less what the hidden layers cost."""
    hidden, jitter = _hidden(model, True)
    paths_key, key = jax.random.split(key)
    value, followed = model.output.value_on(_drawn(hidden, rows, model.num_samples, paths_key), key)
    like = rows.like
    seen = jnp.sum(jnp.where(jnp.any(~jnp.isnan(like.y), axis=1), like.weight, 0.0))
    divergence = sum(layer.latents[0].divergence() for layer in hidden)
    excess = sum(jnp.sum(layer.v - jnp.log(layer.v) - 1) for layer in model.hidden)
    value = value - divergence - 0.5 * seen * excess
    followed["divergence"] = followed["divergence"] + divergence
    followed["jitter"] = jnp.maximum(followed["jitter"], jitter)
    followed["hidden_v"] = jnp.mean(jnp.concatenate([layer.v for layer in model.hidden]))
    return value, followed


def _drawn(hidden, rows: PlacedRows, count: int, key: jax.Array) -> PlacedRows:
    """``count`` paths of each row through the hidden layers, as rows of ``1/count`` of its weight."""

    def draw(rows: Rows) -> Rows:
        keys = jax.random.split(key, len(hidden))
        shapes = [(count, rows.num_rows, layer.scale.shape[0]) for layer in hidden]
        draws = [jax.random.normal(k, shape, rows.X.dtype) for k, shape in zip(keys, shapes, strict=True)]
        H = jnp.swapaxes(paths(hidden, rows.X, draws), 0, 1)
        repeated = rows._replace(X=None).map(lambda a: jnp.repeat(a, count, axis=0))
        return repeated._replace(X=H.reshape(-1, H.shape[2]), weight=repeated.weight / count)

    return rows.changed(draw)
