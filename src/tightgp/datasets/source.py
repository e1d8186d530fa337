"""What is known of a data set: its file, where it comes from, what its columns are, and what to beware of."""

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from tightgp import checks

FORMS = ("table", "named", "labelled", "household")
TASKS = ("regression", "counts", "classes")


class DatasetError(ValueError):
    """A data set that cannot be had: not here, not to be downloaded, or not what its file should hold."""


@dataclass(frozen=True)
class Source:
    """One data set.

    ``file`` is its path below the data folder; files named in ``others`` are read in its place. ``url`` and
    ``sha256`` belong together: where the checksum of what the address gives is not known, nothing is downloaded,
    and ``by_hand`` says how to come by the file. ``form`` says how it is read:

    - ``"table"``: numbers without a header, separated by commas (perhaps gzipped), the target last;
    - ``"named"``: a table with a header, from which ``inputs`` and ``target`` are taken by name;
    - ``"labelled"``: an .npz with the inputs as ``Y`` and the classes as ``labels``;
    - ``"household"``: see `tightgp.datasets.household`.

    Your own file has a source too, and `load` and `split` take it as they take a name:

    >>> mine = Source("mine", "my measurements", "mine.csv", rows=500, inputs=("x",), target="y", form="named")
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
        """Every file that is looked for, the first one first."""
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
