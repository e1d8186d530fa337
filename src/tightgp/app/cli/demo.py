"""``tightgp demo``: the bounds on synthetic 1-D data, and `tightgp fit` on a synthetic table."""

from pathlib import Path

from rich.console import Console

from tightgp import inducing
from tightgp.app.cli import fitting
from tightgp.app.cli.folder import FitFolder
from tightgp.app.cli.options import FitRequest
from tightgp.app.cli.processes import Processes
from tightgp.app.cli.terminal import Terminal
from tightgp.app.comparison import compare, comparison_table, save_figure
from tightgp.app.tables import write_table
from tightgp.bounds.structures import Block
from tightgp.datasets import mixed_table, wiggly
from tightgp.kernels import SquaredExponential


def run(folder: Path, num_rows: int = 1000, num_inducing: int = 128, max_iter: int | None = None) -> int:
    """Write a figure, a table, a model and a report to ``folder``, and return the exit code."""
    console = Console(soft_wrap=True, highlight=False)
    _compare_bounds(folder / "bounds.png", console)
    table, out = folder / "flats.csv", folder / "flats"
    write_table(mixed_table(num_rows, seed=0, missing=0.002), table)
    console.print(f"\n{num_rows} synthetic flats: {table}")
    console.print(f"tightgp fit {table} --target rent --out {out} --inducing {num_inducing}", style="bold")
    request = FitRequest(str(table), "rent", inducing=str(num_inducing), max_iter=max_iter)
    return fitting.fit(request, FitFolder(out, overwrite=True), Processes(), Terminal())


def _compare_bounds(path: Path, console: Console) -> None:
    """Print the table of the exact GP and four bounds on one data set, and write the figure."""
    data, test = wiggly(50, seed=1), wiggly(1000, seed=2)
    Z = inducing.kmeans(data.X, 8, seed=0)
    console.print(f"{data.num_data} noisy points of a 1-D function, {len(Z)} inducing points, one start for all.\n")
    with console.status("training the exact GP and four sparse ones"):
        bounds = ("standard", "spherical", "diagonal", Block(10))
        methods = compare(data, SquaredExponential(0.5, 1.0), Z, 0.26, bounds, progress=False)
    console.print(comparison_table(methods, test))
    console.print(
        "nats: what training maximised. gap: nats below the exact GP. test: mean log density\n"
        "of 1000 new points; test*: the same, when predictions also use the trained q(f|u)\n"
        "(exact_conditional=True).",
        style="dim",
    )
    exact, standard, _, diagonal, _ = (one.result.objective for one in methods)
    closed = (diagonal - standard) / (exact - standard)
    console.print(f"\nThe diagonal bound closes {closed:.0%} of the standard bound's gap, at the same cost.")
    console.print(f"What it shows without the exact GP:\n  {methods[3].result.model.evidence_bracket(data)}")
    save_figure(methods, data, Z, path)
    console.print(f"Figure: {path}")
