"""Forked processes, which have none of JAX's threads."""

import os
import time
import warnings

import numpy as np
import pytest

import tightgp as tgp
from tightgp.forking import ForkedProcessError


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_is_told_so_at_once():
    posterior = tgp.SGPR(tgp.kernels.Matern32(), np.zeros((1, 1))).posterior(tgp.Dataset([[0.0]], [1.0]))
    posterior.predict_f(np.zeros((1, 1)))
    for use in (lambda: posterior.predict_f(np.zeros((1, 1))), lambda: tgp.Dataset([[0.0]], [1.0])):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # JAX warns of what we test
            child = os.fork()
        if not child:
            try:
                use()
                os._exit(1)
            except ForkedProcessError as error:
                os._exit(7 if "spawn" in str(error) else 2)
            finally:
                os._exit(3)
        assert _exit_code(child) == 7
        use()  # the parent goes on


def _exit_code(child: int) -> int:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    pytest.fail("the forked process hangs")
