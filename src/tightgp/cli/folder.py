"""The folder that a fit leaves: what was asked for, the model, the report, and a checkpoint while it is not done."""

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from tightgp.files import written_whole

VERSION = 1


@dataclass(frozen=True)
class Request:
    """What a fit was asked for, as it stands in ``settings.json``; ``digest`` is the table's."""

    table: str
    target: str
    likelihood: str = "auto"
    inducing: str = "256"
    kernel: str = "matern32"
    bound: str | None = None
    neighbours: int = 64
    method: str = "auto"
    max_iter: int | None = None
    precision: str = "full"
    holdout: float = 0.2
    seed: int = 0
    ignore: tuple[str, ...] = ()
    drop_missing_target: bool = False
    delimiter: str | None = None
    encoding: str = "utf-8"
    digest: str = ""


class Folder:
    """The files of one fit."""

    def __init__(self, path: Path):
        self.path = Path(path)
        self.settings = self.path / "settings.json"
        self.model = self.path / "model.safetensors"
        self.content = self.path / "report.json"
        self.page = self.path / "report.html"
        self.checkpoint = self.path / "checkpoint"

    def check(self, request: Request, resume: bool, overwrite: bool) -> None:
        """Refuse to lose what is there, or to go on with what was asked for otherwise."""
        if resume and overwrite:
            raise ValueError("--resume goes on and --overwrite starts anew; give one of them")
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"--out {self.path} is a file; name a folder")
        there = [path.name for path in (*self._written, self.checkpoint) if path.exists()]
        if there and not self._ours():
            raise ValueError(
                f"--out {self.path} holds {', '.join(there)}, but no fit of tightgp's; name another folder"
            )
        if resume and self.settings.exists():
            self._same(request)
        elif self.checkpoint.exists() and not overwrite:
            raise ValueError(
                f"{self.path} holds a fit that was not finished; --resume goes on with it, --overwrite starts anew"
            )
        elif self.model.exists() and not overwrite:
            raise ValueError(f"{self.path} holds a model already; name another folder, or pass --overwrite")

    def begin(self, request: Request, resume: bool) -> None:
        """Make the folder ready for a fit. What an earlier one left stays until it is replaced."""
        if resume and self.settings.exists():
            if self.request().digest != request.digest:
                raise ValueError(f"{request.table} is not the table that the fit in {self.path} began with")
            return
        self._drop_work()
        with written_whole(self.settings) as temporary:
            temporary.write_text(json.dumps({"version": VERSION, **asdict(request)}, indent=1) + "\n")
        self.checkpoint.mkdir()

    def end(self) -> None:
        """The fit is done, and its unfinished work of no more use."""
        self._drop_work()

    def give_up(self) -> None:
        """Where nothing was learnt yet, leave no trace of having begun."""
        if any(self.checkpoint.glob("fit-*.safetensors")):
            return
        self._drop_work()
        if not self.model.exists():
            self.settings.unlink(missing_ok=True)
            with suppress(OSError):
                self.path.rmdir()

    @property
    def finished(self) -> bool:
        """Whether there is a model and no unfinished work."""
        return self.model.exists() and self.content.exists() and not self.checkpoint.exists()

    @property
    def _written(self) -> tuple[Path, ...]:
        return self.settings, self.model, self.content, self.page

    def _drop_work(self) -> None:
        """Remove checkpoints, and what a killed process left half written."""
        for path in (*self.checkpoint.glob("fit-*.safetensors"), *self.checkpoint.glob(".fit-*")):
            path.unlink(missing_ok=True)
        for path in self._written:
            for stale in self.path.glob(f".{path.name}.*"):
                stale.unlink(missing_ok=True)
        with suppress(OSError):
            self.checkpoint.rmdir()

    def _ours(self) -> bool:
        try:
            stored = json.loads(self.settings.read_text(encoding="utf-8"))
            return isinstance(stored, dict) and {"version", "table", "target"} <= stored.keys()
        except (OSError, ValueError):
            return False

    def request(self) -> Request:
        """What the fit in this folder was asked for."""
        try:
            stored: dict[str, Any] = json.loads(self.settings.read_text(encoding="utf-8"))
            names = {field.name for field in fields(Request)}
            known = {name: value for name, value in stored.items() if name in names}
            return Request(**{**known, "ignore": tuple(known.get("ignore", ()))})
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"{self.settings} is not as tightgp fit writes it ({error}); fit again") from None

    def _same(self, request: Request) -> None:
        stored, now = asdict(self.request()), asdict(request)
        other = [
            f"--{name.replace('_', '-')} was {stored[name]!r} and is {now[name]!r}"
            for name in now
            if name not in ("table", "digest") and stored[name] != now[name]
        ]
        if other:
            raise ValueError(f"--resume goes on with the fit in {self.path}, but {'; '.join(other)}")


def digest_of(path: str) -> str:
    """What tells a file from another."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def model_of(path: Path) -> Path:
    """The model file that a user means: a folder that fit made, or the file itself."""
    path = Path(path)
    if not path.exists():
        raise ValueError(f"{path} does not exist; name a folder that `tightgp fit` made, or a model file")
    if not path.is_dir():
        return path
    folder = Folder(path)
    if not folder.model.exists():
        hint = "; its fit was not finished, see --resume" if folder.checkpoint.exists() else ""
        raise ValueError(f"{path} holds no model.safetensors{hint}; name a folder that `tightgp fit` made")
    return folder.model
