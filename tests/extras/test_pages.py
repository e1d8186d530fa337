"""The Python on pages that need extras runs."""

import pytest

from tests.test_docs import ROOT, python_of


@pytest.mark.parametrize(
    ("page", "packages"),
    [("kernels.md", []), ("export.md", ["flatbuffers", "onnx", "onnxruntime"]), ("serving.md", ["mlflow", "mapie"])],
)
def test_python_on_pages_runs(page, packages, tmp_path, monkeypatch):
    for package in packages:
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    names: dict = {"__name__": "page"}
    for block in python_of(ROOT / "docs" / page):
        exec(compile(block, page, "exec"), names)
