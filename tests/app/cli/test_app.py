"""What all commands promise."""

import json
import subprocess
import sys

import pytest

from tests.app.cli.conftest import run


@pytest.mark.parametrize("command", ["fit", "predict", "serve", "compare", "report", "datasets", "demo", "info"])
def test_every_command_has_help(command):
    ran = run(command, "--help")
    assert ran.code == 0
    assert "Usage:" in ran.out


def test_the_module_runs_and_defects_are_not_hidden():
    done = subprocess.run([sys.executable, "-m", "tightgp", "info", "--json"], capture_output=True, text=True)
    assert json.loads(done.stdout)["tightgp"]
    done = subprocess.run([sys.executable, "-m", "tightgp", "fit"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "TABLE" in done.stderr
