"""jaxlib's batched LAPACK calls wait for the thread pool that they run on: this script never ends.

``python lapack_deadlock.py program`` runs one program with two stacks, ``... threads`` one stack from two threads.
"""

import faulthandler
import os
import sys
import threading

os.environ["NPROC"] = os.environ.get("NPROC", "2")  # a pool of two threads, on any machine

import jax
import jax.numpy as jnp


def factor(a):
    """The work before the factorisation moves the program to a thread of the pool."""
    for _ in range(3):
        a = jnp.sin(jnp.linalg.cholesky(a @ a.mT + 2 * jnp.eye(64)))
    return a


stacks = jnp.ones((2, 256, 64, 64)) * jnp.arange(64) / 64
both = jax.jit(lambda stacks: (factor(stacks[0]), factor(stacks[1])))
one = jax.jit(factor)


def repeat(function, argument):
    """Run a program many times."""
    for _ in range(200):
        jax.block_until_ready(function(argument))


faulthandler.dump_traceback_later(30, exit=True)
if sys.argv[1:] == ["program"]:
    repeat(both, stacks)
else:
    threads = [threading.Thread(target=repeat, args=(one, stack)) for stack in stacks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print("no deadlock")
