"""The description of a data set: its file, where to get it, its columns, and what to beware of."""

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from tightgp import checks

FORMS = ("table", "named", "labelled", "household")
TASKS = ("regression", "counts", "classes")


class DatasetError(ValueError):
    """A data set is not on this machine and cannot be downloaded, or its file cannot be read."""


@dataclass(frozen=True)
class Source:
    """The description of one data set. `load` and `split` accept it in place of a name.

    Args:
        name: what the data set is called.
        about: what the data are, in one sentence.
        file: the file's path below the data folder, such as "uci/pol.csv.gz".
        rows: number of rows.
        inputs: the names of the inputs.
        target: the name of the target.
        form: the file format.
            "table": numbers separated by commas, without a header, perhaps gzipped; the target is the last column.
            "named": a CSV file whose header has the names in ``inputs`` and ``target``; other columns are ignored.
            "labelled": an .npz file with the inputs as ``Y`` and the classes as ``labels``.
            "household": see `tightgp.datasets.household`.
        task: "regression", "counts" or "classes".
        url: the address to download ``file`` from. Nothing is downloaded unless ``sha256`` is known too.
        sha256: checksum of what ``url`` gives.
        checked: what the checksum was compared with.
        page: the web page that describes the data.
        by_hand: how to get the file without a download.
        others: other files that are read if ``file`` is not there.
        credit: whom to credit, and the licence.
        notes: what to beware of.

    >>> from tightgp.datasets import Source
    >>> mine = Source("mine", "my measurements", "mine.csv", rows=500, inputs=("x",), target="y", form="named")
    >>> mine.downloads
    False
    """

    name: str
    about: str
    file: str
    rows: int
    inputs: tuple[str, ...]
    target: str
    form: str = "table"
    task: str = "regression"
    url: str | None = None
    sha256: str | None = None
    checked: str = ""
    page: str = ""
    by_hand: str = ""
    others: tuple[str, ...] = ()
    credit: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self):
        checks.count("rows", self.rows)
        checks.choice("form", self.form, FORMS)
        checks.choice("task", self.task, TASKS)
        if isinstance(self.inputs, str) or not self.inputs:
            raise ValueError(f"inputs must name at least one column in a tuple, got {self.inputs!r}")
        for file in self.files:
            path = PurePosixPath(file)
            if not path.name or path.is_absolute() or ".." in path.parts:
                raise ValueError(f"file must be a path below the data folder such as 'uci/pol.csv.gz', got {file!r}")
        if self.sha256 is not None and not re.fullmatch("[0-9a-f]{64}", self.sha256):
            raise ValueError(f"sha256 must be 64 lower-case hexadecimal digits or None, got {self.sha256!r}")

    @property
    def files(self) -> tuple[str, ...]:
        """Every file that can be read, in the order of search."""
        return (self.file, *self.others)

    @property
    def downloads(self) -> bool:
        """Whether it can be downloaded: the address and its checksum are known."""
        return self.url is not None and self.sha256 is not None

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.about}", f"{self.rows} rows, {len(self.inputs)} inputs; target: {self.target}"]
        lines += [f"file: {self.file}", *(f"or: {other}" for other in self.others)]
        lines += [f"from: {self.url or self.page}" + ("" if self.downloads else " (by hand)")]
        return "\n".join([*lines, *([self.credit] if self.credit else []), *(f"- {note}" for note in self.notes)])
