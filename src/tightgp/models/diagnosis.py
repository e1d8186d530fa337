"""Find out why a factorisation failed, after it did, and say so in the user's terms."""

import jax.numpy as jnp
import numpy as np

from tightgp import checks, parameters
from tightgp.data.rows import Rows
from tightgp.numerics import linalg


def explain(model, rows: Rows, kernel, Z, what: str, missing: bool = False) -> str:
    """List the likely causes of a non-finite objective of ``model`` on ``rows``.

    ``what`` is the matrix that is factorised, "Kuu" or "Kff". ``missing`` says that NaN in y is a missing output.
    """
    causes = [
        *_bad_rows("X", rows.X),
        *_bad_rows("y", jnp.nan_to_num(rows.y, posinf=jnp.inf, neginf=-jnp.inf) if missing else rows.y),
        *_bad_rows("Z", Z),
        *_runaways(model, rows),
        *_priors(model),
        *_precision(model, rows, kernel),
        *_duplicates("Z" if what == "Kuu" else "X", Z),
        *_kernel_rows(what, kernel, Z),
    ]
    if can_factorise(kernel, Z):
        text = f"the objective is not finite, though {what} can be factorised"
    else:
        text = f"the objective is not finite: {what} could not be factorised even with the largest jitter"
    if not causes:
        return text + "; no single cause was found: try float64, larger noise_variance, or fewer inducing points"
    return text + "".join(f"\n  - {cause}" for cause in causes)


def can_factorise(kernel, Z) -> bool:
    """Whether ``kernel(Z)`` has a Cholesky factor, with jitter."""
    return bool(jnp.isfinite(jnp.sum(linalg.factorise(kernel(Z), linalg.default_jitter(Z.dtype)).lower)))


def _bad_rows(name, array):
    bad = np.unique(np.nonzero(~np.isfinite(np.asarray(array)))[0])
    if len(bad):
        yield f"{name} has NaN or infinite values in rows {checks.listed(bad)}"


def _runaways(model, rows):
    spread = float(jnp.max(jnp.abs(rows.X - jnp.mean(rows.X, axis=0)))) or 1.0
    power = float(jnp.nanmean(rows.y**2)) or 1.0
    for name, p in parameters.named_parameters(model).items():
        value, last = np.asarray(p.value), name.split(".")[-1]
        if not np.all(np.isfinite(value)):
            yield f"{name} is not finite: {checks.listed([f'{v:.3g}' for v in value.ravel()])}"
        elif last in ("lengthscale", "period") and (value.max() > 1e6 * spread or value.min() < 1e-6 * spread):
            yield f"{name} ran away to {value.min():.3g} .. {value.max():.3g}; the inputs spread over {spread:.3g}"
        elif last.endswith("variance") and value.max() > 1e8 * power:
            yield f"{name} ran away to {value.max():.3g}; the targets have mean square {power:.3g}"


def _priors(model):
    for name, p in parameters.named_parameters(model).items():
        if p.prior is not None and not np.all(np.isfinite(np.asarray(p.prior.log_density(p.value)))):
            yield f"the prior {p.prior} gives no density to {name} as it is now"


def _precision(model, rows, kernel):
    if not hasattr(model, "noise_variance"):
        return
    noise = float(jnp.min(rows.noise(model.noise_variance)))
    prior = float(jnp.max(kernel.diagonal(rows.X)))
    if rows.X.dtype == jnp.float32 and noise < 1e-4 * prior:
        yield (
            f"noise_variance {noise:.3g} is too small beside the prior variance {prior:.3g} for float32; "
            "use float64, or start from a larger noise_variance"
        )


def _duplicates(name, Z):
    Z = np.asarray(Z)
    _, group, counts = np.unique(Z, axis=0, return_inverse=True, return_counts=True)
    if len(counts) < len(Z):
        i, j = np.flatnonzero(group == np.argmax(counts > 1))[:2]
        yield f"{name} has {len(Z) - len(counts)} duplicate row(s), e.g. rows {i} and {j}"


def _kernel_rows(what, kernel, Z):
    bad = np.flatnonzero(~np.isfinite(np.asarray(kernel(Z))).all(axis=1))
    if len(bad):
        yield f"{what} itself has NaN or infinite entries in rows {checks.listed(bad)}: the kernel overflows there"
