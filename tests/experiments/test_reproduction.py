"""The machinery of `python -m experiments`: nothing done twice, nothing half-kept, numbers beside the paper's."""

import json
import math
import sys
import time

import numpy as np
import pytest

import tightgp as tgp
from experiments.reproduction import beaten, beaten_page, command, medium, nybikes, paper, rows, summary, work
from experiments.reproduction.cells import Cell, minus
from experiments.reproduction.experiment import Choice
from experiments.reproduction.page import Heading, Page, Picture, Table, Text
from experiments.reproduction.store import Run, Store, gains
from experiments.reproduction.work import Unfinished, Work


@pytest.fixture
def no_data(monkeypatch, tmp_path):
    """Neither a data folder nor a cache."""
    monkeypatch.delenv("TIGHTGP_DATA", raising=False)
    monkeypatch.setattr("tightgp.datasets.download.cache_folder", lambda: tmp_path / "nothing")


@pytest.fixture
def quick(no_data, tmp_path):
    """The command in its quick version, with results and pages of its own."""

    def run(name, *options):
        places = ["--results", str(tmp_path / "results"), "--pages", str(tmp_path / "pages")]
        command.main([name, "--quick", *places, *options])

    return run


def test_a_cell_beside_the_papers():
    cell = Cell((1.0, 1.2, 1.4), (1.0, 0.1))
    assert cell.mean == pytest.approx(1.2)
    assert cell.error == pytest.approx(0.2 / math.sqrt(3))
    assert cell.difference == pytest.approx(0.2 / math.sqrt(0.04 / 3 + 0.01 + 0.001**2 / 12))
    assert cell.text() == "1.200 (0.115) [3 of 5]"
    assert not cell.off
    assert Cell((2.0,) * 5, (1.0, 0.1)).off
    # One split has no standard error of its own: √5 times the paper's.
    assert Cell((1.2,), (1.0, 0.1)).difference == pytest.approx(0.2 / (0.1 * math.sqrt(6)), rel=1e-4)
    assert Cell(()).text() == "—"
    assert Cell(()).difference is None
    assert minus("-1.0 (a-b)") == "−1.0 (a-b)"


def test_the_papers_numbers():
    """Some of them, typed in a second time from the paper."""
    assert paper.LARGE_LOG_DENSITY["svgp-new", 2048]["houseelectric"] == (1.421, 0.002)
    assert paper.LARGE_LOG_DENSITY["odvgp", 1024]["keggdirected"] == (-0.199, 0.067)
    assert paper.LARGE_RMSE["solvegp", 1024]["kin40k"] == (0.172, 0.001)
    assert paper.MEDIUM["bike", "sgpr-artemev", 2048] == (2.356, 0.029)
    assert paper.best("kin40k") == (0.286, "svgp-new, M = 2048")
    assert paper.best("bike") == (2.511, "sgpr-new, M = 2048")


def test_results_are_kept_one_file_a_run(tmp_path):
    store, run = Store(tmp_path), Run("medium", "pol", "sgpr", 32, 1)
    assert not store.holds(run)
    store.write(run, {"objective": 1.5})
    assert store.path(run).name == "pol-sgpr-32-split1.json"
    assert store.done([run, Run("medium", "pol", "exact", None, 1)]) == {run: store.read(run)}
    assert store.read(run)["objective"] == 1.5
    store.path(run).write_text("{")
    with pytest.raises(SystemExit, match=r"pol-sgpr-32-split1.json is not JSON.*remove it"):
        store.read(run)


def test_methods_are_compared_on_the_splits_that_all_have(tmp_path):
    store = Store(tmp_path)
    runs = [Run("large", "kin40k", method, 32, split) for method in ("svgp", "svgp-new") for split in range(3)]
    for run in runs[:5]:
        store.write(run, {"objective": run.split})
    found = store.done(runs)
    assert [run.split for run in found.shared(("svgp", "svgp-new"), set="kin40k", inducing=32)] == [0, 1, 0, 1]
    assert not found.shared(("svgp", "odvgp"), set="kin40k")


def test_gains_are_taken_split_by_split(tmp_path):
    store = Store(tmp_path)
    scores = {"svgp": (0.5, 0.9), "svgp-new": (0.6, 1.0, 5.0)}
    runs = {
        Run("large", "kin40k", method, 32, split): {"scores": [{"neighbours": None, "log_density": score}]}
        for method, mine in scores.items()
        for split, score in enumerate(mine)
    }
    for run, record in runs.items():
        store.write(run, record)
    found = store.done(runs)
    old, new = (found.by_split("log_density", set="kin40k", method=method) for method in scores)
    assert new == {0: 0.6, 1: 1.0, 2: 5.0}
    assert found.by_split("log_density", 64, set="kin40k", method="svgp") == {}
    np.testing.assert_allclose(gains(new, old), (0.1, 0.1))


def test_what_is_done_is_not_done_again(quick, tmp_path, monkeypatch, capsys):
    options = ("--sets", "pol", "--splits", "0", "--methods", "sgpr", "sgpr-new")
    monkeypatch.setattr(medium, "QUICK_STEPS", 20)
    quick("medium-1024", *options)
    kept = tmp_path / "results" / "medium"
    assert sorted(path.name for path in kept.iterdir()) == ["pol-sgpr-32-split0.json", "pol-sgpr-new-32-split0.json"]
    record = json.loads((kept / "pol-sgpr-new-32-split0.json").read_text())
    assert record["made_up"]
    assert record["trace"]["step"][-1] == 19
    assert sum(record["v"]["counts"]) == rows.QUICK_TRAIN
    assert record["how"] == {"side_by_side": 1, "resumed": False, "wall": record["how"]["wall"]}
    text = (tmp_path / "pages" / "medium-1024.md").read_text()
    assert f"{record['scores'][0]['log_density']:.3f}".replace("-", "−") in text
    assert "made up" in text
    assert "This is the quick version" in text

    def never(run, work):
        raise AssertionError("trained again")

    monkeypatch.setattr(medium, "train", never)
    quick("medium-1024", *options)
    quick("medium-1024", "--draw")
    quick("medium-1024", "--seconds", "-1", "--splits", "1")
    assert "left for another time" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        quick("medium-1024", "--sets", "kin40k")


def test_a_training_broken_off_goes_on(tmp_path):
    """With the time up it leaves a checkpoint; going on from there gives what one go would have given."""
    parts = rows.made_up(0)
    model = tgp.SGPR(tgp.kernels.Matern32(), parts.train.X[:10], 0.1)
    late = Work(True, tmp_path / "a" / "run.checkpoint", tmp_path, deadline=0.0)
    with pytest.raises(Unfinished):
        late.fit(model, parts.train, "adam", steps=120)
    assert late.checkpoint.exists()
    again = Work(True, late.checkpoint, tmp_path).fit(model, parts.train, "adam", steps=120)
    whole = Work(True, tmp_path / "b.checkpoint", tmp_path).fit(model, parts.train, "adam", steps=120)
    np.testing.assert_array_equal(again.trace["objective"], whole.trace["objective"])


def test_a_failure_leaves_no_result(tmp_path, monkeypatch):
    def fails(run, work):
        raise tgp.NumericalError("Kuu\nis singular")

    monkeypatch.setattr(medium, "train", fails)
    run = Run("medium", "pol", "sgpr", 32, 0)
    job = work.Job(medium.__name__, run, tmp_path, True, time.time() + 60, 1, False)
    assert work.carry_out(job) == "failed: NumericalError: Kuu"
    assert not Store(tmp_path).holds(run)


def test_runs_side_by_side(quick, tmp_path):
    """Processes of their own give what one process gives."""
    quick("nybikes", "--methods", "full", "--splits", "0", "1", "--sets", "nybikes", "--jobs", "2")
    records = [json.loads(path.read_text()) for path in sorted((tmp_path / "results" / "nybikes").glob("*.json"))]
    assert [record["run"]["split"] for record in records] == [0, 1]
    assert all(record["how"]["side_by_side"] == 2 for record in records)
    alone = nybikes.train(Run("nybikes", "nybikes", "full", None, 0), Work(True, tmp_path / "c.checkpoint", tmp_path))
    assert alone["objective"] == pytest.approx(records[0]["objective"], rel=1e-9)
    assert (tmp_path / "pages" / "nybikes.html").exists()


def test_every_large_method_trains(quick, tmp_path):
    quick("large", "--sets", "kin40k", "--splits", "0", "--inducing", "32")
    found = {path.name for path in (tmp_path / "results" / "large").iterdir()}
    assert found == {
        f"kin40k-{method}-32-split0.json"
        for method in ("svgp", "svgp-new", "odvgp", "solvegp", "svgp-block", "svgp-batch", "solvegp-new")
    }
    for path in (tmp_path / "results" / "large").iterdir():
        assert -1.5 < json.loads(path.read_text())["scores"][0]["log_density"] < 1


def test_distinct_days_are_held_out_whole(no_data):
    tested = []
    for fold in range(nybikes.FOLDS):
        train, test, made_up = nybikes.rows("nybikes-days", fold, quick=True)
        assert made_up
        assert train.num_data + test.num_data == 30
        assert not set(train.y.tolist()) & set(test.y.tolist())
        tested += test.y.tolist()
    assert len(tested) == 30
    twins, held_out, _ = nybikes.rows("nybikes", 0, quick=True)
    assert (twins.num_data, held_out.num_data) == (189, 21)
    assert set(held_out.y.tolist()) <= set(twins.y.tolist())


def test_inducing_points_are_kept(tmp_path):
    X = rows.made_up(0).train.X
    file = tmp_path / "deep" / "Z.npy"
    first = rows.centres(X, 5, 0, file)
    np.testing.assert_array_equal(first, tgp.inducing.kmeans(X, 5, seed=0))
    np.save(file, first + 1)
    np.testing.assert_array_equal(rows.centres(X, 5, 0, file), first + 1)


def test_gpytorch_is_asked_for_by_name(no_data, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "gpytorch", None)
    job = work.Job(beaten.__name__, Run("beaten", "kin40k", "gpytorch", 8, 0), tmp_path, True, math.inf, 1, False)
    assert work.carry_out(job).startswith("not run: it needs GPyTorch in this environment")
    assert work.carry_out(job).endswith("pip install gpytorch")


def test_splits_come_first():
    runs = medium.runs(1024, Choice())
    assert [run.split for run in runs] == sorted(run.split for run in runs)
    assert {run.inducing for run in runs} == {None, 1024}
    assert len(runs) == 3 * 5 * 5


def test_a_page_in_both_forms(tmp_path):
    cell = Cell((0.1, 0.2), (0.5, 0.01))
    table = Table("Some <caption>", ("", "a|b"), [("row", "1\n2")], (("row", "a", cell),))
    (tmp_path / "dot.png").write_bytes(b"\x89PNG")
    page = Page("one", "A title", [Text("x < y"), Heading("H"), table, Picture("dot.png", "a dot")])
    text, html = (path.read_text() for path in page.write(tmp_path))
    assert "| row | 1<br>2 |" in text
    assert "a\\|b" in text
    assert "![a dot](dot.png)" in text
    assert "x &lt; y" in html
    assert "Some &lt;caption&gt;" in html
    assert "data:image/png;base64,iVBORw" in html or "data:image/png;base64,iVBO" in html
    summary.write([page], tmp_path / "all.md")
    (tmp_path / "all.md").write_text((tmp_path / "all.md").read_text() + "\nwritten by hand\n")
    summary.write([page], tmp_path / "all.md")
    whole = (tmp_path / "all.md").read_text()
    assert whole.count("| [A title](reproduction/one.md) | 1 | 0 | 1 |") == 1
    assert "| one | H | row | a | 0.150 (0.050) [2 of 5] | 0.500 (0.010) |" in whole
    assert "written by hand" in whole
    (tmp_path / "bare.md").write_text("nothing")
    with pytest.raises(SystemExit, match="has no marks"):
        summary.write([page], tmp_path / "bare.md")


def test_a_rehearsal_compiles_and_keeps_nothing(quick, tmp_path, capsys):
    quick("beaten", "--rehearse", "--sets", "kin40k", "--methods", "short", "protocol")
    told = capsys.readouterr().out
    assert "kin40k-short-32-split0: compiled in" in told
    assert "kin40k-protocol-32-split0: compiled in" in told
    assert "Page:" not in told
    assert not list((tmp_path / "results").rglob("*.json"))
    assert not (tmp_path / "pages").exists()


def test_a_timed_training_is_compiled_before(tmp_path, monkeypatch):
    """It takes a short training first, keeps no checkpoint, and ends where it would have ended without."""
    parts = rows.made_up(0)
    model = tgp.SGPR(tgp.kernels.Matern32(), parts.train.X[:10], 0.1)
    asked = []
    fit = tgp.fit
    monkeypatch.setattr(tgp, "fit", lambda *a, **options: asked.append(options["steps"]) or fit(*a, **options))
    here = Work(True, tmp_path / "run.checkpoint", tmp_path)
    warmed = here.fit(model, parts.train, "lbfgs", warmed=True, steps=20)
    assert asked == [2, 20]
    assert not here.checkpoint.exists()
    assert warmed.objective == pytest.approx(here.fit(model, parts.train, "lbfgs", steps=20).objective, rel=1e-12)
    assert here.fit(model, parts.train, "adam", warmed=True, steps=70).steps == 70
    assert asked[-2:] == [50, 70]


def _scored(density: float, valid: float, neighbours: tuple[int | None, ...] = (None,)) -> dict:
    """A record in which each number of neighbours adds a tenth to the test score and takes it from the other."""
    ways = [(n, 0.1 * i) for i, n in enumerate(neighbours)]
    return {
        "scores": [{"neighbours": n, "log_density": density + d, "rmse": 1 - density - d} for n, d in ways],
        "validation": [{"neighbours": n, "log_density": valid - d} for n, d in ways],
        "seconds": 2.0,
        "how": {"side_by_side": 1, "resumed": False},
        "machine": {"device": "a GPU", "jax": "0"},
    }


def test_what_is_past_the_paper_is_chosen_on_validation_rows(tmp_path):
    store = Store(tmp_path / "results")
    for method, record in {
        "collapsed": _scored(0.2, 0.5, (None, 64, 128)),  # the best bound on validation rows, not on test rows
        "block": _scored(0.6, 0.4, (None, 64, 128)),
        "pitc": _scored(0.5, 0.6, (None, 64, 128)),
        "short": _scored(0.9, 0.1),
    }.items():
        store.write(Run("beaten", "kin40k", method, 1024, 0), record)
    more = _scored(0.8, 0.9) | {"machine": {"device": "cpu", "jax": "0"}}  # of which there are more inducing points
    store.write(Run("beaten", "kin40k", "twice", 2048, 0), more)
    pace = _scored(0.0, 0.0) | {"scores": [], "extrapolated": True}
    store.write(Run("beaten", "kin40k", "protocol", 1024, 0), pace)
    for split in (0, 1):
        store.write(Run("large", "kin40k", "svgp-new", 1024, split), _scored(0.1 + split, 0.0))
    text = beaten.page(store, False, tmp_path).markdown().replace("\u00a0", " ")
    lines = {line.split(" | ")[0].removeprefix("| "): line for line in text.splitlines() if line.startswith("| ")}
    table = text.split("## Test RMSE")[0]
    assert "| paper's best sparse method | 0.286<br>svgp-new, M = 2048 |" in table
    assert "| the paper's protocol, new bound | 0.100 [1 of 5]<br>≈ 2.0 s |" in table  # the same split alone
    assert "| collapsed, L-BFGS | 0.200 [1 of 5]<br>2.0 s |" in table
    assert "| collapsed, L-BFGS, twice the inducing points | 0.800 [1 of 5] ●<br>2.0 s on a CPU |" in table
    assert "| blocks of 64, local | 0.700 [1 of 5] ●<br>2.0 s<br>64 rows |" in table
    assert f"| {beaten_page.CHOSEN_BOUND} | 0.200 [1 of 5]<br>2.0 s<br>collapsed, L-BFGS |" in table
    assert f"| {beaten_page.CHOSEN} | 0.500 [1 of 5] ●<br>2.0 s<br>PITC of 64 (no bound) |" in table
    above = table.split("split by split")[1]
    assert "| blocks of 64, local | 0.600 [1 of 5] |" in above
    assert "twice" not in above
    assert f"| {beaten_page.CHOSEN_BOUND} | 0.100 [1 of 5] |" in above
    assert "greedy inducing points" not in table
    assert lines[beaten_page.CHOSEN].endswith("0.5000 [1 of 5] |")
    assert (tmp_path / "beaten.png").exists()
