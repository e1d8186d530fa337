"""The objective as optimisers see it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tightgp as tgp
from tests.training.problems import Cliff
from tightgp.training.objective import Objective, Scalars, choose, evaluate


def cliff(x):
    return Objective(*Cliff(tgp.parameters.real(x)).prepare(None))


def test_evaluation_has_value_gradient_and_norm():
    objective = cliff(1.0)
    found = evaluate(objective.start, objective.fixed, objective.rows)
    assert float(found.value) == -4.0
    np.testing.assert_allclose(jax.tree.leaves(found.gradient), [4.0])
    assert float(found.followed["gradient_norm"]) == 4.0
    assert bool(found.finite)
    beyond = cliff(2.7)
    assert not bool(evaluate(beyond.start, beyond.fixed, beyond.rows).finite)


def test_vectors_stand_for_points():
    objective = cliff(1.0)
    x = objective.to_vector(objective.start)
    assert float(objective.model(objective.from_vector(x)).x.value) == 1.0
    found = objective.at_vector(x)
    step = 1e-6
    slope = (objective.at_vector(x + step).value - objective.at_vector(x - step).value) / (2 * step)
    np.testing.assert_allclose(found.gradient, [slope], rtol=1e-8)


def test_objectives_that_differ_in_numbers_share_a_program():
    traced = []

    def value(parts, shift):
        traced.append(shift)
        return evaluate(parts.start, parts.fixed, parts.rows).value + shift

    one, other = (cliff(x).program(value) for x in (1.0, 2.0))
    assert [float(one(0.5)), float(other(0.5)), float(other(1.5))] == [-3.5, -0.5, 0.5]
    assert len(traced) == 1


def test_a_model_without_trained_parameters_is_refused():
    with pytest.raises(ValueError, match="every one is frozen"):
        Objective(*Cliff(tgp.parameters.real(0.0, frozen=True)).prepare(None))


def test_scalars_are_read_under_their_names():
    scalars = jax.jit(lambda x: Scalars.of({"objective": x, "finite": x > 0, "steps": 3}))(jnp.asarray(2.5))
    assert scalars.read() == {"objective": 2.5, "finite": 1.0, "steps": 3.0}


@pytest.mark.parametrize("flag", [True, False])
def test_choose_takes_one_of_two_trees(flag):
    chosen = jax.jit(choose)(flag, {"a": jnp.ones(2), "b": 1}, {"a": jnp.zeros(2), "b": 0})
    assert jax.tree.map(lambda leaf: bool(np.all(leaf == flag)), chosen) == {"a": True, "b": True}
