"""`python -m experiments NAME`: train what is missing, one result file a run, and draw the page."""

import argparse
import math
import time
from pathlib import Path

from rich.console import Console

from experiments.reproduction import beaten, large, medium, nybikes, poisson, scaling, snelson, summary
from experiments.reproduction.experiment import Choice, Experiment
from experiments.reproduction.page import Text
from experiments.reproduction.store import Store
from experiments.reproduction.work import fill
from tightgp import datasets

EXPERIMENTS: dict[str, Experiment] = {
    one.name: one
    for module in (snelson, medium, large, poisson, nybikes, scaling, beaten)
    for one in module.EXPERIMENTS
}
HERE = Path(__file__).parent.parent
RESULTS, PAGES = HERE / "results", HERE.parent / "docs" / "reproduction"
QUICK = HERE / "quick"
SMALL = (
    "This is the quick version, with few rows, steps, splits and inducing points: it shows that everything runs. "
    "What is said below of the full version does not hold for it, and its numbers do not compare with the paper's."
)


def main(arguments: list[str] | None = None) -> None:
    names = "\n".join(f"  {one.name:14} {one.about}" for one in EXPERIMENTS.values())
    parser = argparse.ArgumentParser(
        prog="python -m experiments",
        description=f"{__doc__}\n\n{names}\n  {'all':14} every one of them",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", choices=[*EXPERIMENTS, "all"], metavar="NAME")
    parser.add_argument(
        "--quick", action="store_true", help="a small version in minutes, with synthetic rows where files are missing"
    )
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--draw", action="store_true", help="train nothing: draw pages from stored results")
    instead.add_argument("--rehearse", action="store_true", help="only compile the programs of the runs, and keep them")
    parser.add_argument("--sets", nargs="+", metavar="SET", help="only these data sets")
    parser.add_argument("--methods", nargs="+", metavar="METHOD", help="only these methods")
    parser.add_argument("--splits", nargs="+", type=int, metavar="SPLIT", help="only these splits, from 0")
    parser.add_argument("--inducing", nargs="+", type=int, metavar="M", help="only these numbers of inducing points")
    parser.add_argument(
        "--jobs", type=int, default=1, help="runs at the same time, each in a process (a GPU can take several)"
    )
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="stop after this many seconds; the same command continues"
    )
    parser.add_argument("--results", type=Path, help="folder of the results; default experiments/results")
    parser.add_argument("--pages", type=Path, help="folder of the pages; default docs/reproduction")
    a = parser.parse_args(arguments)
    if a.jobs < 1:
        parser.error(f"--jobs must be at least 1, got {a.jobs}")
    chosen = list(EXPERIMENTS.values()) if a.name == "all" else [EXPERIMENTS[a.name]]
    store = Store(a.results or (QUICK if a.quick else RESULTS))
    pages = a.pages or (QUICK / "pages" if a.quick else PAGES)
    choice = Choice(a.quick, *(None if x is None else tuple(x) for x in (a.sets, a.methods, a.splits, a.inducing)))
    console, drawn, deadline = Console(), [], time.time() + a.seconds
    try:
        for experiment in chosen:
            wanted = experiment.runs(choice)
            if not wanted and a.name != "all":
                parser.error(f"{experiment.name} has no run that matches --sets, --methods, --splits and --inducing")
            if not a.draw:
                how = {"quick": a.quick, "jobs": a.jobs, "deadline": deadline, "console": console}
                left = fill(experiment.module, wanted, store, rehearsal=a.rehearse, **how)
                if a.rehearse:
                    continue
                if left:
                    console.print(
                        f"{experiment.name}: {len(left)} runs are left; the same command continues with them."
                    )
            # Experiments share exact GPs: with `all`, an experiment without other results is left out.
            shown = [run for run in experiment.runs(Choice(a.quick)) if run.inducing or a.name != "all"]
            if not any(map(store.holds, shown)):
                console.print(f"{experiment.name}: no page, because there are no results yet.")
                continue
            drawn.append(experiment.page(store, a.quick, pages))
            if a.quick:
                drawn[-1].blocks.insert(0, Text(SMALL))
            for path in drawn[-1].write(pages):
                console.print(f"Page: {path}", highlight=False, soft_wrap=True)
        if a.name == "all" and not a.rehearse:
            summary.write(drawn, pages.with_suffix(".md"))
    except datasets.DatasetError as missing:
        raise SystemExit(str(missing)) from None
    except KeyboardInterrupt:
        raise SystemExit("interrupted; finished runs are kept, and the same command continues") from None
