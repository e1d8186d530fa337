"""The fuzzer finds what breaks its rules; what it found before stays repaired."""

from pathlib import Path

import pytest

from soak import fuzz
from tightgp.app.tables import TableError
from tightgp.app.tables.text import read_text

#: Files of the corpus that are no tables.
REFUSED = {"ragged.csv", "open-quote.csv", "utf16.csv"}


@pytest.mark.parametrize("name", fuzz.TARGETS)
def test_some_cases_hold(name):
    tried, failure = fuzz.run(name, 20, seed=0)
    assert tried >= 20
    assert failure == ""


def test_a_failure_is_reported_with_its_input(monkeypatch):
    monkeypatch.setattr(fuzz, "read_text", lambda *_: {}["no such thing"])
    tried, failure = fuzz.run("table", 20, seed=0)
    assert tried >= 1
    assert "KeyError" in failure
    assert "content=" in failure


@pytest.mark.parametrize("path", sorted(fuzz.CORPUS.glob("*.csv")), ids=lambda path: path.name)
def test_the_corpus_is_read_or_refused(path):
    def read():
        return read_text(Path("t.csv"), path.read_bytes(), None, "utf-8", (0, 1), False)

    if path.name in REFUSED:
        with pytest.raises(TableError, match=r"^t.csv: "):
            read()
    else:
        assert len(read())
