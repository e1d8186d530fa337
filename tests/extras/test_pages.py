"""The Python on pages about optional dependencies runs, one block after the other."""

import pytest

from tests.test_docs import ROOT, python_of

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
PAGES = {
    "export.md": ("flatbuffers", "onnx", "onnxruntime"),
    "serving.md": ("mlflow", "mapie"),
    "mcmc.md": ("blackjax", "numpyro", "arviz"),
    "search.md": ("botorch",),
}


@pytest.mark.parametrize("page", PAGES)
def test_python_on_pages_runs(page, tmp_path, monkeypatch):
    for package in PAGES[page]:
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    names: dict = {"__name__": "page"}
    for block in python_of(ROOT / "docs" / page):
        exec(compile(block, page, "exec"), names)
