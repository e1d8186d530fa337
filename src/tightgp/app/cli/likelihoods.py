"""The likelihoods of the command line: which estimator fits each, and which bounds ``compare`` fits."""

from typing import Any

from tightgp.app.cli.options import Request
from tightgp.bounds.structures import Block, PowerEP
from tightgp.estimators import SparseGPClassifier, SparseGPCountRegressor, SparseGPRegressor

ESTIMATORS: dict[str, type[Any]] = {
    "gaussian": SparseGPRegressor,
    "poisson": SparseGPCountRegressor,
    "negative_binomial": SparseGPCountRegressor,
    "classes": SparseGPClassifier,
}
#: The bounds to compare if noise is Gaussian, by name; those of Power EP are no bounds.
GAUSSIAN_BOUNDS: dict[str, Any] = {
    "standard": "standard",
    "spherical": "spherical",
    "diagonal": "diagonal",
    "block of 64": Block(64),
    "Power EP 0.5": PowerEP(0.5, block=64),
    "FITC": PowerEP(1.0),
    "PITC of 64": PowerEP(1.0, block=64),
}
#: The bounds to compare for all other likelihoods.
OTHER_BOUNDS = {"standard": "standard", "spherical": "spherical"}


def make_estimator(name: str, request: Request, **parameters) -> Any:
    """The unfitted estimator of a likelihood, with the options of a request and further parameters."""
    estimator = ESTIMATORS[name]
    accepted = estimator().get_params()
    if "precision" not in accepted and getattr(request, "precision", "full") != "full":
        raise ValueError(f"--precision mixed requires the gaussian likelihood, not {name}")
    named = {"n_inducing": request.num_inducing, "random_state": request.seed, "likelihood": name}
    options = vars(request) | named | parameters
    return estimator(**{key: options[key] for key in options.keys() & accepted})
