import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from tests.processes import CACHE_ALL
from tightgp.app.cli.app import app


@pytest.fixture(autouse=True, scope="package")
def quick_compilation():
    """Arrays are small here: compiling takes most of the time."""
    import jax

    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(autouse=True, scope="package")
def compiled_programs(tmp_path_factory):
    """Commands in processes of their own keep what they compile for each other, and not in the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path_factory.mktemp("compiled")))
        for name, value in CACHE_ALL.items():
            patch.setenv(name, value)
        yield


class Ran:
    """What a command left: its exit code, and what it said on either stream."""

    def __init__(self, result):
        self.code, self.out, self.err, self.error = result.exit_code, result.stdout, result.stderr, result.exception

    @property
    def json(self):
        return json.loads(self.out)


def run(*arguments):
    """Run a command in this process; anything but an exit is a defect."""
    ran = Ran(CliRunner().invoke(app, [str(a) for a in arguments]))
    if ran.error is not None and not isinstance(ran.error, SystemExit):
        raise ran.error
    return ran


def table(num_rows=60, seed=0):
    """Numbers, texts, a date, missing cells, a name that is markup, and a target of each kind."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, num_rows)
    city = rng.choice(["Oslo", "Rome"], num_rows)
    f = np.sin(2 * x) + (city == "Rome")
    frame = pd.DataFrame(
        {
            "x": x,
            "<script>": rng.normal(size=num_rows),
            "city": city,
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 20, num_rows), "D"),
            "y": 100 + 10 * f + rng.normal(size=num_rows),
            "count": rng.poisson(np.exp(f)),
            "label": np.where(f + 0.3 * rng.normal(size=num_rows) > 0.5, "high", "low"),
        }
    )
    frame.loc[3, "x"] = np.nan
    return frame


@pytest.fixture(scope="session")
def csv(tmp_path_factory):
    path = tmp_path_factory.mktemp("tables") / "table.csv"
    table().to_csv(path, index=False)
    return path


#: Options of a quick fit.
QUICK = ("--inducing", 6, "--max-iter", 3)


def inputs(num_rows=60):
    """The input columns of `table`."""
    return table(num_rows).drop(columns=["y", "count", "label"])


def fit_arguments(path, folder):
    """The arguments of a quick fit of column y."""
    return ("fit", path, "-t", "y", "-o", folder, "--ignore", "count", "--ignore", "label", *QUICK)


@pytest.fixture(scope="session")
def fitted(csv, tmp_path_factory):
    """The folder of a fit of column y, and what the command printed."""
    folder = tmp_path_factory.mktemp("fits") / "y"
    ran = run(*fit_arguments(csv, folder))
    assert ran.code == 0, ran.err
    return folder, ran
