"""The commands, and the main function."""

import sys
from typing import Annotated

import typer

from tightgp import __version__
from tightgp.app.cli import commands
from tightgp.app.cli.failures import exit_with_code
from tightgp.app.cli.options import option, with_options


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
    fit=commands.fit,
    predict=commands.predict,
    serve=commands.serve,
    compare=commands.compare,
    report=commands.report,
    inspect=commands.inspect,
    demo=commands.demo,
    info=commands.info,
    explain=commands.explain,
)
data = {"list": commands.list_datasets, "fetch": commands.fetch_datasets, "show": commands.show_dataset}
app.add_typer(_group("The paper's data sets: list, fetch, show.", **data), name="datasets")


@app.callback()
def _options(version: Annotated[bool, option("Print the version.", "--version")] = False) -> None:
    """Fit sparse Gaussian processes to tables: train a model, read its report, predict new rows."""


def main() -> None:
    """Run the command line."""
    if sys.argv[1:] == ["--version"]:
        print(__version__)
        return
    commands.prepare = _keep_programs
    app()


def _keep_programs() -> None:
    from tightgp.estimators import compilation

    compilation.switch_on()
