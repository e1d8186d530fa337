"""The options of the commands, as dataclasses that a command's function takes."""

import errno
import functools
import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from tightgp.app.tables import Choices


def option(text: str, *names: str, **settings) -> Any:
    """A Typer option with this help text; its name follows from that of the parameter unless ``names`` are given."""
    return typer.Option(*names, help=text, **settings)


TableFile = Annotated[
    str,
    typer.Argument(
        help="CSV (also compressed), TSV, Excel, Parquet, JSON lines, SQLite, DuckDB, .npy or .npz.",
        metavar="TABLE",
    ),
]
Part = Annotated[
    str | None,
    option("Sheet of a workbook; table or query of a database, such as 'select ...'.", "--from", metavar="PART"),
]
Delimiter = Annotated[str | None, option("Character between the cells of a text table; detected by default.")]
Encoding = Annotated[str, option("Encoding of a text table.")]
MaxUnpacked = Annotated[float, option("Gigabytes that a compressed table may unpack to.", metavar="GB")]
Overwrite = Annotated[bool, option("Replace existing files.", "--overwrite")]


#: What options may be: a test compares these with what the library knows, which would take seconds to import.
COUNTS = ("poisson", "negative_binomial", "zero_inflated_poisson", "zero_inflated_negative_binomial")
LIKELIHOODS = ("gaussian", *COUNTS, "classes", "ordinal")
KERNELS = ("matern12", "matern32", "matern52", "squared_exponential", "rbf", "rational_quadratic")
BOUNDS = ("vecchia", "neighbours", "block", "diagonal", "spherical", "standard", "power_ep")
NOISES = ("auto", "gaussian", "student-t", "heteroscedastic")
METHODS = ("auto", "minibatch", "exact", "collapsed", "full")
UNPACKED_GB = 4.0


@dataclass(frozen=True, kw_only=True)
class Columns:
    """How the columns of a table are read: the options that ``fit``, ``compare`` and ``inspect`` share."""

    kinds: Annotated[
        list[str] | None,
        option(
            "What a column is, as COLUMN=KIND: number, text, date, keep (as it is in the file), or its levels in order "
            "such as size=S<M<L; repeat for more.",
            "--as",
            metavar="COLUMN=KIND",
        ),
    ] = None
    date_format: Annotated[str | None, option("Format of dates, such as %d/%m/%Y.", metavar="FORMAT")] = None
    decimal: Annotated[str | None, option("Decimal mark of numbers in text: point or comma.")] = None
    missing: Annotated[
        list[str] | None, option("A text or number that stands for a missing cell; repeat for more.")
    ] = None

    def check(self) -> None:
        """Check what can be checked without the table, before anything slow is imported."""
        if self.decimal not in (None, "point", "comma"):
            raise ValueError(f"--decimal must be point or comma, got {self.decimal!r}")
        _ = self._kinds

    @property
    def choices(self) -> "Choices":
        """The options, checked."""
        from tightgp.app.tables import Choices

        Columns.check(self)
        return Choices(self._kinds, self.date_format or "", self.decimal or "", tuple(self.missing or ()))

    @property
    def _kinds(self) -> dict[str, str]:
        kinds = {}
        for one in self.kinds or ():
            name, equals, kind = one.rpartition("=")
            if not equals or not name or (kind not in ("number", "text", "date", "keep") and "<" not in kind):
                wanted = "COLUMN=KIND with number, text, date, keep, or levels in order such as S<M<L"
                raise ValueError(f"--as must be {wanted}; got {one!r}")
            kinds[name] = kind
        return kinds


@dataclass(frozen=True)
class Request(Columns):
    """What to fit to which columns of a table: the options that ``fit`` and ``compare`` share."""

    table: TableFile
    target: Annotated[str, option("Column to predict, by name or by number from 0 (-1 is the last).", "--target", "-t")]
    likelihood: Annotated[
        str,
        option(
            "gaussian, poisson, negative_binomial, zero_inflated_poisson, zero_inflated_negative_binomial, classes, "
            "ordinal (levels in order: numbers, or texts with --as TARGET=low<mid<high), or auto to choose by the "
            "target."
        ),
    ] = "auto"
    inducing: Annotated[
        str | None, option("Number of inducing points, or auto to add more while they help; chosen by default.")
    ] = None
    kernel: Annotated[str, option("matern12, matern32, matern52, squared_exponential or rational_quadratic.")] = (
        "matern32"
    )
    neighbours: Annotated[
        str, option("Nearest training rows that each prediction also uses, or auto to choose (gaussian).")
    ] = "auto"
    target_transform: Annotated[
        str, option("log, sqrt, yeo-johnson, sinh-arcsinh, none, or auto to choose by evidence (gaussian).")
    ] = "auto"
    max_iter: Annotated[
        int | None, option("Most iterations (collapsed), steps (full) or epochs (minibatch).", min=1)
    ] = None
    time_limit: Annotated[
        float | None, option("Seconds after which training ends with the best so far.", min=0.001)
    ] = None
    holdout: Annotated[float, option("Share of the rows held out to measure accuracy; 0 for none.")] = 0.2
    holdout_by: Annotated[
        str, option("random (each class in proportion), or a column of times whose last rows are held out.")
    ] = "random"
    seed: Annotated[int, option("Seed of the held-out rows and of all random choices.", min=0, max=2**32 - 1)] = 0
    ignore: Annotated[list[str] | None, option("Column to leave out; repeat for more.")] = None
    drop_missing_target: Annotated[
        bool, option("Leave out rows without a target even if they are more than half of all.", "--drop-missing-target")
    ] = False
    delimiter: Delimiter = None
    encoding: Encoding = "utf-8"
    max_unpacked: MaxUnpacked = UNPACKED_GB
    part: Part = None

    @property
    def num_inducing(self) -> int | str | None:
        """The number of inducing points, or "auto"; None leaves it to the estimator."""
        return None if self.inducing is None else _number_or_auto("--inducing", self.inducing, 1)

    @property
    def num_neighbours(self) -> int | str:
        """The number of neighbours in predictions, or "auto"."""
        return _number_or_auto("--neighbours", self.neighbours, 0)

    def check(self) -> None:
        super().check()
        _check_choice("--likelihood", self.likelihood, ("auto", *LIKELIHOODS))
        _check_choice("--kernel", self.kernel, KERNELS)
        if not 0 <= self.holdout < 1:
            raise ValueError(f"--holdout must be a share of the rows, from 0 to below 1; got {self.holdout}")
        _ = self.num_inducing, self.num_neighbours


def _check_choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} must be {', '.join(allowed[:-1])} or {allowed[-1]}; got {value!r}")


def check_exists(table: str) -> None:
    """Refuse a table that is not there."""
    if not Path(table).exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), table)


def _number_or_auto(name: str, value: str, least: int) -> int | str:
    if value == "auto":
        return value
    if not value.isdecimal() or int(value) < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, or auto; got {value!r}")
    return int(value)


@dataclass(frozen=True)
class FitRequest(Request):
    """The request of ``fit``, as it is written to ``settings.json``."""

    bound: Annotated[
        str | None, option("vecchia, neighbours, block, diagonal, spherical, standard or power_ep; chosen by default.")
    ] = None
    method: Annotated[str, option("auto, minibatch, exact or collapsed (gaussian), or full (other likelihoods).")] = (
        "auto"
    )
    noise: Annotated[
        str,
        option(
            "gaussian, student-t (outliers count little), heteroscedastic (differs with the inputs), or auto to choose "
            "by left-out rows (gaussian likelihood)."
        ),
    ] = "auto"
    precision: Annotated[str, option("full, or mixed: float32 kernel values (gaussian, collapsed).")] = "full"

    def check(self) -> None:
        super().check()
        if self.bound is not None:
            _check_choice("--bound", self.bound, BOUNDS)
        _check_choice("--method", self.method, METHODS)
        _check_choice("--noise", self.noise, NOISES)
        _check_choice("--precision", self.precision, ("full", "mixed"))


@dataclass(frozen=True)
class InspectRequest(Columns):
    """The request of ``inspect``."""

    table: TableFile
    target: Annotated[str | None, option("Column to predict, by name or by number.", "--target", "-t")] = None
    delimiter: Delimiter = None
    encoding: Encoding = "utf-8"
    max_unpacked: MaxUnpacked = UNPACKED_GB
    part: Part = None

    def check(self) -> None:
        super().check()
        check_exists(self.table)


@dataclass(frozen=True)
class CompareRequest(Request):
    """The request of ``compare``: every method gets the same number of inducing points."""

    inducing: Annotated[str, option("Number of inducing points.")] = "64"
    exact_rows: Annotated[int, option("Most rows that the exact GP is fitted to.")] = 2000

    def check(self) -> None:
        super().check()
        if self.inducing == "auto":
            raise ValueError("--inducing must be a number for compare: every method gets the same")


@dataclass(frozen=True)
class PredictRequest:
    """The request of ``predict``."""

    model: Annotated[Path, typer.Argument(help="Folder that fit wrote, or a model file.", metavar="DIR")]
    table: TableFile
    out: Annotated[Path, option("CSV file (also compressed) or Parquet file.", "--out", "-o")] = Path("predictions.csv")
    level: Annotated[float, option("Probability of the intervals.")] = 0.95
    neighbours: Annotated[int | None, option("Nearest training rows to use; by default as in fit.", min=0)] = None
    keep: Annotated[bool, option("Also write the columns of the table.", "--keep")] = False
    delimiter: Delimiter = None
    encoding: Encoding = "utf-8"
    max_unpacked: MaxUnpacked = UNPACKED_GB
    formulas: Annotated[
        bool, option("Write texts that a spreadsheet would run as formulas as they are.", "--formulas")
    ] = False
    part: Part = None
    overwrite: Overwrite = False

    def check(self) -> None:
        """Check what can be checked without model and table."""
        if not 0 < self.level < 1:
            raise ValueError(f"--level must be a probability between 0 and 1, got {self.level}")
        check_exists(self.table)


@dataclass(frozen=True)
class ServeRequest:
    """The request of ``serve``."""

    model: Annotated[Path, typer.Argument(help="Folder that fit wrote, or a model file.", metavar="DIR")]
    host: Annotated[str, option("Address to listen on; others than 127.0.0.1 let other machines in.")] = "127.0.0.1"
    port: Annotated[int, option("Port to listen on.", min=1, max=65535)] = 8000
    neighbours: Annotated[int | None, option("Nearest training rows to use; by default as in fit.", min=0)] = None
    max_rows: Annotated[int, option("Most rows of one request.", min=1)] = 10_000
    max_body: Annotated[float, option("Most megabytes of one request.", metavar="MB", min=0.001)] = 10.0
    max_waiting: Annotated[int, option("Most requests that wait their turn; more are told to come again.", min=1)] = 100

    def check(self) -> None:
        """Check what can be checked without the model."""
        if not self.model.exists():
            raise ValueError(f"{self.model} does not exist; name a folder that `tightgp fit` wrote, or a model file")


def with_options(function: Callable) -> Callable:
    """``function`` as Typer takes it: each parameter that is a dataclass is replaced by its fields."""
    parameters: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if is_dataclass(parameter.annotation):
            groups[parameter.name] = parameter.annotation
            parameters += inspect.signature(groups[parameter.name]).parameters.values()
        else:
            parameters.append(parameter)

    @functools.wraps(function)
    def run(**options):
        built = {name: group(**{f.name: options.pop(f.name) for f in fields(group)}) for name, group in groups.items()}
        return function(**built, **options)

    keyword_only = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    run.__signature__ = inspect.Signature(keyword_only)  # type: ignore[attr-defined]
    return run
