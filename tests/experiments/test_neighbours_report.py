"""The tables of docs/neighbours.md come from the committed results."""

from pathlib import Path

import pytest

from experiments import neighbours, neighbours_report

ROOT = Path(__file__).parents[2]
RESULTS = [
    ROOT / "benchmarks" / "results" / name
    for name in (
        "neighbours-h200.jsonl",
        "vecchia-h200.jsonl",
        "vecchia-grid-h200.jsonl",
    )
]


@pytest.fixture(scope="module")
def records():
    return [record for path in RESULTS for record in neighbours.stored(path)]


def test_the_page_has_the_tables_of_the_results(records):
    page = (ROOT / "docs" / "neighbours.md").read_text()
    assert neighbours_report.ladder_table(records) in page
    assert neighbours_report.vecchia_table(records) in page
    assert neighbours_report.grid_table(records) in page
    assert neighbours_report.ladder_table(records) in (ROOT / "README.md").read_text()


def test_tables_take_the_place_of_older_ones(records, tmp_path):
    page, figure = tmp_path / "page.md", tmp_path / "figure.png"
    marks = "<!-- {0} -->\nold\n<!-- end of {0} -->\n"
    page.write_text("before\n" + marks.format("ladder") + "between\n" + marks.format("vecchia") + "after\n")
    neighbours_report.write(records, [page], figure)
    text = page.read_text()
    assert "old" not in text
    assert all(word in text for word in ("before", "between", "after", "keggdirected"))
    assert figure.read_bytes().startswith(b"\x89PNG")
    page.write_text("no marks")
    with pytest.raises(SystemExit, match="no place for a table"):
        neighbours_report.write(records, [page], figure)


def test_methods_are_compared_on_the_splits_that_all_have():
    def record(bound, split, density):
        scored = {"neighbours": 64 if "block" in bound or "vecchia" in bound else 0, "log_density": density}
        return {"set": "s", "bound": bound, "split": split, "inducing": 8, "chosen_neighbours": 64} | {
            "predictions": [scored]
        }

    made = [record(method.bound, 0, 1.0) for method in neighbours_report.LADDER]
    made += [record(method.bound, 1, 9.0) for method in neighbours_report.LADDER[:-1]]
    assert neighbours_report.ladder(made)["s"] == {
        "standard": 1.0,
        "diagonal": 1.0,
        "block 64": 1.0,
        "Vecchia (no bound)": 1.0,
        "splits": 1.0,
    }
