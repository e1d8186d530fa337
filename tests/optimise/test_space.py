import numpy as np
import pytest

from tightgp.optimise import Integer, Real
from tightgp.optimise.space import Space


def test_points_go_to_the_unit_cube_and_back():
    space = Space([(-5, 10), Real(1e-4, 1.0, log=True), Integer(2, 5)])
    X = np.array([[-5.0, 1e-4, 2], [10.0, 1.0, 5], [0.0, 0.01, 3]])
    U = space.to_unit(X)
    np.testing.assert_allclose(space.from_unit(U), X)
    np.testing.assert_allclose(U[2], [1 / 3, 0.5, 0.375])
    assert set(space.from_unit(np.random.default_rng(0).uniform(size=(200, 3)))[:, 2]) == {2, 3, 4, 5}
    assert set(space.from_unit(np.array([[0.0] * 3, [1.0] * 3]))[:, 2]) == {2, 5}
    np.testing.assert_allclose(space.rounded(np.array([[0.1, 0.2, 0.4]]))[0], [0.1, 0.2, 0.375])


def test_rounding_does_not_leave_the_space():
    one = Real(-0.1, 0.2)
    assert one.low + (one.high - one.low) > one.high
    assert one.from_unit(np.array([1.0]))[0] == one.high


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ([], "bounds must be a list"),
        ([(0, 1, 2)], r"bounds\[0\] must be a pair"),
        ([(1, 1)], "low must be less than high"),
        ([(0, np.inf)], "high must be one finite number"),
    ],
)
def test_bad_bounds_are_named(bounds, message):
    with pytest.raises(ValueError, match=message):
        Space(bounds)


def test_bad_intervals_and_points_are_named():
    with pytest.raises(ValueError, match="low must be positive"):
        Real(0.0, 1.0, log=True)
    with pytest.raises(ValueError, match="whole number"):
        Integer(0, 1.5)
    space = Space([(0, 1), Integer(0, 3)])
    with pytest.raises(ValueError, match=r"x\[0\] must lie in Real"):
        space.checked([2.0, 1])
    with pytest.raises(ValueError, match=r"x\[1\] must be a whole number"):
        space.checked([0.5, 1.5])
    with pytest.raises(ValueError, match="x must have 2 numbers"):
        space.checked([0.5])
