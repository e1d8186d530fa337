"""Find a data set's file: in the folder that TIGHTGP_DATA names, in pooch's cache, or by downloading it."""

import os
from pathlib import Path

from tightgp.datasets.catalogue import describe
from tightgp.datasets.source import DatasetError, Source
from tightgp.progress import ProgressBar


def data_folder() -> Path | None:
    """The folder that the environment variable TIGHTGP_DATA names, or None."""
    name = os.environ.get("TIGHTGP_DATA")
    if not name:
        return None
    path = Path(name).expanduser()
    if not path.is_dir():
        raise DatasetError(f"TIGHTGP_DATA names {name!r}, which is not a folder; correct it or unset it")
    return path


def cache_folder() -> Path:
    """The folder that tightgp downloads to: the operating system's cache for it."""
    import pooch

    return Path(pooch.os_cache("tightgp"))


def locate(name: str | Source) -> Path | None:
    """The path of a data set's file in the folder TIGHTGP_DATA names or, failing that, in the cache; else None."""
    source = describe(name)
    return _file_in(data_folder(), source) or _file_in(cache_folder(), source)


def fetch(name: str | Source, progress: bool = True) -> Path:
    """The path of a data set's file, downloaded into the cache if it is not on this machine.

    A file in the cache is downloaded again if it does not have the checksum of the catalogue; a file in the folder
    TIGHTGP_DATA names is accepted as it is. Without a download, a `DatasetError` (a ValueError) says which file to put
    where.
    """
    source = describe(name)
    if found := _file_in(data_folder(), source) if source.downloads else locate(source):
        return found
    if source.downloads:
        return _download(source, progress)
    raise DatasetError(_instructions(source, "it has no address with a known checksum, so it is not downloaded"))


def _file_in(folder: Path | None, source: Source) -> Path | None:
    paths = [] if folder is None else [folder / file for file in source.files]
    return next((path for path in paths if path.is_file()), None)


def _download(source: Source, progress: bool) -> Path:
    import pooch

    pooch.get_logger().setLevel("WARNING")  # the progress bar says it already
    try:
        with ProgressBar(100, progress, f"downloading {source.name}") as bar:
            downloader = pooch.HTTPDownloader(progressbar=_DownloadProgress(bar), chunk_size=1 << 16)
            return Path(pooch.retrieve(source.url, source.sha256, source.file, cache_folder(), downloader=downloader))
    except (OSError, ValueError) as error:  # those of requests are OSErrors, that of a wrong checksum a ValueError
        response = getattr(error, "response", None)
        if response is not None:
            response.close()  # pooch leaves the connection open when the server refuses
        raise DatasetError(_instructions(source, f"the download failed: {' '.join(str(error).split())}")) from error


def _instructions(source: Source, reason: str) -> str:
    """An error message: why the file is not there, how to get it, and where to put it."""
    ways = [f"download {source.url}"] if source.downloads else []
    ways += [source.by_hand] if source.by_hand else []
    how = ",\n".join(ways) or f"get it from {source.page}"
    folder = os.environ.get("TIGHTGP_DATA")
    cached = cache_folder() / source.file
    damaged = f" The file {cached} is damaged: its checksum is wrong." if cached.exists() else ""
    return (
        f"the data set {source.name!r} is not on this machine: {reason}.{damaged}\n"
        f"By hand: {how}\n"
        "and put it in the folder that the environment variable TIGHTGP_DATA names "
        f"({f'which is now {folder}' if folder else 'which is not set'}), as\n"
        f"  {' or '.join(source.files)}\n"
        "or in tightgp's cache, as\n"
        f"  {' or '.join(str(cache_folder() / file) for file in source.files)}"
    )


class _DownloadProgress:
    """What pooch calls as it downloads: show the share of ``total`` bytes, which pooch sets, on a progress bar."""

    def __init__(self, bar: ProgressBar):
        self._bar, self.received, self.total = bar, 0, 0

    def update(self, count: int) -> None:
        """Add ``count`` bytes."""
        self.received += count
        percent = min(100, 100 * self.received / self.total) if self.total else 0
        self._bar.update(percent, f"% of {self.total / 1e6:.1f} MB" if self.total else f"{self.received / 1e6:.1f} MB")

    def reset(self) -> None:
        """Start again from zero bytes."""
        self.received = 0

    def close(self) -> None:
        """Do nothing: the caller closes the bar."""
