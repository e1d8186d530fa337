"""The generated part of docs/reproduction.md: how many numbers agree with the paper's, and those that do not."""

from pathlib import Path

from experiments.reproduction.page import Heading, Page, Table
from tightgp.io.files import atomic_write

BEGIN, END = "<!-- made by `python -m experiments all --draw`: begin -->", "<!-- end -->"


def compared(pages: list[Page]) -> str:
    """Counts of the compared cells by page, and a line for each that is more than two standard errors off."""
    lines = [
        "| page | numbers compared | within two standard errors | fewer splits than the paper |",
        "|---|---:|---:|---:|",
    ]
    off = []
    for page in pages:
        heading, cells = "", []
        for block in page.blocks:
            heading = block.text if isinstance(block, Heading) else heading
            if isinstance(block, Table):
                cells += [(heading, *one) for one in block.cells if one[2].difference is not None]
        if not cells:
            continue
        far = [one for one in cells if one[3].off]
        few = sum(len(cell.ours) < cell.splits for *_, cell in cells)
        lines.append(
            f"| [{page.title}](reproduction/{page.name}.md) | {len(cells)} | {len(cells) - len(far)} | {few} |"
        )
        off += [
            f"| {' | '.join((page.name, *names, cell.text(), cell.paper_text(), cell.difference_text()))} |"
            for *names, cell in far
        ]
    head = ["", "| page | table | row | column | ours | paper | standard errors |", "|---|---|---|---|---:|---:|---:|"]
    return "\n".join(lines + (head + off if off else []))


def write(pages: list[Page], path: Path) -> None:
    """Write it between the marks in the page; the rest of the page stays."""
    text = path.read_text(encoding="utf-8") if path.exists() else f"# The paper, reproduced\n\n{BEGIN}\n{END}\n"
    if BEGIN not in text or END not in text:
        raise SystemExit(f"{path} has no marks {BEGIN} and {END}")
    before, rest = text.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    with atomic_write(path) as temporary:
        temporary.write_text(f"{before}{BEGIN}\n\n{compared(pages)}\n\n{END}{after}", encoding="utf-8")
