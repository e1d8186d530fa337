"""The commands, and the main function."""

import typer
from threadpoolctl import threadpool_limits

from tightgp.app.cli import comparing, compilation, datasets, demo, fitting, inspect, prediction, reporting
from tightgp.app.cli.failures import exit_with_code
from tightgp.app.cli.info import show_info
from tightgp.app.cli.options import with_options


def _group(help_text: str, **commands) -> typer.Typer:
    """A group of commands by name."""
    group = typer.Typer(
        help=help_text,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for name, function in commands.items():
        group.command(name)(exit_with_code(with_options(function)))
    return group


app = _group(
    "Fit sparse Gaussian processes to tables: train a model, read its report, predict new rows.",
    fit=fitting.fit,
    predict=prediction.predict,
    compare=comparing.compare,
    report=reporting.report,
    inspect=inspect.inspect,
    demo=demo.demo,
    info=show_info,
)
data = {"list": datasets.list_all, "fetch": datasets.fetch, "show": datasets.show}
app.add_typer(_group("The paper's data sets: list, fetch, show.", **data), name="datasets")


def main() -> None:
    """Run the command line.

    BLAS uses one thread: factors are made of blocks too small for several, which wait for each other on a busy machine.
    """
    compilation.switch_on()
    with threadpool_limits(1, "blas"):
        app()
