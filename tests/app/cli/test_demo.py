"""The demo does what the README says: the exact GP and four bounds, a figure, a fitted table and its report."""

import numpy as np
from matplotlib.image import imread

from tightgp.app.cli import demo


def test_demo(tmp_path, capsys):
    demo.run(tmp_path, num_rows=60, num_inducing=8, max_iter=3)
    printed = capsys.readouterr().out
    lines = [line.split() for line in printed.splitlines()]
    nats = {line[0]: float(line[2 if line[0] == "exact" else 1]) for line in lines if line and line[0] in NAMES}
    assert list(nats) == NAMES
    assert nats["standard"] < nats["spherical"] < nats["diagonal"] < nats["block"] < nats["exact"]
    assert "nats per point" in printed
    assert (tmp_path / "flats" / "report.html").exists()
    picture = imread(tmp_path / "bounds.png")
    assert picture.shape[1] > 1500
    assert np.std(picture) > 0.05


NAMES = ["exact", "standard", "spherical", "diagonal", "block"]
