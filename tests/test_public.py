"""The public contract: names, switches, and the ten lines of the README."""

import subprocess
import sys
from pathlib import Path

import tightgp as tgp

ROOT = Path(__file__).parents[1]


def test_public_names_exist_and_are_few():
    assert len(tgp.__all__) <= 48
    assert all(hasattr(tgp, name) for name in tgp.__all__)


def run(code, where=None, **env):
    import os

    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **env}, cwd=where)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_double_precision_is_switched_on_by_the_import_unless_asked_not_to():
    code = "import tightgp, jax.numpy as jnp; print(jnp.zeros(1).dtype)"
    assert run(code) == "float64"
    assert run(code, TIGHTGP_X64="0") == "float32"


def test_works_without_64_bit():
    code = """
import numpy as np, tightgp as tgp
X = np.linspace(0, 6, 50)[:, None]
data = tgp.Dataset(X, np.sin(X[:, 0]))
result = tgp.fit(tgp.SGPR(tgp.kernels.Matern52(), X[::5], 0.1), data, steps=20, progress=False)
print(result.model.Z.dtype, np.isfinite(result.objective))
"""
    assert run(code, TIGHTGP_X64="0") == "float32 True"
