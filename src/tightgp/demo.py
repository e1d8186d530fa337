"""``tightgp demo``: what the bounds do on made-up 1-D data, and what `tightgp fit` does with a made-up table."""

from pathlib import Path

from rich.console import Console

from tightgp import inducing
from tightgp.cli import fitting
from tightgp.cli.folder import Folder, Request
from tightgp.cli.terminal import Terminal
from tightgp.comparison import compare, figure, table
from tightgp.conditionals import Block
from tightgp.datasets import mixed_table, wiggly
from tightgp.kernels import SquaredExponential
from tightgp.tables import write_table


def run(folder: Path, num_rows: int = 1000, num_inducing: int = 128, max_iter: int | None = None) -> int:
    """Leave a figure, a table, a model and a report in ``folder``; the exit code."""
    console = Console(soft_wrap=True)
    bounds(folder / "bounds.png", console)
    return flats(folder / "flats.csv", folder / "flats", num_rows, num_inducing, max_iter, console)


def bounds(out: Path, console: Console) -> None:
    """The exact GP and four bounds on one data set: a table, and the figure ``out``."""
    data, test = wiggly(50, seed=1), wiggly(1000, seed=2)
    Z = inducing.kmeans(data.X, 8, seed=0)
    structures = ("standard", "spherical", "diagonal", Block(10))
    console.print(f"{data.num_data} noisy points of a 1-D function, {len(Z)} inducing points, one start for all.\n")
    with console.status("training the exact GP and four sparse ones"):
        entries = compare(data, SquaredExponential(0.5, 1.0), Z, 0.26, structures, progress=False)
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
    console.print(f"Figure: {out}")


def flats(out: Path, fit: Path, num_rows: int, num_inducing: int, max_iter: int | None, console: Console) -> int:
    """A table of flats with text, dates and missing cells, written to ``out`` and fitted into the folder ``fit``."""
    write_table(mixed_table(num_rows, seed=0, missing=0.002), out)
    console.print(f"\n{num_rows} made-up flats: {out}")
    console.print(f"tightgp fit {out} --target rent --out {fit} --inducing {num_inducing}", style="bold")
    request = Request(str(out), "rent", inducing=str(num_inducing), max_iter=max_iter)
    return fitting.fit(request, Folder(fit), Terminal(), resume=False, overwrite=True)
