"""Compare models of inputs measured with error: one ignores the error, one averages over it, one also corrects it.

200 rows of a sine with noise 0.05²; half of the inputs have an error of variance 0.09, known to two of the models.
300 held-out rows are scored at their true inputs, and at inputs with errors of the same kind.

    python -m experiments.uncertain
"""

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

import tightgp as tgp

SEEDS = 5


def draw(seed: int, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """True inputs, targets, variances of the inputs' errors, and measured inputs."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, size=(n, 1))
    y = np.sin(2 * X[:, 0]) + 0.05 * rng.normal(size=n)
    S = np.where(rng.uniform(size=(n, 1)) < 0.5, 0.09, 1e-4)
    return X, y, S, X + np.sqrt(S) * rng.normal(size=X.shape)


def run(seed: int) -> dict[str, list[float]]:
    """Learnt noise, and log densities of held-out rows, of each model."""
    _, y, S, seen = draw(seed, 200)
    X_new, y_new, S_new, seen_new = draw(1000 + seed, 300)
    data, known = tgp.Dataset(seen, y, input_variance=S), tgp.Dataset(seen, y)
    plain = tgp.SGPR(tgp.kernels.SquaredExponential(), tgp.inducing.kmeans(seen, 15, seed=0), 0.1)
    found = {}
    for name, model, rows in (
        ("ignored", plain, known),
        ("averaged over: SGPR", plain, data),
        ("and corrected: GPLVM.of", tgp.GPLVM.of(plain, data), data),
    ):
        trained = tgp.fit(model, rows, steps=500, progress=False).model
        post = trained.posterior(rows)
        aware = None if rows is known else S_new
        found[name] = [
            float(post.noise_variance),
            float(np.mean(post.log_density(X_new, y_new))),
            float(np.mean(post.log_density(seen_new, y_new, input_variance=aware))),
        ]
    return found


def main() -> None:
    runs = [run(seed) for seed in range(SEEDS)]
    out = Table(title=f"Means of {SEEDS} seeds (true noise 0.0025)", title_justify="left", box=box.SIMPLE_HEAD)
    for column in ("the inputs' errors are", "noise variance", "log density, true inputs", "inputs with errors"):
        out.add_column(column, justify="left" if column.startswith("the") else "right")
    for name in runs[0]:
        noise, true, wrong = np.mean([one[name] for one in runs], axis=0)
        out.add_row(name, f"{noise:.4f}", f"{true:.3f}", f"{wrong:.3f}")
    Console().print(out)


if __name__ == "__main__":
    main()
