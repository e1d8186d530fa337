"""Training that is broken off and goes on reaches the same numbers, bit for bit."""

import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import tightgp as tgp
from tests import processes
from tests.training.problems import assert_same
from tightgp.io import modelfile
from tightgp.training import epochs, lbfgs, minibatches


def problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=60)
    return tgp.Dataset(X[:50], y[:50]), tgp.Dataset(X[50:], y[50:])


def collapsed():
    data, _ = problem()
    return tgp.SGPR(tgp.kernels.Matern32(1.0, [1.0, 1.0]), data.X[:6], 0.1)


def explicit():
    data, _ = problem()
    return tgp.SVGP(tgp.kernels.Matern32(1.0, [1.0, 1.0]), tgp.likelihoods.Gaussian(0.1), data.X[:6])


def pieces():
    data, _ = problem()
    return tgp.Batches([(data.X[:23], data.y[:23]), (data.X[23:], data.y[23:])], 50)


HELD_OUT = problem()[1]
WAYS = {
    "lbfgs": (collapsed, {"steps": 12, "restarts": 1}),
    "adam": (collapsed, {"method": "adam", "steps": 120}),
    "natural": (explicit, {"method": "natural", "steps": 120}),
    "minibatches": (explicit, {"batch_size": 16, "epochs": 5, "validation": HELD_OUT}),
    "early stopping": (explicit, {"batch_size": 16, "epochs": 40, "validation": HELD_OUT, "patience": 1}),
    "streamed": (explicit, {"batch_size": 16, "epochs": 4, "method": "natural", "stream": True}),
    "iterated": (explicit, {"batch_size": 16, "epochs": 4}),
}


def run(way, **more):
    model, options = WAYS[way]
    data = pieces() if way == "iterated" else problem()[0]
    return tgp.fit(model(), data, progress=False, **{**options, **more})


@pytest.mark.parametrize("way", WAYS)
def test_training_goes_on_to_the_same_numbers(way, tmp_path, monkeypatch):
    monkeypatch.setattr(minibatches, "_SEGMENT_STEPS", 2)  # so that an epoch of four batches has two segments
    path = tmp_path / "run.safetensors"
    whole = run(way)
    for patience in range(2, 100, 2):
        calls = iter(range(patience))
        result = run(
            way,
            checkpoint=path,
            checkpoint_seconds=0,
            resume=True,
            callback=lambda *_, calls=calls: next(calls, None) is None,
        )
        if result.reason is not tgp.StopReason.CALLBACK:
            break
    assert patience > 2
    assert_same(result, whole)
    assert_same(run(way, checkpoint=path, resume=True), whole)  # what is finished stays finished


@pytest.mark.parametrize("way", ["minibatches", "streamed", "iterated"])
def test_an_epoch_can_be_broken_off_in_its_middle(way, tmp_path, monkeypatch):
    monkeypatch.setattr(minibatches, "_SEGMENT_STEPS", 1)
    monkeypatch.setattr(minibatches, "_SEGMENT_BYTES", 1)
    path, whole, step = tmp_path / "run.safetensors", run(way), epochs.MinibatchJob.advance
    for after in (3, 4):
        calls = iter(range(after))

        def broken(*arguments, calls=calls):
            if next(calls, None) is None:
                raise KeyboardInterrupt
            return step(*arguments)

        monkeypatch.setattr(epochs.MinibatchJob, "advance", broken)
        assert run(way, checkpoint=path, checkpoint_seconds=1000, resume=True).interrupted
    monkeypatch.setattr(epochs.MinibatchJob, "advance", step)
    assert_same(run(way, checkpoint=path, resume=True), whole)


def test_more_steps_go_on_from_where_the_first_ended(tmp_path):
    path = tmp_path / "run.safetensors"
    run("adam", checkpoint=path, steps=50)
    assert_same(run("adam", checkpoint=path, resume=True), run("adam"))


def test_stored_evaluations_are_not_computed_again(tmp_path, monkeypatch):
    path, whole = tmp_path / "run.safetensors", run("lbfgs")
    run("lbfgs", checkpoint=path)
    monkeypatch.setattr("tightgp.training.objective.Objective.advance", lambda *_: pytest.fail("evaluated"))
    assert_same(run("lbfgs", checkpoint=path, resume=True), whole)


def test_a_memory_of_another_machine_goes_on_as_large_as_it_was(tmp_path, monkeypatch):
    path, whole = tmp_path / "run.safetensors", run("lbfgs", restarts=0)
    run("lbfgs", checkpoint=path, steps=5, restarts=0)
    monkeypatch.setattr(lbfgs, "_LEAST", 1)
    monkeypatch.setattr(lbfgs, "_MOST", 1)
    assert run("lbfgs", restarts=0).objective != whole.objective
    assert_same(run("lbfgs", checkpoint=path, resume=True, restarts=0), whole)


def test_a_checkpoint_of_another_version_is_refused(tmp_path):
    path = tmp_path / "run.safetensors"
    run("lbfgs", checkpoint=path)
    stored = modelfile.read(path, "checkpoint")
    stored["sections"] = {name: {"points": np.zeros(3), "values": np.zeros(3)} for name in stored["sections"]}
    modelfile.write(stored, path, "checkpoint")
    with pytest.raises(ValueError, match="of another version of tightgp; remove it to start anew"):
        run("lbfgs", checkpoint=path, resume=True)


def test_a_checkpoint_of_something_else_is_refused(tmp_path):
    path = tmp_path / "run.safetensors"
    run("adam", checkpoint=path, steps=50)
    with pytest.raises(ValueError, match="is there already; pass resume=True"):
        run("adam", checkpoint=path)
    with pytest.raises(ValueError, match=r"learning_rate=0.01 \(now 0.1\)"):
        run("adam", checkpoint=path, resume=True, learning_rate=0.1)
    with pytest.raises(ValueError, match="other model"):
        tgp.fit(tgp.assign(collapsed(), {"noise_variance": 0.2}), problem()[0], "adam", checkpoint=path, resume=True)
    with pytest.raises(ValueError, match="other data"):
        tgp.fit(collapsed(), HELD_OUT, "adam", checkpoint=path, resume=True)
    run("minibatches", checkpoint=tmp_path / "batches", epochs=1)
    with pytest.raises(ValueError, match="source='Resident'"):
        run("minibatches", checkpoint=tmp_path / "batches", resume=True, stream=True)
    with pytest.raises(ValueError, match="validation="):
        run("minibatches", checkpoint=tmp_path / "batches", resume=True, validation=problem()[0])
    with pytest.raises(ValueError, match="learning_rate="):
        run("minibatches", checkpoint=tmp_path / "batches", resume=True, learning_rate=lambda step: 0.5 + 0 * step)
    with pytest.raises(modelfile.ModelFileError, match="is a 'checkpoint' file"):
        modelfile.load(path)
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(modelfile.ModelFileError, match="only a part of one"):
        run("adam", checkpoint=path, resume=True)


def test_a_place_that_cannot_be_written_is_told_before_anything_is_computed(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("tightgp.training.objective.Objective.advance", lambda *_: pytest.fail("evaluated"))
    with pytest.raises(OSError, match="file"):
        run("lbfgs", checkpoint=tmp_path / "file" / "run.safetensors")


CHILD = """
import sys
from tests.training.test_checkpoint import run

def step(number, row):
    print("step", flush=True)

for way in ("minibatches", "natural", "lbfgs"):
    result = run(way, checkpoint=f"{sys.argv[1]}/{way}.safetensors", checkpoint_seconds=0, resume=True, callback=step)
    print("result", way, result.objective.hex(), result.model.kernel.lengthscale.tolist(), flush=True)
"""


def test_a_killed_process_resumes_to_the_same_numbers(tmp_path):
    """SIGKILL, several times, at moments that nothing is prepared for."""
    environment = processes.environment(JAX_COMPILATION_CACHE_DIR=tmp_path / "compiled")

    def child(folder):
        command = [sys.executable, "-c", CHILD, str(folder)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)

    def finish(folder):
        out, _ = child(folder).communicate()
        return [line for line in out.splitlines() if line.startswith("result")]

    expected = finish(tmp_path / "whole")
    assert len(expected) == 3
    chance, killed = random.Random(0), 0
    for lines_before in (2, 2, 5, 12):
        process = child(tmp_path / "killed")
        for _ in range(lines_before):
            process.stdout.readline()
        time.sleep(chance.uniform(0, 0.02))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        killed += process.returncode == -signal.SIGKILL
    assert killed == 4
    assert finish(tmp_path / "killed") == expected
