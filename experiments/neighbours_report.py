"""The report of `experiments.neighbours`: a table for each data set, and a figure of the way to the exact GP."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from tightgp.app.comparison import COLOURS
from tightgp.io.files import atomic_write

#: The steps of the figure: bound, neighbours in prediction, label, colour.
STEPS = (
    ("standard", None, "standard", COLOURS["standard"]),
    ("diagonal", None, "diagonal", COLOURS["diagonal"]),
    ("block:64", None, "block 64", COLOURS["block"]),
    ("block:64", 64, "block 64,\n64 neighbours", COLOURS["block"]),
    ("pep:0.5:64", 64, "Power EP ½ (no bound),\n64 neighbours", COLOURS["spherical"]),
    ("pep:1:64", 64, "PITC (no bound),\n64 neighbours", COLOURS["exact"]),
)
#: No shares are computed of a gap to the exact GP that is smaller than this, in nats a row.
SMALLEST_GAP = 0.01

Record = dict[str, Any]


class Group(NamedTuple):
    """The records of one data set that share rows, inducing points and kernel."""

    set: str
    rows: int
    test_rows: int
    inputs: int
    inducing: int
    lengthscales: str
    records: list[Record]

    @property
    def title(self) -> str:
        lengthscales = "a lengthscale for each input" if self.lengthscales == "ard" else "one lengthscale"
        return f"{self.set}: N = {self.rows:,}, D = {self.inputs}, M = {self.inducing}, {lengthscales}"

    def scores(self, bound: str, neighbours: int | None) -> dict[int, Record]:
        """The scores of one method by split; of several, the latest."""
        return {
            record["split"]: record | prediction
            for record in self.records
            if record["bound"] == bound
            for prediction in record.get("predictions", [])
            if prediction["neighbours"] == neighbours and "error" not in prediction
        }

    def failed(self, bound: str) -> bool:
        """Whether every training under this bound failed."""
        mine = [record for record in self.records if record["bound"] == bound]
        return bool(mine) and all("error" in record for record in mine)


def show(records: list[Record], figure: Path, console: Console) -> None:
    """Print the tables and write the figure."""
    found = groups(records)
    if not found:
        raise SystemExit("the files hold no training of a sparse model")
    for group in found:
        console.print(table(group))
    console.print(f"Picture: {picture(found, figure)}")


def groups(records: Iterable[Record]) -> list[Group]:
    """Group records by setting, in order of appearance; the exact GP belongs to every number of points."""
    records = list(records)
    names = ("set", "rows", "test_rows", "inputs", "lengthscales")
    kinds = list(dict.fromkeys((*(r[n] for n in names), r["inducing"]) for r in records if r["bound"] != "exact"))
    out = []
    for *shared, inducing in kinds:
        mine = [r for r in records if [r[n] for n in names] == shared and r["inducing"] in (inducing, None)]
        name, rows, test_rows, inputs, lengthscales = shared
        out.append(Group(name, rows, test_rows, inputs, inducing, lengthscales, mine))
    return out


def label(bound: str) -> str:
    """A bound's name for people."""
    name, *numbers = bound.split(":")
    if name == "block":
        return f"block {numbers[0]}"
    if name == "pep":
        return f"Power EP {numbers[0]}, block {numbers[1]}"
    return "exact GP" if name == "exact" else name


def table(group: Group) -> Table:
    """Means over the splits; ± is their standard deviation."""
    out = Table(title=group.title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    columns = (
        "prediction",
        "splits",
        "log density",
        "RMSE",
        "in 95 %",
        "σ²",
        "objective a row",
        "train s",
        "predict s",
    )
    out.add_column("trained by", no_wrap=True)
    for column in columns:
        out.add_column(column, justify="left" if column == "prediction" else "right", no_wrap=True)
    bounds = list(dict.fromkeys(record["bound"] for record in group.records))
    for bound in sorted(bounds, key=lambda bound: bound == "exact"):
        tried = [record for record in group.records if record["bound"] == bound]
        attempts = [attempt for record in tried for attempt in record.get("predictions", [record])]
        failures = sum("error" in attempt for attempt in attempts)
        ways = {attempt["neighbours"] for attempt in attempts if "error" not in attempt}
        for count in sorted(ways, key=lambda count: count or 0):
            mine = list(group.scores(bound, count).values())
            first = count is None
            cells = [label(bound) if first else "", "global" if first else f"{count} neighbours", str(len(mine))]
            density = [record["log_density"] for record in mine]
            cells += [f"{np.mean(density):.3f} ± {np.std(density):.3f}", f"{_mean(mine, 'rmse'):.4f}"]
            cells += [f"{100 * np.mean([record['coverage']['95'] for record in mine]):.1f}"]
            if first:
                # Objectives that are not bounds do not compare with bounds.
                mark = "" if all(record["is_bound"] for record in mine) else " (no bound)"
                cells += [f"{_mean(mine, 'noise_variance'):.4f}", f"{_mean(mine, 'objective_per_row'):.4f}{mark}"]
                cells += [f"{_mean(mine, 'train_seconds'):.1f}"]
            else:
                cells += ["", "", ""]
            out.add_row(*cells, f"{_mean(mine, 'seconds'):.2f}")
        if failures:
            out.add_row("" if ways else label(bound), f"failed {failures}×")
        out.add_section()
    return out


def _mean(records: list[Record], name: str) -> float:
    return float(np.mean([record[name] for record in records]))


class Place(NamedTuple):
    """A method's mean test log density, and the range of its gains over the standard bound across splits."""

    value: float
    low: float
    high: float


def places(group: Group) -> tuple[list[Place | None], Place | None]:
    """The places of the steps and of the exact GP. Gains are taken split by split, so a missing split does no harm."""
    base = {split: record["log_density"] for split, record in group.scores("standard", None).items()}

    def place(bound: str, neighbours: int | None) -> Place | None:
        mine = group.scores(bound, neighbours)
        gains = [record["log_density"] - base[split] for split, record in mine.items() if split in base]
        if not gains:
            return None
        zero = float(np.mean(list(base.values())))
        return Place(zero + float(np.mean(gains)), zero + min(gains), zero + max(gains))

    return [place(bound, neighbours) for bound, neighbours, _, _ in STEPS], place("exact", None)


def picture(found: list[Group], path: Path) -> Path:
    """A panel for each group: test log density step by step, labelled with the share of the gap that is closed."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    across = len(found) if len(found) <= 4 else (len(found) + 1) // 2
    down = -(-len(found) // across)
    fig = Figure(figsize=(max(6.0, 1.9 + 2.9 * across), 1.15 + 2.75 * down))
    fig.set_layout_engine("constrained", wspace=0.04, hspace=0.06)
    FigureCanvasAgg(fig)
    for number, group in enumerate(found):
        ax = fig.add_subplot(down, across, number + 1)
        _panel(ax, group, named=number % across == 0)
        # What all panels share stands in the title alone.
        words = [f"N = {group.rows:,}", f"D = {group.inputs}"]
        words += [f"M = {group.inducing}"] if len({other.inducing for other in found}) > 1 else []
        words += [f"ℓ: {group.lengthscales}"] if len({other.lengthscales for other in found}) > 1 else []
        ax.set_title(", ".join(words), loc="right", fontsize=8.5, color="#555555")
        # Above a gap in the last row, the panel names the axis.
        if number + across >= len(found):
            ax.set_xlabel("test log density (nats a row)", fontsize=9)
    kinds = {group.inducing for group in found}
    setting = f" with {min(kinds)} inducing points" if len(kinds) == 1 else ""
    title = f"From the standard bound to the exact GP{setting}"
    fig.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold")
    fig.supxlabel(
        "○ predicted globally    ● from neighbours    bars: range over the splits\n"
        "%: closed of the gap between the standard bound and the exact GP\n"
        "+: nats a row gained, where no exact GP was run or the gap is too small    ◀: far to the left, its value",
        x=0.01,
        ha="left",
        fontsize=9,
        color="#555555",
    )
    with atomic_write(path) as temporary:
        fig.savefig(temporary, dpi=150, format="png")
    return path


def _panel(ax, group: Group, named: bool) -> None:
    steps, exact = places(group)
    shown = [(i, step) for i, step in enumerate(steps) if step is not None]
    values = [edge for place in [*(s for _, s in shown[:-1]), *([exact] if exact else [])] for edge in place]
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    room = max(high - low, 1e-3)
    if shown and shown[-1][1].value > low - room:
        low, high = min(low, shown[-1][1].low), max(high, shown[-1][1].high)
        room = max(high - low, 1e-3)
    else:  # far to the left, it would leave no room for the others
        i, far = shown.pop()
        name = f"◀ {far.value:.1f}".replace("-", "−")
        ax.text(low - 0.08 * room, i, name, fontsize=8.5, color=STEPS[i][3], va="center")
    gap = exact.value - steps[0].value if exact and steps[0] else 0.0
    if exact:
        ax.axvline(exact.value, color=COLOURS["exact"], lw=1.2, ls=(0, (4, 2)), zorder=1)
        right = exact.value > low + 0.35 * room
        ax.annotate(
            "exact GP",
            (exact.value, -0.62),
            xytext=(-3 if right else 3, 0),
            textcoords="offset points",
            ha="right" if right else "left",
            va="center",
            fontsize=8,
            color=COLOURS["exact"],
        )
    ax.plot([s.value for _, s in shown], [i for i, _ in shown], "-", color="#bbbbbb", lw=1.2, zorder=2)
    for i, step in shown:
        _, neighbours, _, colour = STEPS[i]
        ax.plot([step.low, step.high], [i, i], color=colour, lw=1.5, alpha=0.5, zorder=3, solid_capstyle="butt")
        ax.plot(step.value, i, "o", ms=7, mew=1.6, mec=colour, mfc=colour if neighbours else "white", zorder=4)
        # A label stands to the right, unless the line of the exact GP crosses it there.
        left = exact is not None and step.value < exact.value < step.high + 0.28 * room
        ax.annotate(
            _label(i, step, steps[0], gap),
            (step.low if left else step.high, i),
            xytext=(-8 if left else 8, 0),
            textcoords="offset points",
            ha="right" if left else "left",
            va="center",
            fontsize=8.5,
            color=colour,
            bbox={"boxstyle": "square,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.8},
            zorder=3,
        )
    for i, (bound, *_) in enumerate(STEPS):
        if steps[i] is None and group.failed(bound):
            ax.text(low, i, "failed", fontsize=8.5, color="#777777", va="center", style="italic")
    ax.set_xlim(low - 0.1 * room, high + 0.32 * room)
    ax.set_ylim(len(STEPS) - 0.5, -0.95)
    ax.set_yticks(range(len(STEPS)), [name for _, _, name, _ in STEPS] if named else [])
    ax.tick_params(axis="y", length=0, labelsize=9)
    ax.tick_params(axis="x", labelsize=8)
    ax.locator_params(axis="x", nbins=4)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.set_title(group.set, loc="left", fontsize=11, fontweight="bold")


def _label(number: int, step: Place, first: Place | None, gap: float) -> str:
    """The label of a step: the first has its value, others the share of the gap, or the gain if there is no gap."""
    if number == 0 or first is None:
        return f"{step.value:.2f}".replace("-", "−")
    gain = step.value - first.value
    digits = 2 if abs(gain) >= 0.05 else 3
    text = f"{100 * gain / gap:.0f} %" if gap >= SMALLEST_GAP else f"{gain:+.{digits}f}"
    return text.replace("-", "−")
