"""Parity: the same data and parameters give the same numbers in tightgp, GPflow and GPyTorch.

Every case has its own kernel, likelihood, inducing inputs and q(u), none of them fitted or at a default. Compared are
the standard bound in total nats, and in some cases the moments of f at new inputs, in float64 without jitter. Relative
differences above 1e-6 make the exit status 1. Where a peer has a different density under the same name, the output
says so.

    python -m benchmarks.parity --peers .venv-peers/bin/python
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import zlib
from importlib.metadata import version
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

import tightgp as tgp

TOLERANCE = 1e-6
N, NEW, DRAWS = 60, 15, 50
NAMES = {"gpflow": "GPflow", "gpytorch": "GPyTorch"}

#: Likelihoods that a peer defines differently, so that there is nothing to compare.
NOT_COMPARED = (
    ("Bernoulli, logit", "gpytorch", "its Bernoulli has the probit link only"),
    ("Poisson", "gpytorch", "its rate is softplus(f), not exp(f)"),
    ("NegativeBinomial", "gpytorch", "its mean is softplus(f), and its size follows f, not its probability"),
    ("Beta", "gpytorch", "it adds one to both shapes"),
    ("NegativeBinomial, Binomial, LogNormal", "gpflow", "it has none"),
    ("Exponential, Gamma, Ordinal, RobustMax, Binomial, LogNormal", "gpytorch", "it has none"),
    ("HeteroscedasticGaussian", "gpytorch", "it has none whose noise follows a trained latent"),
)
#: Where a peer's density differs a little from its name. The comparison removes this, and the output says how much it
#: changes.
DEPARTURES = {
    ("Bernoulli", "gpflow"): "its default link holds probabilities 1e-3 away from 0 and 1",
    ("Bernoulli", "gpytorch"): "its log Φ is wrong by up to 2e-3, most just below -1",
    (
        "Ordinal",
        "gpflow",
    ): "it has the same link, and adds 1e-6; its outer levels, NaN under TensorFlow 2.21, are mended",
    ("StudentT", "gpflow"): "its 20 Gauss–Hermite nodes do not resolve the density; it has 200 above",
    ("StudentT", "gpytorch"): "its 20 Gauss–Hermite nodes do not resolve the density; it has 200 above",
    ("RobustMax", "gpflow"): "it holds each Φ 1e-6 away from 0 and 1",
}


def kernel_of(rng, kind, scale) -> dict:
    variance, lengthscale = scale * rng.uniform(0.6, 1.4), rng.uniform([0.8, 1.1], [1.2, 1.6])
    return {"kind": kind, "variance": variance, "lengthscale": lengthscale}


def inducing_of(rng):
    """A jittered grid over the square of the data: well conditioned under all kernels here."""
    side = np.linspace(0.4, 3.6, 3)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    return grid + rng.uniform(-0.25, 0.25, grid.shape)


def posterior_of(rng, m, latents, diagonal=False):
    """A q that is neither the prior nor an optimum."""
    sd = rng.uniform(0.3, 0.9, (latents, m))
    below = np.tril(0.15 * rng.normal(size=(latents, m, m)), -1)
    return 0.7 * rng.normal(size=(m, latents)), sd if diagonal else below + sd[:, :, None] * np.eye(m)


def targets_of(rng, f, likelihood: dict):
    """Random targets of the likelihood, in its own column or columns."""
    kind, flat = likelihood["kind"], f[:, 0]
    if kind == "Gaussian":
        noisy = f + rng.normal(size=f.shape) * np.sqrt(likelihood["noise_variance"])
        return noisy if np.ndim(likelihood["noise_variance"]) else noisy[:, 0]
    if kind in ("Softmax", "RobustMax"):
        return np.argmax(f + 0.5 * rng.normal(size=f.shape), axis=1).astype(float)
    return {
        "HeteroscedasticGaussian": lambda: flat + rng.normal(size=N) * np.exp(0.5 * f[:, -1]),
        "Bernoulli": lambda: (flat + rng.normal(size=N) > 0).astype(float),
        "Poisson": lambda: rng.poisson(np.exp(flat)).astype(float),
        "StudentT": lambda: flat + 0.4 * rng.standard_t(3, size=N),
        "Exponential": lambda: rng.exponential(np.exp(flat)),
        "Gamma": lambda: rng.gamma(2.5, np.exp(flat) / 2.5),
        "Beta": lambda: np.clip(rng.beta(*(6 / (1 + np.exp(s * flat)) for s in (-1, 1))), 1e-3, 1 - 1e-3),
        "Ordinal": lambda: np.searchsorted(likelihood["edges"], flat + 0.8 * rng.normal(size=N)).astype(float),
    }[kind]()


def build() -> list[dict]:
    """All cases, numbers included."""
    out: list[dict] = []

    def add(name, kind, *, latents=1, kernels=("SquaredExponential",), peers=("gpflow", "gpytorch"), **options):
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        case = {"whiten": True, "num_data": None, "mixing": None, "mean": 0.0, "predict": False, "model": "SVGP"}
        case |= {key: options.pop(key) for key in list(options) if key in case}
        diagonal, draws, scale = (options.pop(*o) for o in (("diagonal", False), ("draws", False), ("scaled", 1.0)))
        X = rng.uniform(0, 4, (N, 2))
        likelihood = {"kind": kind, **options}
        functions = np.sin(X @ rng.normal(size=(2, latents)) + np.arange(latents))
        functions = functions if case["mixing"] is None else functions @ case["mixing"].T
        Z = np.stack([inducing_of(rng) for _ in kernels])
        mean, root = posterior_of(rng, Z.shape[1], latents, diagonal)
        case |= {
            "name": name,
            "likelihood": likelihood,
            "kernels": [kernel_of(rng, k, scale) for k in kernels],
            "X": X,
            "y": targets_of(rng, functions + case["mean"], likelihood),
            "Xnew": rng.uniform(0, 4, (NEW, 2)),
            "Z": Z,
            "q_mean": mean,
            "q_root": root,
            "draws": rng.normal(size=(DRAWS, N, latents)) if draws else None,
            "departs": any(kind == k for k, _ in DEPARTURES) and options.get("link") != "logit",
            "peers": peers,
        }
        out.append(case)

    only, two = ("gpflow",), ("Matern52", "Matern52")
    add("SGPR", "Gaussian", noise_variance=0.2, model="SGPR")
    for kernel in ("SquaredExponential", "Matern32", "Matern52"):
        add(f"Gaussian, {kernel}", "Gaussian", noise_variance=0.2, kernels=(kernel,), predict=True)
    add("Gaussian, constant mean", "Gaussian", noise_variance=0.2, mean=0.8, predict=True)
    add("Gaussian, minibatch", "Gaussian", noise_variance=0.2, num_data=1000)
    add("Gaussian, not whitened", "Gaussian", noise_variance=0.2, whiten=False, predict=True)
    add("Gaussian, diagonal q", "Gaussian", noise_variance=0.2, diagonal=True, predict=True)
    add("Gaussian, diagonal, not whitened", "Gaussian", noise_variance=0.2, diagonal=True, whiten=False)
    several = {"noise_variance": [0.1, 0.3], "latents": 2, "predict": True}
    add("Gaussian, separate latents", "Gaussian", kernels=two, **several)
    add("Gaussian, shared kernel and Z", "Gaussian", **several)
    mixing = np.array([[1.0, 0.3], [-0.5, 0.8], [0.2, 1.1]])
    noise = [0.1, 0.2, 0.3]
    add("Gaussian, coregionalisation", "Gaussian", noise_variance=noise, latents=2, kernels=two, mixing=mixing)
    out[-1]["predict"] = True
    # Without its guards GPflow needs a moderate f: it takes the log of one minus a probability that may round to one.
    add("Bernoulli, probit", "Bernoulli", link="probit", scaled=0.4)
    add("Bernoulli, probit, minibatch", "Bernoulli", link="probit", scaled=0.4, num_data=1000)
    add("Bernoulli, logit", "Bernoulli", link="logit", peers=only)
    add("Poisson", "Poisson", peers=only)
    add("StudentT", "StudentT", df=3.5, scale=0.4)
    add("Exponential", "Exponential", peers=only)
    add("Gamma", "Gamma", shape=2.5, mean=0.4, peers=only)
    add("Beta", "Beta", precision=6.0, peers=only)
    add("Ordinal", "Ordinal", edges=[-0.6, 0.1, 0.9], scale=1.3, scaled=0.4, peers=only)
    add("HeteroscedasticGaussian", "HeteroscedasticGaussian", latents=2, kernels=two, peers=only)
    add("Softmax, same draws", "Softmax", num_classes=4, latents=4, draws=True)
    add("RobustMax", "RobustMax", num_classes=4, epsilon=1e-2, latents=4, peers=only)
    return out


def ours(case: dict) -> dict:
    """The bound, and perhaps the moments, by tightgp."""
    kernels = [getattr(tgp.kernels, k["kind"])(k["variance"], k["lengthscale"]) for k in case["kernels"]]
    data, options = tgp.Dataset(case["X"], case["y"]), dict(case["likelihood"])
    likelihood = getattr(tgp.likelihoods, options.pop("kind"))(**options)
    if case["model"] == "SGPR":
        model = tgp.SGPR(kernels[0], case["Z"][0], likelihood.noise_variance, bound="standard", jitter=0.0)
        out = {"elbo": float(model.elbo(data)), "upper bound": float(model.upper_bound(data))}
        return out | moments(model.posterior(data), case)
    mean, root, many = case["q_mean"], case["q_root"], len(kernels) > 1
    model = tgp.SVGP(
        kernels if many else kernels[0],
        likelihood,
        list(case["Z"]) if many else case["Z"][0],
        bound="standard",
        mean=tgp.means.Constant(case["mean"]),
        num_latents=mean.shape[1],
        mixing=case["mixing"],
        whiten=case["whiten"],
        covariance="diagonal" if root.ndim == 2 else "full",
        jitter=0.0,
    )
    if many:
        values = {f"q[{i}].mean": mean[:, [i]] for i in range(len(root))}
        values |= {f"q[{i}].root": root[[i]] for i in range(len(root))}
    else:
        values = {"q.mean": mean, "q.root": root}
    model = tgp.assign(model, values)
    if case["draws"] is not None:
        f_mean, f_var = model.posterior().predict_f(case["X"])
        F = f_mean + jnp.sqrt(f_var) * case["draws"]
        expected = jnp.sum(jnp.mean(likelihood.log_density(F, case["y"][:, None]), axis=0))
        _, rows = model.prepare(data)
        return {"elbo": float(expected - model.objective(rows)[1]["divergence"])}
    out = {"elbo": float(model.elbo(data, num_data=case["num_data"]))}
    return out | (moments(model.posterior(), case) if case["predict"] else {})


def moments(posterior, case) -> dict:
    mean, var = posterior.predict_f(case["Xnew"])
    return {"mean of f": np.ravel(mean).tolist(), "variance of f": np.ravel(var).tolist()}


def theirs(cases: list[dict], python: str) -> dict:
    """The same by the peers for all cases, from a process in their environment."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "cases.json"), Path(folder, "answers.json")
        source.write_text(json.dumps(cases, default=lambda a: a.tolist()))
        env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
        env.pop("PYTHONPATH", None)
        worker = Path(__file__).with_name("parity_peers.py")
        done = subprocess.run([python, str(worker), source, target], capture_output=True, text=True, env=env)
        if done.returncode:
            raise SystemExit(f"the peers failed:\n{done.stderr[-3000:]}")
        return json.loads(target.read_text())


def difference(one, other) -> float:
    """The largest relative difference."""
    one, other = np.atleast_1d(one), np.atleast_1d(other)
    if one.shape != other.shape:
        raise SystemExit(f"shapes {one.shape} and {other.shape} cannot be compared")
    if not (np.all(np.isfinite(one)) and np.all(np.isfinite(other))):
        return float("inf")
    return float(np.max(np.abs(one - other) / np.abs(other)))


def compare(cases, answers) -> tuple[list[dict], list[dict]]:
    """Rows of the table of results, and by how much the peers' different densities change them."""
    rows, departures = [], []
    for case in cases:
        mine = ours(case)
        for peer, told in answers[case["name"]].items():
            for quantity, value in told.items():
                own = mine[quantity.removesuffix(", as it is")]
                row = {"case": case["name"], "quantity": quantity, "peer": peer, "tightgp": own, "theirs": value}
                row["difference"] = difference(own, value)
                if quantity.endswith("as it is"):
                    departures.append(row | {"why": DEPARTURES[case["likelihood"]["kind"], peer]})
                else:
                    rows.append(row)
    return rows, departures


def shown(value) -> str:
    return f"{len(value)} values" if isinstance(value, list) else f"{value:.8f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", required=True, help="python of the peers' environment")
    parser.add_argument("--out", type=Path, help="write the results as JSON")
    arguments = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 120)
    cases = build()
    with console.status("the peers"):
        told = theirs(cases, arguments.peers)
    with console.status("tightgp"):
        rows, departures = compare(cases, told["answers"])

    table = Table(
        title=f"Largest relative differences (tolerance {TOLERANCE:g})", title_justify="left", box=box.SIMPLE_HEAD
    )
    for column in ("case", "quantity", "peer", "tightgp", "theirs", "difference", ""):
        table.add_column(column, justify="right" if column in ("tightgp", "theirs", "difference") else "left")
    for row in rows:
        ok = row["difference"] <= TOLERANCE
        numbers = (shown(row["tightgp"]), shown(row["theirs"]), f"{row['difference']:.1e}")
        mark = "ok" if ok else "[bold red]differs[/]"
        table.add_row(row["case"], row["quantity"], NAMES[row["peer"]], *numbers, mark)
    console.print(table)
    console.print("Different densities of the peers, removed above, and by how much they change the bound:")
    for row in departures:
        console.print(f"  {row['case']}, {NAMES[row['peer']]}: {row['why']} ({row['difference']:.1e})")
    console.print("Not compared:")
    for case, peer, why in NOT_COMPARED:
        console.print(f"  {case}, {NAMES[peer]}: {why}")
    failed = [row for row in rows if not row["difference"] <= TOLERANCE]
    console.print(f"{len(rows) - len(failed)} of {len(rows)} comparisons agree.")
    if arguments.out:
        record = {
            "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
            "versions": {"tightgp": tgp.__version__, "jax": jax.__version__, "numpy": version("numpy")}
            | told["versions"],
            "tolerance": TOLERANCE,
            "rows": [row | {k: shown(v) for k, v in row.items() if isinstance(v, list)} for row in rows],
            "departures": departures,
            "not_compared": [{"case": c, "peer": p, "why": w} for c, p, w in NOT_COMPARED],
        }
        arguments.out.write_text(json.dumps(record, indent=1) + "\n")
        console.print(f"Results: {arguments.out}")
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
