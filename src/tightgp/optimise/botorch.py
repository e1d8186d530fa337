"""A posterior as a BoTorch model: predictions, gradients and fantasies for its acquisition functions.

``pip install 'tightgp[botorch]'``. Torch and JAX share arrays by DLPack. Everything is computed in float64 on the CPU.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import torch
from botorch.models.model import FantasizeMixin, Model
from botorch.posteriors import GPyTorchPosterior
from gpytorch.distributions import MultitaskMultivariateNormal, MultivariateNormal
from jaxtyping import Array, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from tightgp.likelihoods import Gaussian
from tightgp.posterior import Posterior, conditioning


class BoTorchModel(Model, FantasizeMixin):
    """A BoTorch ``Model`` of a tightgp posterior: an `ExactGP`'s, or one from inducing points with Gaussian noise.

    Values are in the units of the targets that the posterior was made from, and BoTorch maximises; hyperparameters stay
    as they are, so fit again after new values, or use `Posterior.condition`. Fantasies update the posterior exactly
    (maths 16.4), and gradients go through them.

    Args:
        posterior: of ``model.posterior(data)``. Where the model was trained with neighbours,
            ``without_rows()``: those of a moving point change in jumps, which have no gradient.

    >>> model = BoTorchModel(posterior)  # doctest: +SKIP
    >>> LogExpectedImprovement(model, best_f=y.max())(torch.tensor([[[0.3, 0.7]]]))  # doctest: +SKIP
    """

    def __init__(self, posterior: Posterior):
        super().__init__()
        if not isinstance(posterior, Posterior) or type(posterior.likelihood) is not Gaussian:
            raise ValueError("posterior must be a tightgp.Posterior with Gaussian noise")
        if not posterior.is_bound:
            raise ValueError(
                "posterior is of a model under Power EP or Vecchia, whose new rows depend on the training rows; pass "
                "that of a model with a bound, such as 'diagonal', or an ExactGP's"
            )
        if posterior.neighbours and posterior.training is not None:
            raise ValueError(
                "posterior predicts from neighbours, which change in jumps and have no gradient; pass "
                "posterior.without_rows(), which predicts from the inducing points alone, or an ExactGP's"
            )
        self.source = posterior.without_rows()
        source = self.source
        conditioning.check(source._functions, source.likelihood, None, 0, source.is_bound, None)
        self._outputs = list(range(posterior.num_outputs))
        self._new: tuple[Tensor, Tensor] | None = None

    @property
    def num_outputs(self) -> int:
        """Number of outputs m."""
        return len(self._outputs)

    @property
    def batch_shape(self) -> torch.Size:
        """The shape of the batch of fantasies."""
        return torch.Size() if self._new is None else self._new[0].shape[:-2]

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: Any = None,
    ) -> Any:
        """The joint posterior of the functions at ``X`` (..., q, d), or with noise of new values."""
        mean, cov = self._joint(self.transform_inputs(X))  # (..., m, q), (..., m, q, q)
        chosen = self._outputs if output_indices is None else [self._outputs[i] for i in output_indices]
        mean, cov = mean[..., chosen, :], cov[..., chosen, :, :]
        if observation_noise is not False:
            if isinstance(observation_noise, Tensor):
                noise = observation_noise.expand(*mean.shape[:-2], mean.shape[-1], len(chosen)).transpose(-1, -2)
            else:
                noise = torch.as_tensor(np.array(self._noise())[chosen]).to(mean)[:, None].expand(mean.shape)
            cov = cov + torch.diag_embed(noise)
        if len(chosen) == 1:
            normal = MultivariateNormal(mean[..., 0, :], cov[..., 0, :, :])
        else:
            normal = MultitaskMultivariateNormal.from_batch_mvn(MultivariateNormal(mean, cov), task_dim=-1)
        found = GPyTorchPosterior(normal)
        return found if posterior_transform is None else posterior_transform(found)

    def condition_on_observations(self, X: Tensor, Y: Tensor, **kwargs: Any) -> "BoTorchModel":
        """The model that also knows values ``Y`` (..., n, m) at ``X`` (..., n, d), for each of a batch."""
        if kwargs.get("noise") is not None:
            raise ValueError("noise of new rows is the model's own; leave it out")
        if self.num_outputs != self.source.num_outputs:
            raise ValueError("condition_on_observations needs all outputs; use it before subset_output")
        conditioning.check_noise(self.source.noise_variance, None)
        X = X.expand(*Y.shape[:-2], *X.shape[-2:])
        if self._new is not None:
            X, Y = (
                torch.cat([old.expand(*new.shape[:-2], *old.shape[-2:]), new], dim=-2)
                for old, new in zip(self._new, (X, Y), strict=True)
            )
        return self._changed(_new=(X, Y))

    def fantasize(
        self, X: Tensor, sampler: Any, observation_noise: Tensor | None = None, **kwargs: Any
    ) -> "BoTorchModel":
        """Models that know draws of the values at ``X``, one for each sample."""
        noise = True if observation_noise is None else observation_noise
        return self.condition_on_observations(X, sampler(self.posterior(X, observation_noise=noise)))

    def subset_output(self, idcs: list[int]) -> "BoTorchModel":
        """The model of some of the outputs."""
        return self._changed(_outputs=[self._outputs[i] for i in idcs])

    def _changed(self, **values: Any) -> "BoTorchModel":
        model = BoTorchModel(self.source)
        model._outputs, model._new = self._outputs, self._new
        for name, value in values.items():
            setattr(model, name, value)
        return model

    def _noise(self) -> Float[Array, " p"]:
        return jnp.broadcast_to(self.source.noise_variance, (self.source.num_outputs,))

    def _joint(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Means (..., P, q) and covariances (..., P, q, q)."""
        batch = torch.broadcast_shapes(X.shape[:-2], self.batch_shape)
        if self._new is None:
            new = X.new_zeros(*batch, 0, X.shape[-1]), X.new_zeros(*batch, 0, self.source.num_outputs)
        else:
            new = self._new
        count = batch.numel()
        flat = [a.expand(*batch, *a.shape[-2:]).reshape(count, *a.shape[-2:]) for a in (*new, X)]
        flat = [a.to("cpu", torch.float64) for a in flat]
        mean, cov = _Joint.apply(self.source, *flat)
        return mean.reshape(*batch, *mean.shape[1:]).to(X), cov.reshape(*batch, *cov.shape[1:]).to(X)


class _Joint(torch.autograd.Function):
    """The joint posterior of batches of points, each given new rows of its own, as a node of Torch's graph."""

    @staticmethod
    def forward(ctx: Any, source: Posterior, *tensors: Tensor) -> tuple[Tensor, Tensor]:
        ctx.source = source
        ctx.save_for_backward(*tensors)
        count = len(tensors[0])
        mean, cov = _batch_of_joints(source, *_padded(tensors))
        return _to_torch(mean)[:count], _to_torch(cov)[:count]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *bars: Tensor) -> tuple:
        tensors = ctx.saved_tensors
        slopes = _pull_back(ctx.source, _padded(tensors), _padded(bars, zeros=True))
        return None, *(_to_torch(slope)[: len(one)] for slope, one in zip(slopes, tensors, strict=True))


def _padded(tensors: tuple[Tensor, ...], zeros: bool = False) -> tuple[Array, ...]:
    """JAX's arrays of tensors, with as many in a batch as a power of two, so that few programs are compiled."""
    count = len(tensors[0])
    missing = 2 ** max(0, count - 1).bit_length() - count
    arrays = []
    for one in tensors:
        more = one[-1:].expand(missing, *one.shape[1:])
        whole = torch.cat([one, torch.zeros_like(more) if zeros else more]).detach().contiguous()
        arrays.append(jnp.from_dlpack(whole) if whole.numel() else jnp.zeros(whole.shape))
    return tuple(arrays)


def _to_torch(array: Array) -> Tensor:
    return torch.from_dlpack(array).clone() if array.size else torch.zeros(array.shape, dtype=torch.float64)


@eqx.filter_jit
def _batch_of_joints(source: Posterior, *arrays: Array) -> tuple[Array, Array]:
    return jax.vmap(lambda *one: source.joint_given(*one))(*arrays)


@eqx.filter_jit
def _pull_back(source: Posterior, arrays: tuple[Array, ...], bars: tuple[Array, ...]) -> tuple[Array, ...]:
    return jax.vjp(lambda *arrays: _batch_of_joints(source, *arrays), *arrays)[1](bars)
