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
from tightgp.models import diagnosis
from tightgp.models.base import BatchModel, as_estimate, check_finite, explain_rows, with_fields
from tightgp.models.construction import as_tuple, check_factors
from tightgp.models.hidden import HiddenLayer, linear
from tightgp.models.svgp import SVGP
from tightgp.numerics.components import principal
from tightgp.posterior.deep import DeepPosterior, paths

#: By default a hidden layer has as many functions as there are inputs, up to this many.
_MAX_WIDTH = 30
#: With fewer draws for each row, training needs new draws in each step.
_MIN_FIXED_DRAWS = 10


class DeepGP(BatchModel):
    """A deep GP: hidden layers, and an `SVGP` on the values of the last one (Salimbeni & Deisenroth 2017).

    ``output`` has the likelihood and its bound: "diagonal", for Gaussian noise, has a tight term for each row at its
    drawn hidden values (maths 7.6b); for other likelihoods v is trained. Bounds of blocks are refused. Each hidden
    function has a trained v. `start` makes a deep GP from data alone.

    With ``batch_size``, `fit` draws new paths in each step. Without it the draws stay the same, and a model would
    overfit to few of them: `fit` then asks for ``batch_size``, which may be the number of rows, or for more draws.

    Args:
        hidden: a `HiddenLayer`, or a list of them, each with as many inputs as the one before has functions.
        output: an `SVGP` whose ``Z`` has as many columns as the last hidden layer has functions.
        num_samples: paths drawn for each row in training. One is unbiased; more are less noisy.

    >>> kernel = tgp.kernels.SquaredExponential()
    >>> layer = tgp.models.HiddenLayer(kernel, X[:10], num_functions=2)
    >>> model = tgp.DeepGP(layer, tgp.SVGP(kernel, tgp.likelihoods.Gaussian(), X[:10]))
    >>> result = tgp.fit(model, tgp.Dataset(X, y), "adam", batch_size=20, epochs=2, progress=False)
    >>> result.model.posterior().predict_f(X[:5])[0].shape
    (5,)
    """

    hidden: tuple[HiddenLayer, ...]
    output: SVGP
    num_samples: int = eqx.field(static=True)

    def __init__(self, hidden: HiddenLayer | list[HiddenLayer] | tuple[HiddenLayer, ...], output: SVGP, num_samples=1):
        layers = as_tuple(hidden)
        if not layers or not all(isinstance(layer, HiddenLayer) for layer in layers):
            kinds = ", ".join(type(layer).__name__ for layer in layers) or "an empty list"
            raise ValueError(f"hidden must be a HiddenLayer or a list of them, got {kinds}")
        if not isinstance(output, SVGP):
            raise ValueError(f"output must be a tightgp.SVGP, got {type(output).__name__}")
        if not output.bound.partition.trivial:
            raise ValueError(
                f"bound={output.bound.name!r} of output groups rows by their inputs, which are drawn anew in each step;"
                " use 'diagonal' or 'spherical'"
            )
        self.hidden, self.output = layers, output
        parts = self._parts()
        for i, layer in enumerate(layers):
            name, _, Z = parts[i + 1]
            if Z.shape[1] != layer.num_functions:
                raise ValueError(
                    f"hidden[{i}] has {layer.num_functions} function(s), but Z of {name}, which takes them as its "
                    f"inputs, has {Z.shape[1]} column(s); they must agree"
                )
            checks.same_dtype(f"Z of {name}", Z, "hidden[0]", layers[0].Z)
        self.num_samples = checks.count("num_samples", num_samples)

    @property
    def draws_anew(self) -> bool:
        """Whether training needs new draws in each step: a model overfits to few draws that stay the same."""
        return self.num_samples < _MIN_FIXED_DRAWS

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
        """Make a deep GP to train, from standardised inputs ``X``.

        Each hidden layer begins as its mean function: the identity; the main directions of its inputs if it is
        narrower; the identity and zeros if it is wider. Inducing inputs are k-means centres, mapped by the means.

        Args:
            X: inputs (N, D).
            likelihood: one of ``tightgp.likelihoods``.
            hidden: widths of the hidden layers; None is one layer as wide as ``X``, up to 30.
            num_inducing: inducing inputs of each layer.
            kernel: a class such as `tightgp.kernels.Matern52`, made for each layer with a lengthscale for each input.
            bound: the bound of the last layer.
            hidden_bound: "spherical" or "standard", the bound of the hidden layers.
            mean: the mean function of the last layer.
            num_latents: number of latent functions of the last layer.
            num_samples: paths drawn for each row in training.
            seed: for k-means.

        >>> model = tgp.DeepGP.start(X, tgp.likelihoods.Gaussian(), hidden=(2, 1), num_inducing=10)
        >>> [layer.num_functions for layer in model.hidden]
        [2, 1]
        """
        X = np.asarray(checks.matrix("X", X))
        widths = as_tuple(min(X.shape[1], _MAX_WIDTH) if hidden is None else hidden)
        if not widths:
            raise ValueError("hidden is empty; give the width of at least one hidden layer, or use tightgp.SVGP")
        if not callable(kernel) or isinstance(kernel, Kernel):
            raise ValueError("kernel must be a class such as tightgp.kernels.Matern52: each layer has one of its own")
        Z, layers = inducing.kmeans(X, num_inducing, seed), []
        for width in widths:
            slopes = _directions(X, checks.count("hidden", width))
            values = X @ slopes
            variance = float(np.mean(np.var(values, axis=0))) or 1.0
            layers.append(HiddenLayer(_ard(kernel, X, variance), Z, width, linear(slopes), bound=hidden_bound))
            X, Z = values, Z @ slopes
        output = SVGP(_ard(kernel, X, 1.0), likelihood, Z, bound, mean=mean, num_latents=num_latents)
        return cls(layers, output, num_samples)

    def elbo(
        self, data: Dataset, num_data: int | None = None, key=None, num_samples: int | None = None
    ) -> Float[Array, ""]:
        """An unbiased estimate of the bound on the log evidence, in total nats (maths 7.6d).

        Args:
            data: all rows, or a minibatch if ``num_data`` is given.
            num_data: number of rows of the whole data set.
            key: random key for the paths; None always draws the same.
            num_samples: paths drawn for each row; None takes the model's own number.
        """
        if num_data is not None:
            checks.count("num_data", num_data)
        model, rows = self.prepare(data)
        if num_samples is not None:
            model = with_fields(model, num_samples=checks.count("num_samples", num_samples))
        value, followed = model.value_on(rows, key)
        return check_finite(as_estimate(value, followed["divergence"], data.num_data, num_data), model, rows)

    def posterior(self, *, scaled: bool = False) -> DeepPosterior:
        """The posterior that q implies; its factors are computed once.

        ``scaled`` multiplies the conditionals' variances by the trained v at new inputs too (maths 8.3), in every
        layer that has one.
        """
        hidden = _hidden(self, scaled)[0]
        latents = tuple(layer.latents[0] for layer in hidden)
        check_factors(latents, "Kuu of a layer could not be factorised; elbo(data) says more about why")
        return DeepPosterior(hidden, self.output.posterior(scaled=scaled and self.output.v is not None))

    def for_targets(self, vector: bool) -> "DeepGP":
        """This model for targets (N,) or (N, 1): its predictions will have the same shape."""
        return with_fields(self, output=self.output.for_targets(vector))

    def check_rows(self, data: Dataset) -> Rows:
        """Refuse data that this model cannot be trained on; its rows, still where they are."""
        self.output.check_targets(data, self.hidden[0].Z)
        if data.input_variance is not None:
            raise ValueError("input_variance does not go with a DeepGP; leave it out, or use tightgp.SVGP")
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
        parts = self._parts()
        name, kernel, Z = next((part for part in parts if not diagnosis.can_factorise(*part[1:])), parts[0])
        return f"in {name}: {explain_rows(self, rows, kernel, Z, 'Kuu', missing=True)}"

    @property
    def vector(self) -> bool:
        """Whether predictions are (n,) rather than (n, 1)."""
        return self.output.vector

    def _parts(self) -> list[tuple[str, Kernel, Float[Array, "m d"]]]:
        """Name, kernel and inducing inputs of each hidden layer, and of each group of the output's functions."""
        layers = [(f"hidden[{i}]", layer.kernel, layer.Z) for i, layer in enumerate(self.hidden)]
        return layers + [("output", *group) for group in self.output.groups()]

    def _title(self) -> str:
        layers = "; ".join(layer.outline for layer in self.hidden)
        return f"DeepGP, hidden {layers}; output {self.output._title()}"


def _directions(X: np.ndarray, width: int) -> np.ndarray:
    """Slopes (D, width): the identity, the main directions of ``X``, or the identity with zeros beside it."""
    D = X.shape[1]
    if width >= D:
        return np.eye(D, width, dtype=X.dtype)
    return np.ascontiguousarray(principal(X).directions[:width].T)


def _ard(kernel: Callable[..., Kernel], X: np.ndarray, variance: float) -> Kernel:
    """A kernel with a lengthscale for each input, such that typical rows are about one lengthscale apart."""
    sd = np.std(X, axis=0)
    return kernel(variance=variance, lengthscale=np.where(sd > 0, sd, 1.0) * max(1.0, 0.5 * np.sqrt(X.shape[1])))


@eqx.filter_jit
def _hidden(model: DeepGP, scaled: bool):
    """The posteriors of the hidden layers, and the largest jitter of their factors."""
    posteriors, jitters = zip(*(layer.factored(scaled) for layer in model.hidden), strict=True)
    return posteriors, jnp.max(jnp.stack(jitters))


@eqx.filter_jit
def _elbo(model: DeepGP, rows: PlacedRows, key: jax.Array):
    """The bound (maths 7.6d): that of the last layer at the drawn hidden values, less the hidden layers' terms."""
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
    """``count`` paths of each row through the hidden layers, as rows with ``1/count`` of its weight."""

    def draw(rows: Rows) -> Rows:
        keys = jax.random.split(key, len(hidden))
        shapes = [(count, rows.num_rows, layer.scale.shape[0]) for layer in hidden]
        draws = [jax.random.normal(k, shape, rows.X.dtype) for k, shape in zip(keys, shapes, strict=True)]
        H = jnp.swapaxes(paths(hidden, rows.X, draws), 0, 1)
        repeated = rows._replace(X=None).map(lambda a: jnp.repeat(a, count, axis=0))
        return repeated._replace(X=H.reshape(-1, H.shape[2]), weight=repeated.weight / count)

    return rows.changed(draw)
