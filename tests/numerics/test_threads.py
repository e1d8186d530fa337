"""One thread for BLAS: the limit is the whole process's, and those who hold it come and go in any order."""

import os
import subprocess
import sys
from contextlib import nullcontext

import pytest

from tightgp.numerics import threads
from tightgp.numerics.device import on_cpu
from tightgp.numerics.threads import one_blas_thread
from tightgp.posterior.paths import Paths
from tightgp.posterior.posterior import Posterior

pytestmark = pytest.mark.skipif(not on_cpu(), reason="other devices leave BLAS alone")


def blas_threads():
    return {one["num_threads"] for one in threads._controller().info() if one["user_api"] == "blas"}


@pytest.fixture
def two():
    """Two threads for BLAS, where it may have them; the limit is restored."""
    with threads._controller().limit(limits=2, user_api="blas"):
        if blas_threads() != {2}:
            pytest.skip("this BLAS has no second thread")
        yield


def test_users_that_overlap_leave_the_limit_as_it_was(two):
    first, second = one_blas_thread(), one_blas_thread()
    first.__enter__()
    assert blas_threads() == {1}
    second.__enter__()
    first.__exit__(None, None, None)
    assert blas_threads() == {1}  # the second is inside
    second.__exit__(None, None, None)
    assert blas_threads() == {2}


def test_it_may_be_entered_again_and_left_by_errors(two):
    with one_blas_thread():
        with pytest.raises(KeyError), one_blas_thread():
            raise KeyError
        assert blas_threads() == {1}
    assert blas_threads() == {2}


FORK = """
import os
from tightgp.numerics import threads
child = os.fork()
if not child:
    os._exit(int(not threads._limit.lock.acquire(timeout=5)))
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert not threads._limit.lock.locked()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_fork_leaves_the_lock_free():
    """In a process of its own, which has no other threads."""
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("method", [Posterior.condition, Paths.__call__])
def test_new_rows_and_paths_are_computed_with_one_thread(monkeypatch, method):
    held = []
    monkeypatch.setattr(threads, "one_blas_thread", lambda: nullcontext(held.append("held")))
    with pytest.raises((TypeError, AttributeError)):
        method(None)  # what is held does not depend on what is computed
    assert held == ["held"]
