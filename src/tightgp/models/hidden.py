"""A hidden layer of a deep GP: functions whose values are the inputs of the next layer (maths 7.6)."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tightgp import checks, means, parameters
from tightgp.bounds import structures
from tightgp.bounds.latents import Latents
from tightgp.bounds.structures import Structure
from tightgp.kernels import Kernel
from tightgp.models.base import Described, check_mean, check_parts, gaussian_posterior, jitter_level
from tightgp.models.construction import draw_rows, trained_scales
from tightgp.models.variational import COVARIANCES, VariationalGaussian
from tightgp.numerics import linalg
from tightgp.parameters import Parameter, reader, real
from tightgp.posterior import Posterior

#: The standard deviation at which q(w) starts: so small that a layer begins as its mean function.
_START = 1e-5


class HiddenLayer(Described):
    """``num_functions`` GPs with one kernel and one set of inducing inputs, each with a whitened Gaussian q.

    Args:
        kernel: one of ``tightgp.kernels``.
        Z: inducing inputs (M, D).
        num_functions: number of functions L.
        mean: a mean function with L columns, such as `linear` makes. None is the identity, for L = D.
        covariance: the covariance of q: "full" or "diagonal".
        bound: "spherical" (a trained v scales each function's conditional variance) or "standard" (v = 1). A v for each
            row would give no bound here (maths 5.3).
        jitter: relative jitter of ``Kuu`` to begin with; None is the dtype's default.

    >>> layer = tgp.models.HiddenLayer(tgp.kernels.SquaredExponential(), X[:10], num_functions=2)
    >>> layer.posterior().predict_f(X)[0].shape
    (60, 2)
    """

    kernel: Kernel
    mean: means.Mean
    _Z: Parameter
    _v: Parameter | None
    q: VariationalGaussian
    bound: Structure = eqx.field(static=True)
    jitter: float = eqx.field(static=True)

    Z = reader("_Z", "Inducing inputs (M, D).")

    def __init__(
        self,
        kernel: Kernel,
        Z,
        num_functions: int,
        mean: means.Mean | None = None,
        covariance: str = "full",
        bound: str = "spherical",
        jitter: float | None = None,
    ):
        checks.count("num_functions", num_functions)
        checks.choice("covariance", covariance, COVARIANCES[:2])
        checks.choice("bound", bound, ("spherical", "standard"))
        self._Z = real(Z, name="Z")
        checks.matrix("Z", self.Z)
        inputs, dtype = self.Z.shape[1], self.Z.dtype
        if mean is None:
            if inputs != num_functions:
                raise ValueError(
                    f"mean is needed where {num_functions} function(s) have {inputs} input(s): give one such as "
                    f"tightgp.models.hidden.linear(slopes) with slopes ({inputs}, {num_functions}), or "
                    "tightgp.means.Zero(); DeepGP.start chooses the main directions of the data"
                )
            mean = linear(np.eye(inputs))
        check_parts(kernel, mean)
        self.kernel, self.mean = parameters.cast((kernel, mean), dtype)
        check_mean(self.mean, self.Z, num_functions)
        jax.eval_shape(self.kernel, self.Z)  # a kernel that does not fit Z's columns says so here
        self.bound = structures.named(bound)
        self._v = trained_scales(self.bound, num_functions, dtype)
        self.jitter = jitter_level(jitter, dtype)
        prior = VariationalGaussian.prior(None, len(self.Z), num_functions, covariance, dtype)
        self.q = eqx.tree_at(lambda q: q._root.raw, prior, _START * prior._root.raw)

    @property
    def num_inputs(self) -> int:
        """Number of inputs D."""
        return self.Z.shape[1]

    @property
    def num_functions(self) -> int:
        """Number of functions L."""
        return self.q.mean.shape[1]

    @property
    def v(self) -> Float[Array, " l"]:
        """The scale of each function's conditional covariance: trained under "spherical", else one."""
        return jnp.ones(self.num_functions, self.Z.dtype) if self._v is None else self._v.value

    def posterior(self, scaled: bool = False) -> Posterior:
        """The posterior of the layer's functions; ``scaled`` multiplies the conditional's variance by v, as in
        training."""
        return self.factored(scaled)[0]

    @linalg.full_precision
    def factored(self, scaled: bool) -> tuple[Posterior, Float[Array, ""]]:
        """`posterior`, and the jitter of its factor."""
        factor = linalg.factorise(self.kernel(self.Z), self.jitter)
        latents = Latents.trainable(self.kernel, self.Z, factor, (self.q.whitened(),))
        scale = self.v if scaled else None
        return gaussian_posterior(latents, self.mean, None, vector=False, scale=scale), factor.jitter

    def random_start(self, key, inputs: Float[Array, "n d"]) -> "HiddenLayer":
        """Another start for training, with inducing inputs drawn from ``inputs``."""
        key_z, key_p = jax.random.split(key)
        layer = parameters.perturbed(self, key_p)
        if self._Z.frozen:
            return layer
        chosen = draw_rows(key_z, len(inputs), len(self.Z))
        return eqx.tree_at(lambda one: one._Z.raw, layer, jnp.asarray(inputs)[chosen])

    def _title(self) -> str:
        return f"HiddenLayer, {self.outline}, {self.Z.dtype}"

    @property
    def outline(self) -> str:
        """The layer's inputs, functions, bound and inducing points, in a few words."""
        return f"{self.num_inputs} → {self.num_functions}, bound {self.bound.name}, M = {len(self.Z)}"


def linear(slopes) -> means.Linear:
    """``m(x) = slopesᵀx`` with fixed slopes (D, L), which training does not change."""
    return means.Linear(real(slopes, name="slopes", frozen=True), real(0.0, frozen=True))
