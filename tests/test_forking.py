"""Forked processes, which have none of JAX's threads."""

import os
import subprocess
import sys

import pytest

FORKS = """
import os, time, warnings
import numpy as np
import tightgp as tgp
from tightgp.forking import ForkedProcessError
from tightgp.io.program import Description

posterior = tgp.SGPR(tgp.kernels.Matern32(), np.zeros((1, 1))).posterior(tgp.Dataset([[0.0]], [1.0]))
posterior.predict_f(np.zeros((1, 1)))
priors = {"*": tgp.priors.LogNormal(0.0, 1.0)}
density = tgp.log_density(tgp.with_priors(tgp.ExactGP(tgp.kernels.Matern32()), priors), tgp.Dataset([[0.0]], [1.0]))
program = tgp.Program(Description(("x",), ("mean",), "float64", 8), lambda rows: (np.asarray(rows)[:, 0],))
warnings.simplefilter("ignore")  # JAX warns of what we test
for use in (
    lambda: posterior.predict_f(np.zeros((1, 1))),
    lambda: tgp.Dataset([[0.0]], [1.0]),
    lambda: density(density.start),
    lambda: program(np.zeros((1, 1))),
):
    child = os.fork()
    if not child:
        try:
            use()
            os._exit(1)
        except ForkedProcessError as error:
            os._exit(7 if "spawn" in str(error) else 2)
        finally:
            os._exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    use()  # the parent goes on
print("told")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_is_told_so_at_once():
    """In a process of its own: that of the tests may be too large to be copied."""
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=120)
    assert done.stdout == "told\n", done.stderr
