"""The table of speed in the README, from a run of the suite.

python -m benchmarks.readme benchmarks/results/suite.json
"""

import json
import sys
from pathlib import Path

from benchmarks import summaries
from benchmarks.picture import duration
from benchmarks.rows import BASE, COLUMNS
from benchmarks.summaries import Record
from tightgp.io.files import atomic_write

PAGE = Path(__file__).resolve().parents[1] / "README.md"
BEGIN, END = "<!-- speed -->\n", "<!-- end of speed -->"
PEERS = ("gpytorch", "gpflow", "gpjax")
#: The cases that are shown, by row and title, and what they are called.
CASES = {
    ("collapsed", "N = 10 000, D = 26, M = 1024"): "collapsed bound, 10 000 rows, M = 1024",
    ("collapsed", "N = 100 000, D = 8, M = 512"): "100 000 rows, M = 512",
    ("svgp", "M = batch = 1024, float64"): "SVGP step, M = batch = 1024",
    ("svgp", "M = batch = 1024, float32"): "the same in float32",
    ("predict", "100 000 points, M = 1024, D = 8"): "100 000 predictions, M = 1024",
}


def table(record: Record) -> str:
    """Seconds of tightgp, and of each other library with how many times longer it takes, in Markdown."""
    lines = [["", "tightgp", *(COLUMNS[name].title for name in PEERS)], ["---", *["---:"] * (1 + len(PEERS))]]
    found = {(case["row"], case["title"]): case for case in record["cases"]}
    for key, label in CASES.items():
        own = summaries.summary(found[key], BASE)
        if own is None:
            raise ValueError(f"the run has no time of tightgp for {label}")
        others = [summaries.summary(found[key], name) for name in PEERS]
        told = ["–" if s is None else f"{duration(s.middle)} ({s.middle / own.middle:.1f}×)" for s in others]
        lines.append([label, duration(own.middle), *told])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> None:
    """Put the table between its marks."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN, 1)
    new = before + BEGIN + table(json.loads(Path(sys.argv[1]).read_text())) + "\n" + END + rest.split(END, 1)[1]
    with atomic_write(PAGE) as temporary:
        temporary.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
