"""Files are found in TIGHTGP_DATA first, then in the cache, then on the net; what fails says what to do."""

import gzip
import hashlib
import socket
from dataclasses import replace

import numpy as np
import pooch
import pytest

from tightgp import datasets
from tightgp.datasets import DatasetError, Source, places

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


def everything_in(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def test_the_cache_is_poochs_folder_for_tightgp(monkeypatch):
    monkeypatch.undo()
    assert str(places.cache()) == str(pooch.os_cache("tightgp"))


def test_downloaded_once_then_found_in_the_cache(server, source, cache):
    assert datasets.locate(source) is None
    path = datasets.fetch(source)
    assert path == cache / "uci" / "two.csv.gz"
    assert path.read_bytes() == CONTENT
    assert datasets.locate(source) == path
    assert datasets.fetch(source) == path
    np.testing.assert_array_equal(datasets.load(source).y, [3, 6])
    assert server.asked == ["/two.csv.gz"]
    assert everything_in(cache) == [path]


def test_the_data_folder_comes_before_the_cache_and_needs_no_checksum(server, source, data_folder):
    cached = datasets.fetch(source)
    own = data_folder / "uci" / "two.csv.gz"
    own.write_bytes(gzip.compress(b"7,8,9\n1,1,1\n"))
    assert datasets.locate(source) == own
    assert datasets.fetch(source) == own
    np.testing.assert_array_equal(datasets.load(source).y, [9, 1])
    own.unlink()
    assert datasets.locate(source) == cached
    assert len(server.asked) == 1


def test_an_empty_variable_is_none_and_one_that_names_no_folder_is_an_error(source, monkeypatch, tmp_path):
    monkeypatch.setenv("TIGHTGP_DATA", "")
    assert datasets.locate(source) is None
    monkeypatch.setenv("TIGHTGP_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DatasetError, match=r"TIGHTGP_DATA names '.*nowhere', which is no folder"):
        datasets.locate(source)


def test_a_wrong_checksum_is_told_and_nothing_stays(source, cache):
    found, expected = source.sha256, "0" * 64
    with pytest.raises(DatasetError) as caught:
        datasets.fetch(replace(source, sha256=expected))
    message = str(caught.value)
    assert f"SHA-256 expected {expected}, found {found}" in message
    assert "thrown away" in message
    assert_it_says_where_to_put_it(message, source, cache)
    assert everything_in(cache) == []


def assert_it_says_where_to_put_it(message, source, cache):
    assert f"download {source.url}" in message
    assert f"the environment variable TIGHTGP_DATA names (which is not set), as\n  {source.file}\n" in message
    assert str(cache / source.file) in message


def test_a_missing_page_is_told_and_nothing_stays(server, source, cache):
    lost = replace(source, url=server.address("/lost.csv.gz"))
    with pytest.raises(DatasetError, match="the server answered 404 Not Found") as caught:
        datasets.fetch(lost)
    assert_it_says_where_to_put_it(str(caught.value), lost, cache)
    assert everything_in(cache) == []


def test_no_connection_is_told_and_nothing_stays(server, source, cache):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening, so a connection is refused
        closed = replace(source, url=f"http://127.0.0.1:{taken.getsockname()[1]}/two.csv.gz")
        with pytest.raises(DatasetError, match=r"the download failed \(ConnectionError: .*refused") as caught:
            datasets.fetch(closed)
    assert_it_says_where_to_put_it(str(caught.value), closed, cache)
    assert everything_in(cache) == []


def test_a_connection_cut_short_is_told_and_nothing_stays(server, source, cache):
    server.promised["/two.csv.gz"] = len(CONTENT) + 100
    with pytest.raises(DatasetError, match="the download failed"):
        datasets.fetch(source)
    assert everything_in(cache) == []


def test_a_cache_that_cannot_be_written_is_told(source, cache):
    cache.write_text("a file where the folder should be")
    with pytest.raises(DatasetError, match="the download failed"):
        datasets.fetch(source)


def test_a_damaged_file_in_the_cache_is_downloaded_again(server, source):
    path = datasets.fetch(source)
    path.write_bytes(CONTENT[:10])
    assert datasets.fetch(source).read_bytes() == CONTENT
    assert len(server.asked) == 2


def test_a_damaged_file_that_cannot_be_had_again_is_told_and_kept(server, source):
    path = datasets.fetch(source)
    path.write_bytes(b"damaged")
    server.files.clear()
    with pytest.raises(DatasetError, match=f"The file {path} is damaged: its checksum is another"):
        datasets.fetch(source)
    assert path.read_bytes() == b"damaged"


def test_an_archive_that_is_truncated_at_its_source_is_told_by_name(server, source, cache):
    cut = CONTENT[:-12]
    server.files["/cut.csv.gz"] = cut
    bad = replace(source, url=server.address("/cut.csv.gz"), sha256=hashlib.sha256(cut).hexdigest())
    with pytest.raises(DatasetError, match="cannot be read as two: Compressed file ended") as caught:
        datasets.load(bad)
    assert str(cache / "uci" / "two.csv.gz") in str(caught.value)


@pytest.mark.parametrize("name", [name for name in datasets.names() if not datasets.describe(name).downloads])
def test_what_has_no_checksum_is_not_downloaded_but_explained(name, cache):
    source = datasets.describe(name)
    with pytest.raises(DatasetError) as caught:
        datasets.load(name)
    message = str(caught.value)
    assert "no address with a known checksum" in message
    assert "http" in message
    assert "TIGHTGP_DATA" in message
    assert all(f" {file}" in message and str(cache / file) in message for file in source.files)
    assert "damaged" not in message


def test_what_has_no_checksum_is_taken_from_the_cache_as_it_is(cache):
    cache.mkdir()
    path = cache / "snelson.csv"
    path.write_text("x,y\n" + "1.5,2.5\n" * 200)
    assert datasets.fetch("snelson") == path
    assert datasets.load("snelson").X.shape == (200, 1)


def test_the_message_names_the_folder_where_one_is_set(data_folder):
    with pytest.raises(DatasetError, match=rf"TIGHTGP_DATA names \(which is now {data_folder}\)"):
        datasets.load("oil")


def test_a_public_file_name_is_found_in_place_of_ours(data_folder):
    other = data_folder / "uci" / "household_power_consumption.txt"
    other.touch()
    assert datasets.locate("houseelectric") == other
    own = data_folder / "uci" / "houseelectric.npz"
    own.touch()
    assert datasets.locate("houseelectric") == own


@pytest.mark.parametrize("enabled", [True, False])
def test_the_bar_goes_as_pooch_drives_it(enabled, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # makes rich take standard error for a terminal
    with places._Bar("two", enabled) as bar:
        bar.total = 300
        bar.update(100)
        task = bar._bar.tasks[0]
        assert (bar.total, task.completed) == (300, 100)
        assert bar._bar.disable is not enabled
        bar.reset()
        bar.update(300)
        bar.close()
        assert task.finished
