"""Draw docs/figures/lead.png: the same rows under the classic sparse bound and under Vecchia, beside the exact GP.

python -m docs.figures.lead
"""

from pathlib import Path

import numpy as np

import tightgp as tgp
from docs.figures import style

ROWS, INDUCING, NOISE_SD = 1000, 15, 0.2


def f(x):
    """A slow wave with a fast one on it, which grows to the right."""
    return np.sin(x) + 0.12 * x * np.sin(6 * x)


def rows(seed: int, count: int):
    """Inputs (count, 1) and noisy targets."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 10, size=count)
    return x[:, None], f(x) + NOISE_SD * rng.normal(size=count)


def trained(bound: str | None, data: tgp.Dataset):
    """A posterior; of the exact GP where there is no bound."""
    kernel = tgp.kernels.Matern32(1.0, 1.0)
    Z = tgp.inducing.kmeans(data.X, INDUCING, seed=0)
    model = tgp.ExactGP(kernel, 0.1) if bound is None else tgp.SGPR(kernel, Z, 0.1, bound=bound)
    result = tgp.fit(model, data, steps=100, progress=False)
    return result.model, result.model.posterior(data)


def main() -> None:
    """Train three models and draw two of them."""
    X, y = rows(0, ROWS)
    X_test, y_test = rows(1, 2000)
    data = tgp.Dataset(X, y)
    grid = np.linspace(5, 10, 600)[:, None]
    _, exact = trained(None, data)
    exact_mean, exact_var = exact.predict_y(grid)
    fig = style.canvas(style.WIDTH + 1, 3.5)
    sides = (
        ("standard", f"the classic sparse GP, {INDUCING} inducing points", style.BLUE),
        ("vecchia", f"tightgp, {INDUCING} and 32 neighbours for each row", style.ORANGE),
    )
    for number, (bound, title, colour) in enumerate(sides):
        model, post = trained(bound, data)
        mean, var = (np.asarray(a) for a in post.predict_y(grid))
        density = float(np.mean(post.log_density(X_test, y_test)))
        reference = float(np.mean(exact.log_density(X_test, y_test)))
        ax = fig.add_subplot(1, 2, number + 1)
        ax.plot(X[:, 0], y, ".", ms=2.5, color="#9aa0a6")
        half = 1.96 * np.sqrt(var)
        ax.fill_between(grid[:, 0], mean - half, mean + half, color=colour, alpha=0.22, lw=0)
        ax.plot(grid[:, 0], mean, color=colour, lw=2)
        for bound_of in (exact_mean, exact_mean - 1.96 * np.sqrt(exact_var), exact_mean + 1.96 * np.sqrt(exact_var)):
            ax.plot(grid[:, 0], np.asarray(bound_of), color=style.INK, lw=0.9, ls=(0, (4, 3)))
        if not number:
            line = {"arrowstyle": "-", "lw": 0.8, "color": style.INK}
            place = (7.75, float(np.interp(7.75, grid[:, 0], np.asarray(exact_mean + 1.96 * np.sqrt(exact_var)))))
            ax.annotate("dashed: the exact GP", place, xytext=(8.05, 2.45), size=9, color=style.INK, arrowprops=line)
            ax.text(5.1, 1.3, "band: 95 % interval", size=9, color=colour)
        noise = float(np.sqrt(model.noise_variance))
        ax.set_title(title, color=colour)
        words = f"noise {noise:.2f} (true {NOISE_SD:g}), test log density {density:.2f} (exact GP {reference:.2f})"
        ax.text(0.01, 0.03, style.minus(words), transform=ax.transAxes, size=9)
        ax.set_xlim(5, 10)
        ax.set_ylim(-3.1, 2.8)
        ax.set_xlabel("input")
        if not number:
            ax.set_ylabel("target")
    path = Path(__file__).with_name("lead.png")
    style.save(fig, path)
    print(path)


if __name__ == "__main__":
    main()
