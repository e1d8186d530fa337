"""The Python of the pages about optional dependencies runs, one block after the other."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.mark.parametrize(
    ("page", "needs"), [("mcmc", ("blackjax", "numpyro", "arviz")), ("search", ("botorch",))], ids=["mcmc", "search"]
)
def test_the_python_of_a_page_runs(page, needs):
    for package in needs:
        pytest.importorskip(package)
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / f"{page}.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) >= 4
    names: dict = {}
    for block in blocks:
        exec(compile(block, f"{page}.md", "exec"), names)
