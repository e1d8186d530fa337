"""Draw the documentation's figures again: those of stored results, and one that is computed in seconds.

python -m docs.figures

Not drawn: oil.png, which needs trained models (`make oil`), and report.png, a picture of a page in a browser.
"""

import json
from pathlib import Path

from benchmarks import picture
from benchmarks.table_suite import drawing
from docs.figures import architecture, lead
from experiments import certificate, neighbours, neighbours_report
from experiments.reproduction import command

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
FIGURES = Path(__file__).parent


def main() -> None:
    """Draw them one after the other, and name each."""
    records = [r for name in ("neighbours-h200", "vecchia-h200") for r in neighbours.stored(RESULTS / f"{name}.jsonl")]
    neighbours_report.picture(neighbours_report.ladder(records), FIGURES / "neighbours.png")
    certificate.draw(neighbours.stored(RESULTS / "certificate.jsonl"), FIGURES / "certificate.png")
    picture.picture([json.loads((RESULTS / "suite.json").read_text())], FIGURES / "speed.png")
    drawing.write(json.loads((RESULTS / "tables.json").read_text()))
    architecture.main()
    lead.main()
    command.main(["all", "--draw"])
    print(f"figures: {', '.join(path.name for path in sorted(FIGURES.glob('*.png')))}; pages: docs/reproduction")


if __name__ == "__main__":
    main()
