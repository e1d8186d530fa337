"""The exact GP and sparse GPs side by side."""

import numpy as np
import pytest

from tightgp.app.comparison import compare, comparison_table, train
from tightgp.data import Dataset
from tightgp.kernels import SquaredExponential
from tightgp.models import ExactGP


@pytest.fixture(scope="module")
def data():
    x = np.linspace(0, 4, 20)
    return Dataset(x[:, None], np.sin(2 * x))


def test_all_methods_are_trained_from_one_start(data):
    methods = compare(data, SquaredExponential(), data.X[:3], 0.1, ("standard", "diagonal"), steps=3, progress=False)
    exact, standard, diagonal = methods
    assert standard.result.trace["objective"][0] < diagonal.result.trace["objective"][0]
    assert diagonal.result.trace["objective"][0] < exact.result.trace["objective"][0]
    table = comparison_table(methods, data)
    assert [column.header for column in table.columns][:3] == ["method", "nats", "gap"]
    assert table.row_count == 3


def test_interrupted_training_cannot_be_compared(data):
    def interrupt(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(ExactGP(SquaredExponential(), 0.1), data, steps=3, progress=False, callback=interrupt)
