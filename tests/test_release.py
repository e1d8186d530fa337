"""What is said of versions and dependencies in several places is the same."""

import re
import tomllib
from pathlib import Path

import tightgp

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_version_has_one_place():
    assert "version" not in PROJECT
    assert "version" in PROJECT["dynamic"]
    assert f'version = "{tightgp.__version__}"' in (ROOT / "conda" / "meta.yaml").read_text(encoding="utf-8")


def test_conda_installs_what_pip_does():
    text = (ROOT / "conda" / "meta.yaml").read_text(encoding="utf-8")
    run = text.split("  run:\n")[1].split("\n\n")[0]
    ours = {re.sub(r"\s", "", line.strip("- ")).replace("matplotlib-base", "matplotlib") for line in run.splitlines()}
    assert ours - {"python" + PROJECT["requires-python"]} == set(PROJECT["dependencies"])


def test_the_tested_versions_are_those_that_are_promised():
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")
    tested = set(re.findall(r'"(3\.\d+)"', workflow.split("python: [")[1].split("]")[0]))
    promised = {c.split(":: ")[-1] for c in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", c)}
    assert tested == promised
    oldest = min(int(v.split(".")[1]) for v in promised)
    assert PROJECT["requires-python"] == f">=3.{oldest}"
    (jax,) = (d for d in PROJECT["dependencies"] if d.startswith("jax>="))
    assert f'"=={jax.removeprefix("jax>=")}.*"' in workflow


def test_addresses_name_one_organisation():
    files = ["mkdocs.yml", "pyproject.toml", "CITATION.cff", "conda/meta.yaml", ".github/ISSUE_TEMPLATE/config.yml"]
    found = {
        one
        for name in files
        for one in re.findall(r"github\.com/([\w-]+)/tightgp|//([\w-]+)\.github\.io", (ROOT / name).read_text())
    }
    assert len({a or b for a, b in found}) == 1
