"""A single process has nothing to agree on; `tests/test_distributed.py` runs several."""

import numpy as np
import pandas as pd

from tightgp.estimators import processes
from tightgp.estimators.encoding import Encoding


def test_a_single_process_agrees_with_itself():
    rows = np.random.default_rng(0).normal(size=(4, 2))
    np.testing.assert_array_equal(processes.from_leader(rows), rows)
    table = pd.DataFrame({"x": [1.0, np.nan, 3.0], "city": ["Oslo", None, "Rome"]})
    assert Encoding.fit(table, processes.read_all) == Encoding.fit(table)
