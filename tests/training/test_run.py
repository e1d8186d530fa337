"""The loop that advances a job: its end, the callback, Ctrl-C, and checkpoints."""

import jax.numpy as jnp
import numpy as np
import pytest

import tightgp as tgp
from tests.training.problems import Cliff
from tightgp.progress import ProgressBar
from tightgp.training.checkpoint import Checkpoint
from tightgp.training.objective import Objective
from tightgp.training.run import Job, Progress, run

ORIGIN = {"model": "a", "data": "b", "settings": {}}


class Counting(Job):
    """Each step has two halves, of which the second is reported; Ctrl-C comes in a given half."""

    length = 4

    def __init__(self, interrupt_at: int = 100):
        self._halves, self._interrupt_at, self.closed = 0, interrupt_at, False

    def begin(self, objective, progress):
        progress.state, progress.numbers = jnp.zeros(2), {"half": False}

    def outcome(self, progress):
        return (tgp.StopReason.STEP_LIMIT, "all steps") if progress.steps >= self.length else None

    def advance(self, objective, progress):
        self._halves += 1
        if self._halves == self._interrupt_at:
            raise KeyboardInterrupt
        progress.numbers["half"] = not progress.numbers["half"]
        progress.state = progress.state + 1
        if progress.numbers["half"]:
            return None
        progress.steps += 1
        progress.objective = float(progress.steps)
        progress.trace.add({"objective": progress.objective})
        return {"objective": progress.objective}

    def close(self):
        self.closed = True


def run_job(job, callback=lambda step, row: False, checkpoint=None):
    objective = Objective(*Cliff(tgp.parameters.real(0.0)).prepare(None))
    progress = Progress(objective.start)
    with ProgressBar(job.length, False, "test") as bar:
        run(job, objective, progress, bar, callback, checkpoint or Checkpoint(), "0")
    assert job.closed
    return progress


def test_a_job_runs_to_its_end_and_completed_steps_are_reported():
    seen = []
    progress = run_job(Counting(), lambda step, row: seen.append((step, row["objective"])))
    assert seen == [(1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0)]
    assert (progress.reason, progress.message) == (tgp.StopReason.STEP_LIMIT, "all steps")
    assert not progress.reason.by_user


def test_a_callback_that_returns_true_ends_the_run():
    progress = run_job(Counting(), lambda step, row: step == 2)
    assert progress.reason is tgp.StopReason.CALLBACK
    assert (progress.steps, progress.reason.by_user) == (2, True)


@pytest.mark.parametrize("interrupt_at", [1, 4, 5])
def test_an_interrupted_run_goes_on_from_its_checkpoint(interrupt_at, tmp_path):
    path = tmp_path / "run.safetensors"
    progress = run_job(Counting(interrupt_at), checkpoint=Checkpoint(path, 1000.0, origin=ORIGIN))
    assert progress.reason is tgp.StopReason.INTERRUPTED
    assert progress.steps == (interrupt_at - 1) // 2
    again = Checkpoint(path, 1000.0, resume=True, origin=ORIGIN)
    whole, resumed = run_job(Counting()), run_job(Counting(), checkpoint=again)
    assert (resumed.steps, resumed.objective, resumed.numbers) == (whole.steps, whole.objective, whole.numbers)
    np.testing.assert_array_equal(resumed.state, whole.state)
    np.testing.assert_array_equal(resumed.trace.arrays()["objective"], whole.trace.arrays()["objective"])


def test_a_snapshot_is_of_its_moment():
    progress = Progress(jnp.zeros(1))
    progress.state = jnp.ones(1)
    progress.trace.add({"objective": 1.0})
    snapshot = progress.snapshot()
    progress.trace.add({"objective": 2.0})
    progress.state, progress.numbers["late"] = jnp.zeros(1), 1
    other = Progress(jnp.zeros(1))
    other.state = jnp.zeros(1)
    other.restore(snapshot())
    np.testing.assert_array_equal(other.state, [1.0])
    np.testing.assert_array_equal(other.trace.arrays()["objective"], [1.0])
    assert other.numbers == {}


@pytest.mark.parametrize("stored", [{}, {"state": [np.zeros((2, 2))], "best": [np.zeros(1)]}])
def test_a_state_of_another_structure_is_refused(stored):
    progress = Progress(jnp.zeros(1))
    progress.state = jnp.zeros(2)
    with pytest.raises(ValueError, match="of another version of tightgp"):
        progress.restore(stored)
