import jax
import pytest


@pytest.fixture(autouse=True, scope="package")
def quick_compilation():
    """Arrays are small here: compiling takes most of the time."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
