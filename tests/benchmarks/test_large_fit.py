"""The table of large fits on the page is that of the stored results."""

from benchmarks import large_fit


def test_the_page_shows_the_stored_results():
    table = large_fit.table(large_fit.stored())
    assert table in large_fit.PAGE.read_text(encoding="utf-8")
    assert len(table.splitlines()) > 2
