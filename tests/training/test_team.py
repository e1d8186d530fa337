"""Training by several processes, as far as one process shows it; `tests/test_distributed.py` starts several."""

import os
import signal

import pytest

import tightgp as tgp
from tests.training.problems import assert_same, sgpr, svgp
from tightgp import distributed
from tightgp.data.placement import OnDevices, device_mesh, on_device, to_devices
from tightgp.progress import ProgressBar
from tightgp.training import team
from tightgp.training.checkpoint import Checkpoint
from tightgp.training.full_batch import FirstOrderJob, LBFGSJob
from tightgp.training.run import Progress, run

LBFGS = LBFGSJob(3, 1e-9)


def test_what_several_processes_cannot_train_is_refused(snelson_like):
    one_device = on_device(snelson_like.rows())
    mesh = device_mesh()
    several = OnDevices(to_devices(snelson_like.rows(), mesh), mesh)
    model = sgpr(snelson_like)
    team.check(model, snelson_like, several, LBFGS, 0, 0)
    for arguments, message in (
        ((svgp(snelson_like), several, LBFGS, 0, 0), "several processes train SGPR together, not SVGP"),
        ((model, one_device, LBFGS, 0, 0), "several processes train SGPR together"),
        ((model, several, FirstOrderJob(None, 3, 1e-9), 0, 0), "by method='lbfgs' alone"),
        ((model, several, LBFGS, 1, 0), "restarts must be 0"),
        ((model, several, LBFGS, 0, 1), "refresh must be 0"),
    ):
        with pytest.raises(ValueError, match=message):
            team.check(arguments[0], snelson_like, *arguments[1:])


def shared_by_one_process(data):
    return team.SharedObjective(*sgpr(data).prepare(data))


def test_the_leader_shares_its_result_with_all(snelson_like):
    result = tgp.fit(sgpr(snelson_like), snelson_like, steps=5, progress=False)
    shared = team.together(shared_by_one_process(snelson_like), lambda: result, None)
    assert_same(shared, result)
    assert (shared.seconds, shared.steps, shared.rejected) == (result.seconds, result.steps, result.rejected)


def test_evaluations_of_all_delay_ctrl_c_until_they_are_done(snelson_like, monkeypatch):
    data, run_together, calls = snelson_like, distributed.run_together, []

    def interrupted(*arguments):
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        found = run_together(*arguments)
        calls.append(found)
        return found

    monkeypatch.setattr(distributed, "run_together", interrupted)
    shared, job = shared_by_one_process(data), LBFGSJob(20, 1e-9)
    progress = Progress(shared.start)
    with ProgressBar(20, False, "test") as bar:
        run(job, shared, progress, bar, lambda step, row: False, Checkpoint(), "0")
    assert progress.reason is tgp.StopReason.INTERRUPTED
    assert len(calls) == 4  # the interrupted evaluation was finished
    assert progress.trace.arrays()["objective"][0] == pytest.approx(float(sgpr(data).elbo(data)), rel=1e-12)


def test_a_lost_process_names_the_checkpoint_to_resume_from(snelson_like):
    def lose():
        raise distributed.LostProcess("lost process 1")

    shared = shared_by_one_process(snelson_like)
    with pytest.raises(distributed.LostProcess, match="lost process 1; run_ckpt keeps where training stood: start all"):
        team.together(shared, lose, "run_ckpt")
    with pytest.raises(distributed.LostProcess, match=r"lost process 1$"):
        team.together(shared, lose, None)
