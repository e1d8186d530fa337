"""The demo does what the README says: a table of the exact GP and four bounds, and a figure."""

import sys

import numpy as np
from matplotlib.image import imread

from tightgp import demo


def test_demo(tmp_path, monkeypatch, capsys):
    path = tmp_path / "bounds.png"
    monkeypatch.setattr(sys, "argv", ["demo", "--out", str(path)])
    demo.main()
    printed = capsys.readouterr().out
    lines = [line.split() for line in printed.splitlines()]
    nats = {line[0]: float(line[2 if line[0] == "exact" else 1]) for line in lines if line and line[0] in NAMES}
    assert list(nats) == NAMES
    assert nats["standard"] < nats["spherical"] < nats["diagonal"] < nats["block"] < nats["exact"]
    assert "nats per point" in printed
    picture = imread(path)
    assert picture.shape[1] > 1500
    assert np.std(picture) > 0.05


NAMES = ["exact", "standard", "spherical", "diagonal", "block"]


def test_data_are_the_same_for_the_same_seed():
    np.testing.assert_array_equal(demo.wiggly(20, seed=3).y, demo.wiggly(20, seed=3).y)
    assert not np.array_equal(demo.wiggly(20, seed=3).y, demo.wiggly(20, seed=4).y)
