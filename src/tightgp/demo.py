"""``make demo``: the exact GP and four bounds on 1-D data that it generates; a table and a figure."""

import argparse
from pathlib import Path

import numpy as np
from rich.console import Console

from tightgp import inducing
from tightgp.comparison import compare, figure, table
from tightgp.conditionals import Block
from tightgp.data import Dataset
from tightgp.kernels import SquaredExponential


def wiggly(num_data: int, seed: int, noise_sd: float = 0.28) -> Dataset:
    """A smooth function on [0, 6] seen through noise."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 6, num_data)
    f = np.sin(2.2 * x) + 0.6 * np.cos(4.1 * x + 0.4) - 0.25 * (x - 3)
    return Dataset(x[:, None], f + noise_sd * rng.normal(size=num_data))


def main() -> None:
    """Run the demo."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("demo/bounds.png"), help="where the figure goes")
    out = parser.parse_args().out
    console = Console()
    data, test = wiggly(50, seed=1), wiggly(1000, seed=2)
    Z = inducing.kmeans(data.X, 8, seed=0)
    bounds = ("standard", "spherical", "diagonal", Block(10))
    console.print(f"{data.num_data} noisy points of a 1-D function, {len(Z)} inducing points, one start for all.\n")
    with console.status("training the exact GP and four sparse ones"):
        entries = compare(data, SquaredExponential(0.5, 1.0), Z, 0.26, bounds, progress=False)
    console.print(table(entries, test))
    console.print(
        "nats: what training maximised. gap: nats below the exact GP. test: mean log\n"
        "density of 1000 new points; test*: the same with predictions that use the\n"
        "trained q(f|u) as well (exact_conditional=True).",
        style="dim",
    )
    exact, standard, diagonal = (entries[i].result.objective for i in (0, 1, 3))
    closed = (diagonal - standard) / (exact - standard)
    bracket = entries[3].result.model.evidence_bracket(data)
    console.print(f"\nThe diagonal bound closes {closed:.0%} of the standard bound's gap, at the same cost.")
    console.print(f"What it knows without the exact GP:\n  {bracket}")
    figure(entries, data, Z, out)
    console.print(f"Figure: [bold]{out}[/]")


if __name__ == "__main__":
    main()
