"""What is imported when: a fresh process starts quickly because it imports little."""

import subprocess
import sys

import pytest

from tests import processes

SLOW = ("jax", "equinox", "optax", "scipy", "sklearn", "pandas", "matplotlib", "pyarrow", "numpy")


def imported(code: str) -> set[str]:
    """Which of the slow packages a fresh process has imported after some code."""
    told = f"import sys\n{code}\nprint('imported', *(name for name in {SLOW!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, env=processes.environment())
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split()[1:])


def test_importing_the_package_imports_nothing_slow():
    assert imported("import tightgp; tightgp.__version__; dir(tightgp)") == set()


def test_models_need_no_packages_of_tables_and_figures():
    assert (
        imported("import tightgp; tightgp.SGPR, tightgp.fit, tightgp.Dataset")
        & {
            "sklearn",
            "pandas",
            "matplotlib",
            "pyarrow",
        }
        == set()
    )


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], ["fit", "--help"], ["fit"], ["fit", "none.csv", "-t", "y", "-o", "m"]]
    + [["fit", __file__, "-t", "y", "-o", "m", *wrong] for wrong in (["--kernel", "x"], ["--holdout", "2"], ["--bad"])],
)
def test_help_and_errors_about_arguments_import_nothing_slow(arguments):
    code = f"sys.argv = ['tightgp', *{arguments!r}]\nfrom tightgp.app.cli import main\n"
    code += "try:\n    main()\nexcept SystemExit as ended:\n"
    code += "    assert (ended.code == 0) == (sys.argv[-1] == '--help'), ended.code"
    assert imported(code) == set()


def test_the_choices_of_options_are_those_of_the_library():
    from tightgp.app.cli import options
    from tightgp.app.cli.problem import ESTIMATORS
    from tightgp.bounds import structures
    from tightgp.estimators.settings import KERNELS

    assert set(options.KERNELS) == set(KERNELS)
    assert set(options.LIKELIHOODS) == set(ESTIMATORS)
    assert {structures.named(name).name for name in options.BOUNDS} >= {"vecchia", "block", "standard"}
    assert set(options.METHODS) == {"auto"}.union(*(one._methods for one in ESTIMATORS.values()))
