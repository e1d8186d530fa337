import gc
import os
import signal
from pathlib import Path

import jax
import numpy as np
import pytest
from hypothesis import settings

import tightgp as tgp

# The same examples at every run, so that a failure is the work of a change; --hypothesis-profile=search draws others.
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("search", derandomize=False, deadline=None)
settings.load_profile("same")

# What a shell runs in the background ignores Ctrl-C, and so would the tests of it and the processes they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Tracing makes many objects that live as long as their program: to look through them all, time and again, finds none.
gc.set_threshold(200_000, 20, 50)

# Where in the code every operation of a program came from is worked out anew for each of them, and no test reads it.
jax.config.update("jax_traceback_in_locations_limit", 0)

# Tests compile everything themselves, and leave the user's cache of compiled programs alone.
os.environ["TIGHTGP_COMPILATION_CACHE"] = "0"

#: The files that take longest go first, so that at the end no process is left alone with one of them.
LONG = (
    "test_laws.py",
    "test_sklearn_checks.py",
    "test_regression.py",
    "test_base.py",
    "test_placement.py",
    "test_comparing.py",
    "test_reproduction.py",
    "test_statistics.py",
    "test_structures.py",
    "test_variants.py",
    "test_svgp.py",
    "test_variational.py",
    "test_gplvm.py",
    "test_deep.py",
    "test_uncertain.py",
    "test_local.py",
    "test_checkpoint.py",
    "test_fitting.py",
    "test_epochs.py",
    "test_minibatches.py",
    "test_rounds.py",
    "test_first_order.py",
    "test_estimators.py",
    "test_distributed.py",
    "test_growth.py",
    "test_public.py",
    "test_modelfile.py",
)


#: Files that take more than five seconds, which ``make test-quick`` leaves out.
SLOW = set((Path(__file__).parent / "slow.txt").read_text(encoding="utf-8").split())


def pytest_collection_modifyitems(config, items):
    items.sort(key=lambda item: LONG.index(item.path.name) if item.path.name in LONG else len(LONG))
    for item in items:
        if item.path.relative_to(config.rootpath).as_posix() in SLOW:
            item.add_marker(pytest.mark.slow)


#: Folders whose files may use each other's compiled programs. Elsewhere tests count programs, or compile them under
#: other constants, and a file starts and ends without any.
SHARED = {"app", "estimators", "experiments", "exporting", "io", "optimise"}

#: Where Linux lists a process's memory maps; every compiled program holds some, and there may be 65 530 in all.
MAPS, MOST_MAPS = Path("/proc/self/maps"), 30_000


@pytest.fixture(autouse=True, scope="module")
def programs_of_few_files(request):
    """Let go of compiled programs that must not be used again, and of all before they hold too many memory maps."""
    shared = request.path.relative_to(Path(__file__).parent).parts[0] in SHARED
    if not shared:
        jax.clear_caches()
    yield
    if not shared or not MAPS.exists() or len(MAPS.read_bytes().splitlines()) > MOST_MAPS:
        jax.clear_caches()
        gc.collect()


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def problem(rng):
    """A small regression problem: data, inducing inputs, kernel."""
    X = rng.normal(size=(37, 2))
    y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=37)
    kernel = tgp.kernels.SquaredExponential(1.3, [0.8, 1.7])
    return tgp.Dataset(X, y), X[:6].copy(), kernel
