import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.likelihoods.cases import CASES, each_likelihood
from tightgp import likelihoods as L


@each_likelihood()
def test_valid_targets_are_accepted(case):
    lik = case.build()
    y = np.array([*case.valid, np.nan, lik.filler])[:, None]
    for array in (y, y.astype(np.float32), jnp.asarray(y)):
        lik.check_targets(array)
    jax.jit(lambda y: lik.check_targets(y))(y)


@each_likelihood()
def test_invalid_targets_are_refused(case):
    lik = case.build()
    for value in case.invalid:
        y = np.array([case.valid[0], np.nan, value, case.valid[1]])[:, None]
        with pytest.raises(ValueError, match=f"{case.message}.* for {type(lik).__name__}: row 2 is {value}$"):
            lik.check_targets(y)
    with pytest.raises(ValueError, match=r"7 such rows: 0, 1, 2, 3, 4, \.\.\."):
        lik.check_targets(np.full((7, 1), case.invalid[0]))


@each_likelihood(but=[name for name, case in CASES.items() if case.build().num_latents is None])
def test_likelihoods_with_several_latents_need_one_column_of_targets(case):
    with pytest.raises(ValueError, match="y must have one column"):
        case.build().check_targets(np.ones((3, 2)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: L.Gaussian(-1.0), "noise_variance must be above its floor"),
        (lambda: L.Gaussian(np.ones((2, 2))), r"noise_variance must be one number or have shape \(P,\)"),
        (lambda: L.LogNormal(np.nan), "noise_variance must be above its floor 1e-06 and finite"),
        (lambda: L.Gamma(0.0), "shape must be above its floor"),
        (lambda: L.Gamma("round"), "shape must be an array of numbers"),
        (lambda: L.NegativeBinomial(0.0), "dispersion must be above its floor"),
        (lambda: L.Binomial(0), "num_trials must be a whole number of at least 1"),
        (lambda: L.Binomial(2.5), "num_trials must be a whole number"),
        (lambda: L.Binomial(3, "log"), "link must be one of 'probit', 'logit'"),
        (lambda: L.Bernoulli("cauchy"), "link must be one of 'probit', 'logit'; got 'cauchy'"),
        (lambda: L.StudentT(df=0.0), "df must be above its floor"),
        (lambda: L.StudentT(df=[3.0, 4.0]), "df must be one number"),
        (lambda: L.StudentT(scale=-1.0), "scale must be above its floor"),
        (lambda: L.Beta(0.0), "precision must be above its floor"),
        (lambda: L.Ordinal(), "needs num_levels or edges"),
        (lambda: L.Ordinal(2), "num_levels must be a whole number of at least 3, got 2; for two levels use Bernoulli"),
        (lambda: L.Ordinal(3.5), "num_levels must be a whole number"),
        (lambda: L.Ordinal(4, edges=[0.0, 1.0]), "2 edges make 3 levels, but num_levels is 4"),
        (lambda: L.Ordinal(edges=[0.0]), "edges must be 2 or more numbers"),
        (lambda: L.Ordinal(edges=[0.0, 1.0, 1.0]), "gaps between edges must be above"),
        (lambda: L.Ordinal(edges=[0.0, np.nan]), "gaps between edges must be .* finite"),
        (lambda: L.Ordinal(edges=[0.0, np.inf]), "edges must be .* finite"),
        (lambda: L.Ordinal(edges=["a", "b"]), "edges must be an array of numbers"),
        (lambda: L.Ordinal(3, scale=0.0), "scale must be above its floor"),
        (lambda: L.Softmax(1), "num_classes must be a whole number of at least 2, got 1"),
        (lambda: L.Softmax(2.0), "num_classes must be a whole number"),
        (lambda: L.RobustMax(1), "num_classes must be a whole number of at least 2"),
        (lambda: L.RobustMax(3, 0.0), "epsilon must be above 0 and below 1, got 0.0"),
        (lambda: L.RobustMax(3, 1.0), "epsilon must be above 0 and below 1"),
        (lambda: L.RobustMax(3, "few"), "epsilon must be one finite number"),
    ],
)
def test_invalid_arguments_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_repr_lists_the_parameters():
    text = repr(L.StudentT(3.0, 0.5))
    assert text.splitlines()[0] == "StudentT"
    for part in ("df", "3", "no", "scale", "0.5", "yes"):
        assert part in text
