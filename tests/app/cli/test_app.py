"""The other commands, and what all of them promise."""

import json
import subprocess
import sys

import pytest

from tests.app.cli.conftest import run


@pytest.mark.parametrize("command", ["fit", "predict", "compare", "report", "datasets", "demo", "info"])
def test_every_command_has_help(command):
    ran = run(command, "--help")
    assert ran.code == 0
    assert "Usage:" in ran.out


def test_info():
    ran = run("info", "--json")
    assert ran.code == 0
    assert ran.json["precision"] == "float64"
    assert ran.json["packages"]["jax"]
    assert "tightgp" in run("info").out


def test_datasets(tmp_path, monkeypatch):
    monkeypatch.setenv("TIGHTGP_DATA", str(tmp_path))
    ran = run("datasets", "list", "--json")
    assert ran.code == 0
    names = [row["name"] for row in ran.json["datasets"]]
    assert {"snelson", "nybikes", "kin40k", "3droad", "houseelectric", "oil"} <= set(names)
    assert "snelson" in run("datasets", "list").out
    (tmp_path / "snelson.csv").write_text("x,y\n" + "".join(f"{i},{i / 2}\n" for i in range(200)))
    ran = run("datasets", "show", "snelson", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["columns"]["x"]["largest"] == 199
    ran = run("datasets", "fetch", "snelson", "--json")
    assert ran.json["paths"]["snelson"] == str(tmp_path / "snelson.csv")
    ran = run("datasets", "show", "snelsen")
    assert ran.code == 2
    assert "snelsen" in ran.err


def test_compare(csv):
    ran = run(
        "compare", csv, "-t", "y", "--ignore", "count", "--ignore", "label", "--inducing", 6, "--max-iter", 3, "--json"
    )
    assert ran.code == 0, ran.err
    lines = {line["method"]: line for line in ran.json["methods"]}
    no_bounds = ["Power EP 0.5", "FITC", "PITC of 64"]
    assert list(lines) == ["exact GP", "standard", "spherical", "diagonal", "block of 64", *no_bounds]
    assert [name for name, line in lines.items() if not line["is_bound"]] == no_bounds
    assert [name for name, line in lines.items() if "local RMSE" not in line["scores"]] == ["exact GP"]
    assert all(line["scores"]["RMSE"] > 0 for line in lines.values())
    assert run("compare", csv, "-t", "y", "--inducing", "auto").code == 2


def test_compare_without_gaussian_noise(csv):
    arguments = ("compare", csv, "-t", "label", "--ignore", "count", "--ignore", "y", "--inducing", 6, "--max-iter", 3)
    ran = run(*arguments)
    assert ran.code == 0, ran.err
    assert "spherical" in ran.out
    assert "accuracy" in ran.out


def test_the_module_runs_and_defects_are_not_hidden():
    done = subprocess.run([sys.executable, "-m", "tightgp", "info", "--json"], capture_output=True, text=True)
    assert json.loads(done.stdout)["tightgp"]
    done = subprocess.run([sys.executable, "-m", "tightgp", "fit"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "TABLE" in done.stderr
