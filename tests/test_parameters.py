import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

import tightgp as tgp
from tightgp import kernels as K
from tightgp import parameters, priors

many_examples = settings(max_examples=80, deadline=None, derandomize=True)
exponents = st.lists(st.floats(-10, 10), min_size=1, max_size=2)
floors = st.sampled_from([0.0, 1e-6, 0.1])
NAMES = [
    "kernel.parts[0].variance",
    "kernel.parts[0].lengthscale",
    "kernel.parts[1].parts[0].variance",
    "kernel.parts[1].parts[1].variance",
    "kernel.parts[1].parts[1].offset",
    "mean.level",
    "Z",
    "noise_variance",
]


@pytest.fixture
def composite():
    kernel = K.SquaredExponential(1.3, [0.5, 2.0]) + 0.7 * K.Polynomial(2, 0.2, 0.9)
    return tgp.SGPR(kernel, np.arange(8.0).reshape(4, 2), 0.1, mean=tgp.means.Constant(-1.0))


@pytest.fixture
def model():
    return tgp.SGPR(K.SquaredExponential(1.3, [0.5, 2.0]), np.arange(8.0).reshape(4, 2), 0.1)


def values(module):
    return {name: np.asarray(p.value) for name, p in tgp.named_parameters(module).items()}


def frozen(module):
    return {name for name, p in tgp.named_parameters(module).items() if p.frozen}


# Transforms


@many_examples
@given(exponents, floors, st.booleans())
def test_positive_round_trip(exponents, floor, squared):
    value = floor + 10.0 ** np.array(exponents)
    got = parameters.positive(value, floor=floor, squared=squared).value
    np.testing.assert_allclose(got, value, rtol=1e-12)


@many_examples
@given(st.lists(st.floats(-60, 60), min_size=1, max_size=2), st.booleans())
def test_unconstrained_round_trip(raw, squared):
    transform = parameters.Positive(0.0, squared)
    got = transform.inverse(transform.forward(jnp.asarray(raw)))
    np.testing.assert_allclose(got, raw, rtol=1e-9, atol=1e-9)


@many_examples
@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=2))
def test_real_round_trip(value):
    np.testing.assert_array_equal(parameters.real(value).value, value)


@pytest.mark.parametrize(("squared", "expected"), [(False, np.log1p(np.e)), (True, np.log1p(np.e) ** 2)])
def test_positive_is_softplus_plus_floor(squared, expected):
    got = parameters.Positive(0.25, squared).forward(jnp.asarray(1.0))
    assert float(got) == pytest.approx(0.25 + expected, rel=1e-12)


@pytest.mark.parametrize("squared", [False, True])
def test_float32_round_trip(squared):
    value = np.array([1e-5, 0.3, 7.0, 1e5], np.float32)
    parameter = parameters.positive(value, floor=1e-6, squared=squared)
    assert parameter.value.dtype == jnp.float32
    np.testing.assert_allclose(parameter.value, value, rtol=2e-6)


@pytest.mark.parametrize("raw", [-1e3, -1e8])
def test_values_stay_at_their_floors_for_very_negative_arrays(model, raw):
    low = eqx.tree_at(
        lambda m: (m._noise_variance.raw, m.kernel._lengthscale.raw, m.kernel._variance.raw),
        model,
        (jnp.asarray(raw), jnp.full(2, raw), jnp.asarray(raw)),
    )
    assert float(low.noise_variance) == parameters.FLOOR
    np.testing.assert_array_equal(low.kernel.lengthscale, [parameters.FLOOR] * 2)
    assert float(low.kernel.variance) == 0.0
    slope = jax.grad(low._noise_variance.transform.forward)(low._noise_variance.raw)
    assert float(slope) == 0.0


def test_existing_parameters_pass_through():
    parameter = parameters.positive(0.5, floor=0.1, frozen=True, prior=priors.Gamma(2.0, 1.0))
    kernel = K.SquaredExponential(parameter)
    assert tgp.named_parameters(kernel)["variance"] is parameter
    assert parameters.real(parameter) is parameter
    assert frozen(kernel) == {"variance"}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: parameters.positive(0.0, name="rate"), "rate must be positive and finite, got 0"),
        (lambda: parameters.positive(-1.0), "value must be positive"),
        (lambda: parameters.positive([1.0, np.nan], name="rate"), "rate must be positive and finite"),
        (lambda: parameters.positive([], name="rate"), "rate must be positive"),
        (lambda: parameters.positive(0.1, name="rate", floor=0.1), "rate must be above its floor 0.1"),
        (lambda: parameters.positive("a", name="rate"), "rate must be an array of numbers"),
        (lambda: parameters.real(np.inf, name="level"), "level has NaN or infinite values"),
        (lambda: parameters.real({}, name="level"), "level must be an array of numbers"),
    ],
)
def test_invalid_values_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# Values and names


def test_attributes_are_the_values_passed():
    kernel = K.RationalQuadratic(1.3, [0.5, 2.0], 0.7)
    assert float(kernel.variance) == pytest.approx(1.3, rel=1e-12)
    np.testing.assert_allclose(kernel.lengthscale, [0.5, 2.0], rtol=1e-12)
    assert float(kernel.alpha) == pytest.approx(0.7, rel=1e-12)
    periodic, polynomial = K.Periodic(1.3, 0.5, 4.0), K.Polynomial(3, [0.1, 0.2], 1e-9)
    assert float(periodic.period) == pytest.approx(4.0, rel=1e-12)
    np.testing.assert_allclose(polynomial.variance, [0.1, 0.2], rtol=1e-12)
    assert float(polynomial.offset) == pytest.approx(1e-9, rel=1e-12)
    for cls in (K.Linear, K.Constant, K.White):
        assert float(cls(1e4).variance) == pytest.approx(1e4, rel=1e-12)


def test_attributes_of_a_model(model):
    np.testing.assert_array_equal(model.Z, np.arange(8.0).reshape(4, 2))
    assert float(model.noise_variance) == pytest.approx(0.1, rel=1e-12)


def test_values_are_read_only():
    with pytest.raises(AttributeError):
        K.Linear().variance = 2.0


def test_names_of_a_composite_kernel(composite):
    assert list(tgp.named_parameters(composite)) == NAMES
    expected = [1.3, [0.5, 2.0], 0.7, 0.2, 0.9, -1.0, np.arange(8.0).reshape(4, 2), 0.1]
    for got, wanted in zip(values(composite).values(), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12)


def test_known_noise_has_no_parameter():
    model = tgp.SGPR(K.Linear(), np.ones((1, 2)), noise_variance=None)
    assert list(tgp.named_parameters(model)) == ["kernel.variance", "Z"]
    assert float(model.noise_variance) == 0.0


# Changes by name


def test_freeze_and_unfreeze(model):
    partly_frozen = tgp.freeze(model, "Z", "kernel.variance")
    assert frozen(partly_frozen) == {"Z", "kernel.variance"}
    assert frozen(model) == set()
    assert frozen(tgp.unfreeze(partly_frozen, "Z")) == {"kernel.variance"}
    for name, value in values(model).items():
        np.testing.assert_array_equal(values(partly_frozen)[name], value)


def test_wildcards(composite):
    assert frozen(tgp.freeze(composite, "kernel.*")) == {n for n in NAMES if n.startswith("kernel")}
    assert frozen(tgp.freeze(composite, "*variance")) == {n for n in NAMES if n.endswith("variance")}
    partly_frozen = tgp.freeze(composite, "*")
    assert frozen(partly_frozen) == set(NAMES)
    assert frozen(tgp.unfreeze(partly_frozen, "kernel.*", "mean.*")) == {"Z", "noise_variance"}


@pytest.mark.parametrize("name", NAMES)
def test_every_name_selects_one_parameter(composite, name):
    """The brackets in names of parts are not wildcards."""
    assert frozen(tgp.freeze(composite, name)) == {name}
    before, after = values(composite), values(tgp.assign(composite, {name: 3.0}))
    for other in NAMES:
        np.testing.assert_allclose(after[other], 3.0 if other == name else before[other], rtol=1e-12)


def test_wildcards_within_a_part(composite):
    partly_frozen = tgp.freeze(composite, "kernel.parts[0].*")
    assert frozen(partly_frozen) == {"kernel.parts[0].variance", "kernel.parts[0].lengthscale"}


def test_assign(model):
    changed = tgp.assign(model, {"noise_variance": 0.5, "kernel.lengthscale": [1, 3], "Z": -np.ones((4, 2))})
    assert float(changed.noise_variance) == pytest.approx(0.5, rel=1e-12)
    np.testing.assert_allclose(changed.kernel.lengthscale, [1.0, 3.0], rtol=1e-12)
    np.testing.assert_array_equal(changed.Z, -np.ones((4, 2)))
    assert float(changed.kernel.variance) == float(model.kernel.variance)
    assert float(model.noise_variance) == pytest.approx(0.1, rel=1e-12)


def test_assign_one_number_to_an_array(model):
    changed = tgp.assign(model, {"kernel.*": 4.0})
    np.testing.assert_allclose(changed.kernel.lengthscale, [4.0, 4.0], rtol=1e-12)
    assert float(changed.kernel.variance) == pytest.approx(4.0, rel=1e-12)


def test_assign_changes_only_the_value(model):
    single = tgp.SGPR(K.Linear(), np.ones((4, 2), np.float32), 0.1)
    assert tgp.assign(single, {"noise_variance": 0.5}).noise_variance.dtype == jnp.float32
    prior = priors.Gamma(2.0, 1.0)
    partly_frozen = tgp.freeze(tgp.with_priors(model, {"noise_variance": prior}), "noise_variance")
    parameter = tgp.named_parameters(tgp.assign(partly_frozen, {"noise_variance": 0.5}))["noise_variance"]
    assert parameter.frozen
    assert parameter.prior == prior
    assert parameter.transform == parameters.Positive(parameters.FLOOR, squared=True)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("kernel.lengthscale", [1.0, 2.0, 3.0], r"kernel.lengthscale has shape \(2,\), got a value of shape \(3,\)"),
        ("noise_variance", [0.1], r"noise_variance has shape \(\), got a value of shape \(1,\)"),
        ("Z", np.ones((5, 2)), r"Z has shape \(4, 2\), got a value of shape \(5, 2\)"),
        ("noise_variance", -0.1, "noise_variance must be above its floor"),
        ("noise_variance", 1e-7, "noise_variance must be above its floor 1e-06"),
        ("kernel.variance", np.nan, "kernel.variance must be positive and finite"),
        ("Z", np.nan, "Z has NaN"),
        ("Z", "here", "Z must be an array of numbers"),
    ],
)
def test_invalid_assignments_are_refused(model, name, value, message):
    with pytest.raises(ValueError, match=message):
        tgp.assign(model, {name: value})


@pytest.mark.parametrize(
    "change",
    [
        lambda m, name: tgp.freeze(m, name),
        lambda m, name: tgp.freeze(m, "Z", name),
        lambda m, name: tgp.unfreeze(m, name),
        lambda m, name: tgp.assign(m, {name: 1.0}),
        lambda m, name: tgp.with_priors(m, {name: priors.Normal()}),
    ],
    ids=["freeze", "second", "unfreeze", "assign", "with_priors"],
)
@pytest.mark.parametrize("name", ["kernel.varience", "kernel", "likelihood.*"])
def test_unknown_names_are_refused(model, change, name):
    with pytest.raises(ValueError, match="no parameter is called") as error:
        change(model, name)
    assert repr(name) in str(error.value)
    for known in ("kernel.variance", "kernel.lengthscale", "Z", "noise_variance"):
        assert known in str(error.value)


# Training


def test_trainable(model):
    partly_frozen = tgp.freeze(model, "kernel.variance", "Z")
    marks = parameters.trainable(partly_frozen)
    assert jax.tree.structure(marks) == jax.tree.structure(partly_frozen)
    marked = {name for name, p in tgp.named_parameters(marks).items() if p.raw}
    assert marked == {"kernel.lengthscale", "noise_variance"}


def test_trainable_partitions_a_model(model):
    partly_frozen = tgp.freeze(model, "kernel.*")
    moving, fixed = eqx.partition(partly_frozen, parameters.trainable(partly_frozen))
    moving_parameters, fixed_parameters = tgp.named_parameters(moving), tgp.named_parameters(fixed)
    assert moving_parameters["kernel.lengthscale"].raw is None
    assert fixed_parameters["Z"].raw is None
    np.testing.assert_array_equal(moving_parameters["Z"].raw, model.Z)
    back = eqx.combine(moving, fixed)
    for name, value in values(model).items():
        np.testing.assert_array_equal(values(back)[name], value)


def test_only_parameters_are_trained():
    module = (K.Linear(), jnp.ones(3))
    assert parameters.trainable(module)[1] is False


def test_perturbed_changes_the_trained_positive_parameters(model):
    model = tgp.freeze(model, "kernel.variance")
    first, again, other = (values(parameters.perturbed(model, jax.random.key(i))) for i in (1, 1, 2))
    for name in ("kernel.lengthscale", "noise_variance"):
        np.testing.assert_array_equal(first[name], again[name])
        assert np.all(first[name] != other[name])
        assert np.all(first[name] != values(model)[name])
    for name in ("kernel.variance", "Z"):  # frozen, and not positive
        np.testing.assert_array_equal(first[name], values(model)[name])


def test_perturbed_draws_independently_for_each_entry(composite):
    changed, before = values(parameters.perturbed(composite, jax.random.key(0))), values(composite)
    ratios = [changed[name] / before[name] for name in NAMES if name not in ("Z", "mean.level")]
    flat = np.concatenate([np.ravel(r) for r in ratios])
    assert len(np.unique(np.round(flat, 4))) == len(flat) == 7


def test_perturbed_is_log_normal_above_the_floor():
    kernel = K.Matern12(lengthscale=np.full(2000, 2 * parameters.FLOOR))
    changed = parameters.perturbed(kernel, jax.random.key(0))
    logs = np.log((np.asarray(changed.lengthscale) - parameters.FLOOR) / parameters.FLOOR)
    assert np.all(np.isfinite(logs))
    assert np.mean(logs) == pytest.approx(0.0, abs=0.07)
    assert np.std(logs) == pytest.approx(0.7, rel=0.07)


def test_perturbed_keeps_priors_and_transforms(model):
    model = tgp.with_priors(model, {"noise_variance": priors.Gamma(2.0, 1.0)})
    assert jax.tree.structure(parameters.perturbed(model, jax.random.key(0))) == jax.tree.structure(model)


# Priors


def test_log_prior_is_the_sum_of_densities(model):
    model = tgp.with_priors(
        model,
        {
            "kernel.lengthscale": priors.Gamma(2.0, 3.0),
            "noise_variance": priors.LogNormal(-1.0, 0.5),
            "Z": priors.Normal(),
        },
    )
    expected = (
        scipy.stats.gamma(2.0, scale=1 / 3.0).logpdf([0.5, 2.0]).sum()
        + scipy.stats.lognorm(0.5, scale=np.exp(-1.0)).logpdf(0.1)
        + scipy.stats.norm().logpdf(np.arange(8.0)).sum()
    )
    assert float(parameters.log_prior(model)) == pytest.approx(expected, rel=1e-10)


def test_log_prior_without_priors(model):
    assert float(parameters.log_prior(model)) == 0.0


def test_with_priors(model):
    prior = priors.Gamma(2.0, 3.0)
    partly_frozen = tgp.freeze(model, "kernel.variance")
    given_priors = tgp.with_priors(partly_frozen, {"kernel.*": prior})
    found = {name: p.prior for name, p in tgp.named_parameters(given_priors).items()}
    assert found == {"kernel.variance": prior, "kernel.lengthscale": prior, "Z": None, "noise_variance": None}
    assert frozen(given_priors) == {"kernel.variance"}
    removed = tgp.with_priors(given_priors, {"kernel.variance": None})
    assert tgp.named_parameters(removed)["kernel.variance"].prior is None
    assert tgp.named_parameters(removed)["kernel.lengthscale"].prior == prior
    assert tgp.named_parameters(tgp.unfreeze(tgp.freeze(removed, "*"), "*"))["kernel.lengthscale"].prior == prior


@pytest.mark.parametrize("bad", [1.0, "Gamma", priors.Gamma], ids=["number", "text", "class"])
def test_other_values_than_priors_are_refused(model, bad):
    with pytest.raises(ValueError, match="prior of 'noise_variance' must be one of tightgp"):
        tgp.with_priors(model, {"noise_variance": bad})


# Printing


def test_table_of_a_model(model):
    model = tgp.with_priors(tgp.freeze(model, "Z"), {"noise_variance": priors.Gamma(2.0, 3.0)})
    title, head, *rows = repr(model).splitlines()
    assert title == "SGPR, bound diagonal, M = 4, float64"
    assert head.split() == ["parameter", "value", "shape", "trained", "prior"]
    cells = {row.split()[0]: row for row in rows}
    assert list(cells) == ["kernel.variance", "kernel.lengthscale", "Z", "noise_variance"]
    assert cells["kernel.variance"].split() == ["kernel.variance", "1.3", "()", "yes"]
    assert "[0.5, 2. ]" in cells["kernel.lengthscale"]
    assert cells["Z"].split() == ["Z", "0", "to", "7", "(4,", "2)", "no"]
    assert cells["noise_variance"].endswith("yes      Gamma(shape=2.0, rate=3.0)")
    assert " 0.1 " in cells["noise_variance"]


def test_table_columns_are_aligned(composite):
    _, head, *rows = repr(composite).splitlines()
    start = head.index("trained")
    assert all(row[start:] == "yes" for row in rows)


def test_repr_of_trees_without_values(model):
    model = tgp.freeze(model, "Z")
    moving, _ = eqx.partition(model, parameters.trainable(model))
    for tree in (parameters.trainable(model), moving, jax.eval_shape(lambda: model)):
        assert "variance" in repr(tree)


def test_cast():
    kernel, count = parameters.cast((K.SquaredExponential(1.3, [0.5, 2.0]), jnp.arange(3)), jnp.float32)
    assert kernel.variance.dtype == kernel.lengthscale.dtype == jnp.float32
    assert jnp.issubdtype(count.dtype, jnp.integer)
    np.testing.assert_allclose(kernel.lengthscale, [0.5, 2.0], rtol=1e-6)
