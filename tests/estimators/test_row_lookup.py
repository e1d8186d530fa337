"""Rows are found again by their digests."""

import numpy as np

from tightgp.estimators.row_lookup import find_rows, row_digests


def test_equal_rows_have_equal_digests_and_others_do_not():
    table = np.array([[0.0, 1.0], [-0.0, 1.0], [1.0, 0.0], [np.nan, 2.0], [-np.nan, 2.0], [np.nan, 3.0]])
    digests = row_digests(table)
    assert digests[0] == digests[1]
    assert digests[3] == digests[4]
    assert len(np.unique(digests)) == 4
    np.testing.assert_array_equal(row_digests(table[::-1]), digests[::-1])


def test_rows_are_found_where_they_first_occur():
    table = np.random.default_rng(0).integers(0, 3, size=(50, 2)).astype(float)
    found = find_rows(row_digests(table), row_digests(np.concatenate([table, [[7.0, 7.0]]])))
    np.testing.assert_array_equal(table[found[:-1]], table)
    assert all(np.flatnonzero((table == row).all(axis=1))[0] == i for row, i in zip(table, found[:-1], strict=True))
    assert found[-1] == -1
