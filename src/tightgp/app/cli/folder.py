"""The folder of a fit: the request, the model, the report, and a checkpoint until the fit is finished."""

import json
import os
import socket
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, TextIO

from tightgp.app.cli.options import FitRequest, Overwrite, option
from tightgp.io.files import atomic_write

try:
    import fcntl
except ImportError:  # pragma: no cover
    fcntl = None  # type: ignore[assignment]

VERSION = 1


@dataclass
class FitFolder:
    """The files of one fit, and what may happen to those that exist.

    Attributes:
        settings: the request, as JSON.
        model: the model file.
        content: what the report shows, as JSON.
        page: the report.
        checkpoint: the folder of the estimator's checkpoints.
        files: all of these but the checkpoint.
    """

    path: Annotated[Path, option("Folder for model, report and checkpoint.", "--out", "-o")]
    resume: Annotated[bool, option("Continue an interrupted fit in the folder.", "--resume")] = False
    overwrite: Overwrite = False

    def __post_init__(self):
        self.settings = self.path / "settings.json"
        self.model = self.path / "model.safetensors"
        self.content = self.path / "report.json"
        self.page = self.path / "report.html"
        self.checkpoint = self.path / "checkpoint"
        self.lock_file = self.path / ".lock"
        self.files = (self.settings, self.model, self.content, self.page)
        self._lock: TextIO | None = None

    @property
    def finished(self) -> bool:
        """Whether there is a model and no unfinished work."""
        return self.model.exists() and self.content.exists() and not self.checkpoint.exists()

    def lock(self) -> None:
        """Keep other fits out of the folder until `unlock`, or until this process ends in whatever way.

        Windows has no such locks: there, two fits in one folder are not refused.
        """
        if fcntl is None or (self.path.exists() and not self.path.is_dir()):
            return
        self.path.mkdir(parents=True, exist_ok=True)
        while self._lock is None:
            file = self.lock_file.open("a+", encoding="utf-8")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                owner = _owner(file)
                file.close()
                raise ValueError(
                    f"{self.path} is in use by {owner}; wait until it is done, or name another folder"
                ) from None
            if _same_file(file, self.lock_file):
                self._lock = file
            else:  # whoever had it removed it just now
                file.close()
        self._lock.truncate(0)
        self._lock.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        self._lock.flush()

    def unlock(self) -> None:
        """Let other fits use the folder; an empty folder is removed."""
        if self._lock is None:
            return
        if not self.lost:
            self.lock_file.unlink(missing_ok=True)
            with suppress(OSError):
                self.path.rmdir()
        self._lock.close()
        self._lock = None

    @property
    def lost(self) -> bool:
        """Whether somebody removed or replaced the folder since `lock`."""
        return self._lock is not None and not _same_file(self._lock, self.lock_file)

    def rescue(self, value) -> None:
        """Save a model beside the folder, and raise an error that says so."""
        from tightgp.io import modelfile  # it imports JAX, which --help and errors about arguments need not

        rescued = self.path.with_name(f"{self.path.name}-rescued-{os.getpid()}.safetensors")
        modelfile.save(value, rescued)
        if not self.settings.exists():
            self.finish()  # removes the checkpoints that made the folder anew
            with suppress(OSError):
                self.path.rmdir()
        raise FileNotFoundError(
            f"{self.path} was removed or replaced during the fit; the model is in {rescued}, without a report"
        )

    def check(self, request: FitRequest) -> None:
        """Refuse to lose files, or to continue a fit of another request."""
        if self.resume and self.overwrite:
            raise ValueError("--resume continues a fit and --overwrite starts again; give one of them")
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"--out {self.path} is a file; name a folder")
        found = [path.name for path in (*self.files, self.checkpoint) if path.exists()]
        before = self._read_settings()
        if found and not before:
            raise ValueError(f"--out {self.path} holds {', '.join(found)} but no fit of tightgp; name another folder")
        if self.resume and before:
            changed = []
            for name, value in asdict(request).items():
                if name not in ("table", "max_unpacked") and before.get(name) != value:
                    changed.append(f"--{name.replace('_', '-')} was {before.get(name)!r} and is {value!r}")
            if changed:
                raise ValueError(f"--resume continues the fit in {self.path}, but {'; '.join(changed)}")
        elif self.checkpoint.exists() and not self.overwrite:
            raise ValueError(f"{self.path} holds an unfinished fit; --resume continues it, --overwrite starts again")
        elif self.model.exists() and not self.overwrite:
            raise ValueError(f"{self.path} already holds a model; name another folder, or pass --overwrite")

    def start(self, request: FitRequest) -> None:
        """Prepare the folder for a fit. Files of an earlier fit stay until they are replaced."""
        if self.resume and self.settings.exists():
            return
        self.finish()
        with atomic_write(self.settings) as temporary:
            temporary.write_text(json.dumps({"version": VERSION, **asdict(request)}, indent=1) + "\n")
        self.checkpoint.mkdir()

    def finish(self) -> None:
        """Remove checkpoints, and temporary files of a killed process."""
        temporary = [f".{path.name}.*" for path in self.files]
        for pattern in ("checkpoint/fit-*.safetensors", "checkpoint/.fit-*", *temporary):
            for path in self.path.glob(pattern):
                path.unlink(missing_ok=True)
        with suppress(OSError):
            self.checkpoint.rmdir()

    def abandon(self) -> None:
        """Remove what `start` wrote, unless training left a checkpoint."""
        if any(self.checkpoint.glob("fit-*.safetensors")):
            return
        self.finish()
        if not self.model.exists():
            self.settings.unlink(missing_ok=True)
            with suppress(OSError):
                self.path.rmdir()

    def _read_settings(self) -> dict[str, Any]:
        """The request of the fit in the folder; empty if there is none."""
        with suppress(OSError, ValueError, TypeError):
            settings = json.loads(self.settings.read_text(encoding="utf-8"))
            if {"version", "table", "target"} <= set(settings):
                return settings
        return {}


def _same_file(file: TextIO, path: Path) -> bool:
    """Whether an open file is still the one at a path."""
    with suppress(OSError):
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    return False


def check_new(path: Path | None, overwrite: bool) -> None:
    """Refuse to replace a file unless that was asked for."""
    if path is not None and path.exists() and not overwrite:
        raise ValueError(f"--out {path} already exists; name another file, or pass --overwrite")


def model_file(path: Path) -> Path:
    """The model file that a user means: in a folder that fit wrote, or the file itself."""
    if not path.exists():
        raise ValueError(f"{path} does not exist; name a folder that `tightgp fit` wrote, or a model file")
    if not path.is_dir():
        return path
    folder = FitFolder(path)
    if not folder.model.exists():
        hint = "; its fit is unfinished, see --resume" if folder.checkpoint.exists() else ""
        raise ValueError(f"{path} holds no model.safetensors{hint}; name a folder that `tightgp fit` wrote")
    return folder.model


def _owner(lock_file: TextIO) -> str:
    """Who holds the lock; a process that has only just taken it gets a second to write its name."""
    end = time.monotonic() + 1.0
    while True:
        lock_file.seek(0)
        owner = lock_file.read().strip()
        if owner or time.monotonic() > end:
            return owner or "another process"
        time.sleep(0.01)
