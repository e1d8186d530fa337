"""The commands and their options. What they do is in the modules beside this one, imported when it is needed."""

from pathlib import Path
from typing import Annotated, Optional

import typer
from threadpoolctl import threadpool_limits

from tightgp.cli.terminal import Terminal, reported

app = typer.Typer(
    name="tightgp",
    help="Sparse Gaussian processes with tight evidence bounds: fit a table, read the report, predict.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
sets = typer.Typer(help="The paper's data sets: list, fetch, show.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(sets, name="datasets")

TableFile = Annotated[Path, typer.Argument(help="CSV (also compressed), TSV, Parquet, .npy or .npz.", metavar="TABLE")]
Target = Annotated[str, typer.Option("--target", "-t", help="Column to predict: its name, or its number (-1: last).")]
Likelihood = Annotated[
    str, typer.Option(help="gaussian, poisson, negative_binomial or classes; auto guesses and says so.")
]
Inducing = Annotated[str, typer.Option(help="Number of inducing points, or auto to grow them until they are enough.")]
Kernel = Annotated[str, typer.Option(help="matern12, matern32, matern52, squared_exponential, rational_quadratic.")]
Bound = Annotated[Optional[str], typer.Option(help="standard, spherical, diagonal, block or power_ep.")]  # noqa: UP045
Neighbours = Annotated[
    int, typer.Option(min=0, help="Nearest training rows that a prediction uses too (gaussian); 0 keeps no row.")
]
Method = Annotated[str, typer.Option(help="auto, collapsed, full or minibatch.")]
MaxIter = Annotated[Optional[int], typer.Option(min=1, help="Most steps (collapsed, full) or epochs (minibatch).")]  # noqa: UP045
Precision = Annotated[
    str, typer.Option(help="full, or mixed: kernel values in float32, sums in float64 (gaussian, collapsed).")
]
Distributed = Annotated[
    bool, typer.Option("--distributed", help="Join other processes, found by JAX_COORDINATOR_ADDRESS or the cluster.")
]
Coordinator = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(help="Address and port of the first of several processes.", metavar="HOST:PORT"),
]
Processes = Annotated[Optional[int], typer.Option(help="How many processes there are.", metavar="N")]  # noqa: UP045
Process = Annotated[Optional[int], typer.Option(help="Which of them this is, from 0.", metavar="I")]  # noqa: UP045
Holdout = Annotated[float, typer.Option(help="Share of the rows held out to measure accuracy on.")]
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Decides the rows held out and every random choice.")]
Ignore = Annotated[Optional[list[str]], typer.Option(help="A column to leave out; repeat for more.")]  # noqa: UP045
DropMissing = Annotated[bool, typer.Option("--drop-missing-target", help="Leave out rows without a target.")]
Delimiter = Annotated[Optional[str], typer.Option(help="What separates cells; found out by itself.")]  # noqa: UP045
Encoding = Annotated[str, typer.Option(help="Encoding of a text table.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object, and nothing else.")]


@app.command()
@reported
def fit(
    table: TableFile,
    target: Target,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for model, report and checkpoint.")],
    likelihood: Likelihood = "auto",
    inducing: Inducing = "256",
    kernel: Kernel = "matern32",
    bound: Bound = None,
    neighbours: Neighbours = 64,
    method: Method = "auto",
    max_iter: MaxIter = None,
    precision: Precision = "full",
    holdout: Holdout = 0.2,
    seed: Seed = 0,
    ignore: Ignore = None,
    drop_missing_target: DropMissing = False,
    delimiter: Delimiter = None,
    encoding: Encoding = "utf-8",
    distributed: Distributed = False,
    coordinator: Coordinator = None,
    processes: Processes = None,
    process: Process = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted fit in the folder.")] = False,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Fit a table and write a model and a report.

    Text columns, dates and missing cells are taken care of. Ctrl-C leaves a usable model and a checkpoint.

    Several processes fit one table together, each with its part of the rows: run the same command in each of them,
    with --distributed, or with --coordinator, --processes and --process.
    """
    from tightgp.cli import fitting, together
    from tightgp.cli.folder import Folder, Request

    if distributed or (coordinator, processes, process) != (None, None, None):
        together.join(coordinator, processes, process)

    request = Request(
        table=str(table),
        target=target,
        likelihood=likelihood,
        inducing=inducing,
        kernel=kernel,
        bound=bound,
        neighbours=neighbours,
        method=method,
        max_iter=max_iter,
        precision=precision,
        holdout=holdout,
        seed=seed,
        ignore=tuple(ignore or ()),
        drop_missing_target=drop_missing_target,
        delimiter=delimiter,
        encoding=encoding,
    )
    code = fitting.fit(request, Folder(out), together.terminal(quiet, json), resume, overwrite)
    if code:
        raise typer.Exit(code)


@app.command()
@reported
def predict(
    model: Annotated[Path, typer.Argument(help="Folder that fit made, or a model file.", metavar="DIR")],
    table: TableFile,
    out: Annotated[Path, typer.Option("--out", "-o", help="CSV (also .csv.gz) or Parquet file.")] = Path(
        "predictions.csv"
    ),
    level: Annotated[float, typer.Option(help="Probability that the interval holds.")] = 0.95,
    neighbours: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=0, help="Nearest training rows to use, instead of as many as when it was fitted."),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Repeat the table's own columns.")] = False,
    delimiter: Delimiter = None,
    encoding: Encoding = "utf-8",
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Predict the rows of a table: mean, standard deviation and interval, or each class's probability."""
    from tightgp.cli import prediction

    terminal = Terminal(quiet, json)
    prediction.predict(
        model, table, out, level, keep, overwrite, terminal, neighbours, delimiter=delimiter, encoding=encoding
    )


@app.command()
@reported
def compare(
    table: TableFile,
    target: Target,
    likelihood: Likelihood = "auto",
    inducing: Inducing = "64",
    kernel: Kernel = "matern32",
    neighbours: Neighbours = 64,
    max_iter: MaxIter = None,
    holdout: Holdout = 0.2,
    exact_rows: Annotated[int, typer.Option(help="Most rows for which the exact GP is fitted too.")] = 2000,
    seed: Seed = 0,
    ignore: Ignore = None,
    drop_missing_target: DropMissing = False,
    delimiter: Delimiter = None,
    encoding: Encoding = "utf-8",
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Fit the exact GP (where feasible) and every bound from the same start, side by side."""
    from tightgp.cli import comparing
    from tightgp.cli.folder import Request

    request = Request(
        table=str(table),
        target=target,
        likelihood=likelihood,
        inducing=inducing,
        kernel=kernel,
        neighbours=neighbours,
        max_iter=max_iter,
        holdout=holdout,
        seed=seed,
        ignore=tuple(ignore or ()),
        drop_missing_target=drop_missing_target,
        delimiter=delimiter,
        encoding=encoding,
    )
    comparing.compare(request, exact_rows, Terminal(quiet, json))


@app.command()
@reported
def report(
    folder: Annotated[Path, typer.Argument(help="Folder that fit made.", metavar="DIR")],
    out: Annotated[Optional[Path], typer.Option("--out", "-o", help="HTML file; in the folder by default.")] = None,  # noqa: UP045
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write the report of a fit again, as one self-contained HTML file."""
    from tightgp import report as pages
    from tightgp.cli.folder import Folder

    terminal, files = Terminal(quiet, json), Folder(folder)
    if out is not None and out.exists() and not overwrite:
        raise ValueError(f"--out {out} exists already; name another file, or pass --overwrite")
    if not files.content.exists():
        raise ValueError(f"{folder} holds no report.json; name a folder that `tightgp fit` made")
    content = pages.Content.from_json(files.content.read_text(encoding="utf-8"), str(files.content))
    page = out or files.page
    pages.write(content, page)
    terminal.show(f"Report: {page}")
    terminal.result({"report": str(page)})


@sets.command("list")
@reported
def list_sets(quiet: Quiet = False, json: Json = False) -> None:
    """List all data sets, and which are here."""
    from tightgp.cli import datasets

    datasets.listed(Terminal(quiet, json))


@sets.command()
@reported
def fetch(
    names: Annotated[list[str], typer.Argument(help="Names, as in the list.", metavar="NAME...")],
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Download data sets that are not here yet."""
    from tightgp.cli import datasets

    datasets.fetch(names, Terminal(quiet, json))


@sets.command()
@reported
def show(
    name: Annotated[str, typer.Argument(help="Name, as in the list.")], quiet: Quiet = False, json: Json = False
) -> None:
    """Show what a data set is and what its columns hold."""
    from tightgp.cli import datasets

    datasets.show(name, Terminal(quiet, json))


@app.command()
@reported
def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for what it makes.")] = Path("demo"),
) -> None:
    """Compare the bounds on made-up data, then fit a made-up table and write its report."""
    from tightgp.demo import run

    if code := run(out):
        raise typer.Exit(code)


@app.command()
@reported
def info(quiet: Quiet = False, json: Json = False) -> None:
    """Show versions, devices, precision, and where data sets are looked for."""
    from tightgp.cli.about import about

    about(Terminal(quiet, json))


def main() -> None:
    """Run the command line.

    Factors are made of blocks too small for several BLAS threads; on a busy machine these wait for each other.
    """
    from tightgp.cli import compilation

    compilation.switch_on()
    with threadpool_limits(1, "blas"):
        app()
