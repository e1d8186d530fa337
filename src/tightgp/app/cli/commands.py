"""What the commands take, and their help; what they do is imported when one runs.

This keeps ``--help`` and errors about arguments quick: JAX, pandas and scikit-learn take seconds to import.
"""

from pathlib import Path
from typing import Annotated

import typer

from tightgp.app.cli.folder import FitFolder
from tightgp.app.cli.options import (
    CompareRequest,
    FitRequest,
    InspectRequest,
    Overwrite,
    PredictRequest,
    ServeRequest,
    check_exists,
    option,
)
from tightgp.app.cli.processes import Processes
from tightgp.app.cli.terminal import Terminal


def prepare() -> None:
    """Called before a command computes; the process of a command puts its own setup here."""


def fit(
    request: FitRequest,
    folder: FitFolder,
    processes: Processes,
    terminal: Terminal,
    verbose: Annotated[bool, option("Print everything: encodings, evidence, all scores.", "--verbose", "-v")] = False,
) -> int:
    """Fit a table, and write a model and a report.

    Columns may hold text and dates, and cells may be missing. Ctrl-C leaves a usable model and a checkpoint.

    Several processes fit one table together, each with its part of the rows: run the same command in each of them,
    with --distributed, or with --coordinator, --processes and --process.
    """
    request.check()
    if processes.alone:  # several say together what one of them cannot read
        check_exists(request.table)
    prepare()
    from tightgp.app.cli import fitting

    return fitting.fit(request, folder, processes, terminal, verbose)


def predict(request: PredictRequest, terminal: Terminal) -> None:
    """Predict the rows of a table: mean, standard deviation and interval, or the probability of each class."""
    request.check()
    prepare()
    from tightgp.app.cli import prediction

    prediction.predict(request, terminal)


def serve(request: ServeRequest, terminal: Terminal) -> None:
    """Answer requests for predictions over HTTP, with JSON in and out, until it is stopped."""
    request.check()
    prepare()
    from tightgp.app.cli import serving

    serving.serve(request, terminal)


def compare(request: CompareRequest, terminal: Terminal) -> None:
    """Fit a table by the exact GP where it is feasible and by every bound, and compare their scores."""
    request.check()
    check_exists(request.table)
    prepare()
    from tightgp.app.cli import comparing

    comparing.compare(request, terminal)


def report(
    folder: Annotated[Path, typer.Argument(help="Folder that fit wrote.", metavar="DIR")],
    terminal: Terminal,
    out: Annotated[Path | None, option("HTML file; report.html in the folder by default.", "--out", "-o")] = None,
    overwrite: Overwrite = False,
) -> None:
    """Write the report of a fit again, as one self-contained HTML file."""
    from tightgp.app.cli import reporting

    reporting.report(folder, terminal, out, overwrite)


def inspect(request: InspectRequest, terminal: Terminal) -> int:
    """List everything unusual in the columns of a table, with the option of fit that changes it."""
    request.check()
    from tightgp.app.cli import inspect

    return inspect.inspect(request, terminal)


def demo(out: Annotated[Path, option("Folder to write to.", "--out", "-o")] = Path("demo")) -> int:
    """Compare the bounds on synthetic data, then fit a synthetic table and write its report."""
    prepare()
    from tightgp.app.cli import demo

    return demo.run(out)


def info(terminal: Terminal) -> None:
    """Show versions, devices, precision and folders."""
    prepare()
    from tightgp.app.cli.info import show_info

    show_info(terminal)


def explain(
    terminal: Terminal,
    name: Annotated[
        str | None, typer.Argument(help="Name, as an error message gives it; all by default.", metavar="[NAME]")
    ] = None,
) -> None:
    """Say the cause and the cure of an error or a warning."""
    from tightgp.app.cli import explaining

    terminal.print(explaining.explain(name))


def list_datasets(terminal: Terminal) -> None:
    """List all data sets, and which are on this machine."""
    from tightgp.app.cli import datasets

    datasets.list_all(terminal)


def fetch_datasets(
    names: Annotated[list[str], typer.Argument(help="Names, as in the list.", metavar="NAME...")], terminal: Terminal
) -> None:
    """Download data sets that are not on this machine."""
    from tightgp.app.cli import datasets

    datasets.fetch(names, terminal)


def show_dataset(name: Annotated[str, typer.Argument(help="Name, as in the list.")], terminal: Terminal) -> None:
    """Show where a data set comes from and the range of its columns."""
    from tightgp.app.cli import datasets

    datasets.show(name, terminal)
