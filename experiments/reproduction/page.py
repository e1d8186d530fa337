"""An experiment's page, written as Markdown and as one HTML file."""

import base64
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from experiments.reproduction.cells import Cell
from tightgp.io.files import atomic_write


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Table:
    """Rows of cells under a heading; a cell may have several lines, and the first column names the row."""

    caption: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    #: Cells that were compared with the paper: row, column, cell.
    cells: tuple[tuple[str, str, Cell], ...] = ()


@dataclass(frozen=True)
class Picture:
    """A PNG beside the page."""

    file: str
    caption: str


@dataclass(frozen=True)
class Heading:
    """A heading."""

    text: str


Block = Text | Table | Picture | Heading


@dataclass
class Page:
    """The results of an experiment."""

    name: str
    title: str
    blocks: list[Block] = field(default_factory=list)

    def write(self, folder: Path) -> list[Path]:
        """Write ``NAME.md`` and ``NAME.html`` to a folder that holds the figures."""
        written = []
        for ending, content in (("md", self.markdown()), ("html", self.html(folder))):
            path = folder / f"{self.name}.{ending}"
            with atomic_write(path) as temporary:
                temporary.write_text(content, encoding="utf-8")
            written.append(path)
        return written

    def markdown(self) -> str:
        return "\n\n".join([f"# {self.title}", *(_markdown(block) for block in self.blocks)]) + "\n"

    def html(self, folder: Path) -> str:
        """The page as one HTML file, with the figures inside."""
        import jinja2

        environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
        template = environment.from_string((resources.files(__package__) / "page.html.j2").read_text(encoding="utf-8"))
        style = (resources.files("tightgp.app.report") / "page.css").read_text(encoding="utf-8")
        kinds = [(type(block).__name__, block) for block in self.blocks]
        return template.render(
            title=self.title, style=style, blocks=kinds, inside=lambda picture: _inside(folder / picture.file)
        )


def _markdown(block: Block) -> str:
    match block:
        case Text(text):
            return text
        case Heading(text):
            return f"## {text}"
        case Picture(file, caption):
            return f"![{caption}]({file})\n\n*{caption}*"
        case Table(caption, columns, rows, _):
            lines = [columns, ("---", *("---:" for _ in columns[1:])), *rows]
            body = "\n".join(
                "| " + " | ".join(cell.replace("|", "\\|").replace("\n", "<br>") for cell in line) + " |"
                for line in lines
            )
            return f"{caption}\n\n{body}"


def _inside(path: Path) -> str:
    return "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode()
