"""The pages of the API: which public names stand on which page."""

from types import ModuleType

import tightgp

#: Pages of the reference: file, title, a sentence, names in `tightgp`.
PAGES: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    (
        "estimators",
        "Estimators",
        "For scikit-learn: arrays or frames in, answers in the target's own units.",
        ("SparseGPRegressor", "SparseGPClassifier", "SparseGPCountRegressor", "BayesianGPLVM"),
    ),
    (
        "models",
        "Models",
        "A kernel, inducing inputs, a likelihood and a bound; `elbo` is the objective, in total nats.",
        ("ExactGP", "SGPR", "SVGP", "VGP", "SOLVEGP", "ODVGP", "GPLVM", "DeepGP", "HiddenLayer", "place"),
    ),
    (
        "bounds",
        "Bounds",
        "What `bound=` takes: what the latent function of a row is given, beside the inducing points.",
        ("Structure", "Block", "Neighbours", "Vecchia", "Certified", "PowerEP", "EvidenceBracket"),
    ),
    (
        "training",
        "Training",
        "One function trains every model; a log density is for samplers.",
        ("fit", "FitResult", "StopReason", "NumericalError", "log_density"),
    ),
    ("posteriors", "Posteriors", "What a trained model predicts.", ("Posterior", "AveragedPosterior")),
    ("kernels", "Kernels", "Add and multiply them; `active_dims` chooses inputs.", ("kernels",)),
    ("likelihoods", "Likelihoods", "What a target is, given the latent functions.", ("likelihoods",)),
    ("means", "Mean functions", "What the GP returns to, away from the data.", ("means",)),
    ("inducing", "Inducing points", "Where to put them.", ("inducing",)),
    (
        "parameters",
        "Parameters and priors",
        "Read, freeze, assign, and give priors.",
        ("named_parameters", "assign", "freeze", "unfreeze", "with_priors", "priors"),
    ),
    ("data", "Data", "Rows, and rows that come in batches.", ("Dataset", "Batches", "datasets")),
    (
        "files",
        "Files",
        "Models in one file, which runs no code when it is loaded, and predictions as a program of its own.",
        ("save", "load", "export", "Program"),
    ),
    ("optimise", "Bayesian optimisation", "Which point to try next, from what was seen so far.", ("optimise",)),
    ("distributed", "Several processes", "Fit with the rows of several processes.", ("distributed",)),
)
#: Public names that are documented as parts of a module of the same page.
_INSIDE = {"parameters"}
_OPTIONS = {
    "estimators": "inherited_members: true",
    "posteriors": "inherited_members: true",
    "models": "members: [noise_variance, elbo, log_evidence, upper_bound, evidence_bracket, posterior, start, of, "
    "relevance, v, num_latents, num_outputs, num_inputs, num_functions]",
}


def pages() -> dict[str, str]:
    """The Markdown of each page, by its name; every public name has a place."""
    placed = {name for *_, names in PAGES for name in names} | _INSIDE
    if missing := set(tightgp.__all__) - placed:
        raise SystemExit(f"public names without a place in the reference: {', '.join(sorted(missing))}")
    return {f"reference/{file}.md": _page(title, text, names, file) for file, title, text, names in PAGES}


def _page(title: str, text: str, names: tuple[str, ...], file: str) -> str:
    return f"# {title}\n\n{text}\n\n" + "\n\n".join(_entry(name, file) for name in names) + "\n"


def _entry(name: str, file: str) -> str:
    value = getattr(tightgp, name)
    if not isinstance(value, ModuleType):
        options = f"\n    options:\n      {_OPTIONS[file]}" if file in _OPTIONS and isinstance(value, type) else ""
        return f"::: tightgp.{name}{options}"
    parts = (
        [f"## tightgp.{name}\n\n{(value.__doc__ or '').strip()}"] if file != name else [(value.__doc__ or "").strip()]
    )
    return "\n\n".join([*parts, *(f"::: tightgp.{name}.{member}" for member in _members(value))])


def _members(module: ModuleType) -> list[str]:
    """The public names of a module: those that it lists, else those that it defines."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    own = ((name, getattr(value, "__module__", "")) for name, value in vars(module).items())
    return [name for name, home in own if home == module.__name__ and not name.startswith("_")]
