"""A kernel of learnt features: a neural network in front of any kernel (maths 15.5)."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from tightgp import checks
from tightgp.kernels.base import Kernel
from tightgp.parameters import Parameter, real


class Function(eqx.Module):
    """A function in a network, such as its activation, which has no parameters."""

    function: Callable = eqx.field(static=True)

    def __call__(self, *args, **kwargs):
        return self.function(*args, **kwargs)


class Deep(Kernel):
    """``k(x, x') = k_1(g(x), g(x'))``: any kernel of features g that an Equinox module computes (maths 15.5).

    The network's arrays are trained with everything else; ``tgp.freeze(kernel, "network.*")`` holds them. A network has
    as many parameters as it has weights, and the evidence does not stop all overfitting: compare on rows held out.

    A model file holds fields and no functions: for a model that can be saved, write the network as a class whose
    ``__call__`` names its activations, and load with ``tgp.load(path, classes=[Network, eqx.nn.Linear])``.

    Args:
        kernel: the kernel of the features.
        network: an Equinox module that maps a row (d,) to features (q,).
        active_dims: the columns of X that the network sees; None for all of them.

    >>> import equinox as eqx
    >>> network = eqx.nn.MLP(2, 3, width_size=8, depth=1, activation=jnp.tanh, key=jax.random.key(0))
    >>> kernel = tgp.kernels.Deep(tgp.kernels.Matern32(), network)
    >>> kernel(X[:5], X).shape
    (5, 60)
    >>> sorted(tgp.named_parameters(kernel))[-1]
    'network.layers[1].weight'
    """

    kernel: Kernel
    network: Any

    def __init__(self, kernel, network, active_dims=None):
        checks.instance("kernel", kernel, Kernel, "tightgp.kernels")
        if not isinstance(network, eqx.Module) or not callable(network):
            raise ValueError(
                "network must be an Equinox module that maps a row (d,) to features (q,), such as equinox.nn.MLP; "
                f"got {type(network).__name__}"
            )
        self.kernel, self.active_dims = kernel, active_dims
        self.network = jax.tree_util.tree_map_with_path(_part, network, is_leaf=_is_part)

    def matrix(self, X, X2):
        return self.kernel(self._features(X), None if X2 is None else self._features(X2))

    def variances(self, X):
        return self.kernel.diagonal(self._features(X))

    def _features(self, X):
        network = jax.tree.map(lambda p: p.value if _is_part(p) else p, self.network, is_leaf=_is_part)
        features = jax.vmap(network)(X)
        if features.ndim != 2:
            raise ValueError(
                f"network must map a row (d,) to features (q,), got an array of shape {features.shape[1:]}"
            )
        return features.astype(X.dtype)


def _is_part(leaf) -> bool:
    return isinstance(leaf, Parameter)


def _part(path, leaf):
    """A leaf of a network as a part of a model: a parameter, or a function."""
    if isinstance(leaf, Parameter):
        return leaf
    if eqx.is_inexact_array(leaf):
        return real(jnp.asarray(leaf, jnp.result_type(float)))
    if callable(leaf):
        return Function(leaf)
    name = jax.tree_util.keystr(path).lstrip(".")
    raise ValueError(
        f"network.{name} is {leaf!r}, which is neither an array of floats nor a function; "
        "mark it with equinox.field(static=True)"
    )
