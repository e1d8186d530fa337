"""Where a data set's file is, and how it gets there: the folder TIGHTGP_DATA names, pooch's cache, a download."""

import os
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from tightgp.datasets.catalogue import describe
from tightgp.datasets.source import DatasetError, Source
from tightgp.files import written_whole

_CHUNK_BYTES = 1 << 16


def folder() -> Path | None:
    """The folder that TIGHTGP_DATA names, or None."""
    name = os.environ.get("TIGHTGP_DATA")
    if not name:
        return None
    path = Path(name).expanduser()
    if not path.is_dir():
        raise DatasetError(f"TIGHTGP_DATA names {name!r}, which is no folder; correct it or unset it")
    return path


def cache() -> Path:
    """The operating system's folder for what tightgp has downloaded."""
    import pooch

    return Path(pooch.os_cache("tightgp"))


def locate(name: str | Source) -> Path | None:
    """The data set's file if it is in the folder TIGHTGP_DATA names or, failing that, in the cache; else None."""
    source = describe(name)
    return _inside(folder(), source) or _inside(cache(), source)


def fetch(name: str | Source, progress: bool = True) -> Path:
    """The data set's file, downloaded into the cache where it is neither there nor in the folder TIGHTGP_DATA names.

    A file in the cache must have the catalogue's checksum, and is downloaded again if it has not; one in
    TIGHTGP_DATA is taken as it is. A `DatasetError` (a ValueError) says what to put where when there is no download.
    """
    source = describe(name)
    found = _inside(folder(), source)
    if found is not None:
        return found
    found = _inside(cache(), source)
    if found is not None and (not source.downloads or _sha256(found) == source.sha256):
        return found
    if not source.downloads:
        raise DatasetError(_instructions(source, "it has no address with a known checksum, so it is not downloaded"))
    return _download(source, progress)


def _inside(place: Path | None, source: Source) -> Path | None:
    paths = [] if place is None else [place / file for file in source.files]
    return next((path for path in paths if path.is_file()), None)


def _sha256(path: Path) -> str:
    import pooch

    return pooch.file_hash(str(path))


def _download(source: Source, progress: bool) -> Path:
    import pooch

    path = cache() / source.file
    try:
        with written_whole(path) as temporary, _Bar(source.name, progress) as bar:
            pooch.HTTPDownloader(progressbar=bar, chunk_size=_CHUNK_BYTES)(source.url, str(temporary), None)
            found = _sha256(temporary)
            if found != source.sha256:
                raise DatasetError(
                    _instructions(
                        source,
                        f"what {source.url} gave has not the right checksum (SHA-256 expected {source.sha256}, found "
                        f"{found}) and was thrown away: the file was changed there, or something on the way did it",
                    )
                )
    except OSError as refused:  # all that requests raises is one too
        raise DatasetError(_instructions(source, f"the download failed ({_reason(refused)})")) from refused
    return path


def _reason(refused: OSError) -> str:
    response = getattr(refused, "response", None)
    if response is not None:
        response.close()  # pooch leaves the connection of a refusal open
        return f"the server answered {response.status_code} {response.reason}"
    # What requests raises wraps what urllib3 raised, which has the cause at heart.
    inner = refused.args[0] if refused.args and isinstance(refused.args[0], Exception) else refused
    return " ".join(f"{type(refused).__name__}: {getattr(inner, 'reason', inner)}".split())


def _instructions(source: Source, why: str) -> str:
    """All that is needed to put the file in place by hand."""
    how = f"download {source.url}" if source.downloads else ""
    if source.by_hand:
        how = f"{how},\n{source.by_hand}" if how else source.by_hand
    named = os.environ.get("TIGHTGP_DATA")
    here = f"which is now {named}" if named else "which is not set"
    cached = cache() / source.file
    damaged = f" The file {cached} is damaged: its checksum is another." if cached.exists() else ""
    return (
        f"the data set {source.name!r} is not on this machine: {why}.{damaged}\n"
        f"By hand: {how or f'get it from {source.page}'}\n"
        f"and put it in the folder that the environment variable TIGHTGP_DATA names ({here}), as\n"
        f"  {' or '.join(source.files)}\n"
        f"or in tightgp's cache, as\n"
        f"  {' or '.join(str(cache() / file) for file in source.files)}"
    )


class _Bar:
    """A progress bar as pooch drives it, on standard error where that is a terminal (or a notebook)."""

    def __init__(self, name: str, enabled: bool):
        console = Console(file=sys.stderr)
        visible = enabled and (console.is_terminal or console.is_jupyter)
        columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), DownloadColumn(), TransferSpeedColumn())
        self._bar = Progress(*columns, console=console, disable=not visible, transient=True)
        self._task = self._bar.add_task(f"downloading {name}", total=None)

    def __enter__(self):
        self._bar.start()
        return self

    def __exit__(self, *_):
        self._bar.stop()

    @property
    def total(self) -> float | None:
        """Bytes to come; pooch sets it when the server has told."""
        return self._bar.tasks[0].total

    @total.setter
    def total(self, count: int) -> None:
        self._bar.update(self._task, total=count or None)

    def update(self, count: int) -> None:
        """So many bytes more."""
        self._bar.advance(self._task, count)

    def reset(self) -> None:
        """Back to none."""
        self._bar.update(self._task, completed=0)

    def close(self) -> None:
        """All have come."""
        self._bar.stop()
