"""XLA flags under which the tests compile fast, as far as this JAX knows them: one that it does not know ends it.

Most of a test's time is compilation, much of it what LLVM spends on making small programs fast; and threads within a
program gain nothing where two processes have two cores.
"""

import os
import subprocess
import sys

FLAGS = (
    "--xla_backend_optimization_level=0",
    "--xla_cpu_multi_thread_eigen=false",
    "--xla_cpu_use_fusion_emitters=false",
    "--xla_cpu_parallel_codegen_split_count=1",
    "--xla_llvm_disable_expensive_passes=true",
    "--xla_cpu_enable_concurrency_optimized_scheduler=false",
)


def known(flags: tuple[str, ...]) -> bool:
    """Whether JAX starts with these flags."""
    code = "import jax; jax.devices()"
    there = os.environ | {"XLA_FLAGS": " ".join(flags), "JAX_PLATFORMS": "cpu"}
    return subprocess.run([sys.executable, "-c", code], env=there, capture_output=True, check=False).returncode == 0


def accepted() -> tuple[str, ...]:
    """All of them, mostly; otherwise those that are known one by one."""
    return FLAGS if known(FLAGS) else tuple(flag for flag in FLAGS if known((flag,)))


if __name__ == "__main__":
    print(*accepted())
