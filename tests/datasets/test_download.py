"""Files are looked for in TIGHTGP_DATA, then in the cache, then downloaded; each error says what to do."""

import gzip
import hashlib
import socket
from dataclasses import replace

import numpy as np
import pooch
import pytest

from tightgp import datasets
from tightgp.datasets import DatasetError, Source, download
from tightgp.progress import ProgressBar

CONTENT = gzip.compress(b"1,2,3\n4,5,6\n")


@pytest.fixture
def source(server):
    """Two rows on the local server."""
    server.files["/two.csv.gz"] = CONTENT
    return Source(
        name="two",
        about="two rows",
        file="uci/two.csv.gz",
        rows=2,
        inputs=("a", "b"),
        target="c",
        url=server.address("/two.csv.gz"),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
    )


def files_in(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def test_cache_folder_is_the_one_of_pooch(monkeypatch):
    monkeypatch.undo()
    assert str(download.cache_folder()) == str(pooch.os_cache("tightgp"))


def test_second_fetch_uses_the_cache(server, source, cache):
    assert datasets.locate(source) is None
    path = datasets.fetch(source)
    assert path == cache / "uci" / "two.csv.gz"
    assert path.read_bytes() == CONTENT
    assert datasets.locate(source) == path
    assert datasets.fetch(source) == path
    np.testing.assert_array_equal(datasets.load(source).y, [3, 6])
    assert server.requests == ["/two.csv.gz"]
    assert files_in(cache) == [path]


def test_data_folder_precedes_the_cache_and_needs_no_checksum(server, source, data_folder):
    cached = datasets.fetch(source)
    own = data_folder / "uci" / "two.csv.gz"
    own.write_bytes(gzip.compress(b"7,8,9\n1,1,1\n"))
    assert datasets.locate(source) == own
    assert datasets.fetch(source) == own
    np.testing.assert_array_equal(datasets.load(source).y, [9, 1])
    own.unlink()
    assert datasets.locate(source) == cached
    assert len(server.requests) == 1


def test_environment_variable_empty_or_wrong(source, monkeypatch, tmp_path):
    monkeypatch.setenv("TIGHTGP_DATA", "")
    assert datasets.locate(source) is None
    monkeypatch.setenv("TIGHTGP_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DatasetError, match=r"TIGHTGP_DATA names '.*nowhere', which is not a folder"):
        datasets.locate(source)


def test_wrong_checksum_leaves_no_file(source, cache):
    found, expected = source.sha256, "0" * 64
    with pytest.raises(DatasetError) as caught:
        datasets.fetch(replace(source, sha256=expected))
    message = str(caught.value)
    assert f"expected {expected} but got {found}" in message
    assert_message_has_instructions(message, source, cache)
    assert files_in(cache) == []


def assert_message_has_instructions(message, source, cache):
    assert f"download {source.url}" in message
    assert f"the environment variable TIGHTGP_DATA names (which is not set), as\n  {source.file}\n" in message
    assert str(cache / source.file) in message


def test_missing_page_leaves_no_file(server, source, cache):
    missing = replace(source, url=server.address("/lost.csv.gz"))
    with pytest.raises(DatasetError, match="the download failed: 404 Client Error: Not Found for url") as caught:
        datasets.fetch(missing)
    assert_message_has_instructions(str(caught.value), missing, cache)
    assert files_in(cache) == []


def test_refused_connection_leaves_no_file(server, source, cache):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening, so a connection is refused
        closed = replace(source, url=f"http://127.0.0.1:{taken.getsockname()[1]}/two.csv.gz")
        with pytest.raises(DatasetError, match=r"the download failed: .*refused") as caught:
            datasets.fetch(closed)
    assert_message_has_instructions(str(caught.value), closed, cache)
    assert files_in(cache) == []


def test_interrupted_connection_leaves_no_file(server, source, cache):
    server.lengths["/two.csv.gz"] = len(CONTENT) + 100
    with pytest.raises(DatasetError, match="the download failed"):
        datasets.fetch(source)
    assert files_in(cache) == []


def test_unwritable_cache(source, cache):
    cache.write_text("a file where the folder should be")
    with pytest.raises(DatasetError, match="the download failed"):
        datasets.fetch(source)


def test_damaged_file_in_the_cache_is_downloaded_again(server, source):
    path = datasets.fetch(source)
    path.write_bytes(CONTENT[:10])
    assert datasets.fetch(source).read_bytes() == CONTENT
    assert len(server.requests) == 2


def test_damaged_file_is_kept_if_the_download_fails(server, source):
    path = datasets.fetch(source)
    path.write_bytes(b"damaged")
    server.files.clear()
    with pytest.raises(DatasetError, match=f"The file {path} is damaged: its checksum is wrong"):
        datasets.fetch(source)
    assert path.read_bytes() == b"damaged"


def test_truncated_archive_is_named(server, source, cache):
    cut = CONTENT[:-12]
    server.files["/cut.csv.gz"] = cut
    bad = replace(source, url=server.address("/cut.csv.gz"), sha256=hashlib.sha256(cut).hexdigest())
    with pytest.raises(DatasetError, match="cannot be read as two: Compressed file ended") as caught:
        datasets.load(bad)
    assert str(cache / "uci" / "two.csv.gz") in str(caught.value)


@pytest.mark.parametrize("name", [name for name in datasets.names() if not datasets.describe(name).downloads])
def test_without_a_checksum_nothing_is_downloaded(name, cache):
    source = datasets.describe(name)
    with pytest.raises(DatasetError) as caught:
        datasets.load(name)
    message = str(caught.value)
    assert "no address with a known checksum" in message
    assert "http" in message
    assert "TIGHTGP_DATA" in message
    assert all(f" {file}" in message and str(cache / file) in message for file in source.files)
    assert "damaged" not in message


def test_without_a_checksum_the_cached_file_is_accepted(cache):
    cache.mkdir()
    path = cache / "snelson.csv"
    path.write_text("x,y\n" + "1.5,2.5\n" * 200)
    assert datasets.fetch("snelson") == path
    assert datasets.load("snelson").X.shape == (200, 1)


def test_message_names_the_data_folder(data_folder):
    with pytest.raises(DatasetError, match=rf"TIGHTGP_DATA names \(which is now {data_folder}\)"):
        datasets.load("oil")


def test_other_file_names_are_found(data_folder):
    other = data_folder / "uci" / "household_power_consumption.txt"
    other.touch()
    assert datasets.locate("houseelectric") == other
    own = data_folder / "uci" / "houseelectric.npz"
    own.touch()
    assert datasets.locate("houseelectric") == own


@pytest.mark.parametrize(("total", "percent"), [(300, 100 / 3), (0, 0)])
def test_progress_bar_shows_the_share_of_bytes(total, percent, monkeypatch):
    shown = []
    monkeypatch.setattr(ProgressBar, "update", lambda self, completed, state="": shown.append(completed))
    progress = download._DownloadProgress(ProgressBar(100, False, "two"))
    progress.total = total
    progress.update(100)
    progress.reset()
    progress.update(total)
    progress.close()
    assert shown == [percent, 100 if total else 0]


@pytest.mark.parametrize("progress", [True, False])
def test_progress_is_shown_on_a_terminal_only_if_wanted(source, progress, monkeypatch, capfd):
    monkeypatch.setenv("FORCE_COLOR", "1")  # makes rich treat standard error as a terminal
    datasets.fetch(source, progress=progress)
    assert ("downloading two" in capfd.readouterr().err) == progress
