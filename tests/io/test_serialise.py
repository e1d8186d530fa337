import copy
import dataclasses
import json

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tightgp as tgp
from tightgp.io import serialise

MODEL = tgp.SGPR(tgp.kernels.Matern32(1.0, [1.0, 2.0]), np.random.default_rng(0).normal(size=(5, 2)), 0.1)


def nodes(tree):
    """Every value of a JSON tree, as its container and key."""
    found = []
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
        found.append((tree, key))
        if isinstance(value, dict | list):
            found += nodes(value)
    return found


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["$", "items", "class", "fields", "name", "value", "values", "shape", "dtype"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=5,
)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_invalid_descriptions_are_refused(data):
    """Whoever forges a file can also compute its fingerprint."""
    tensors = {}
    tree = json.loads(json.dumps(serialise.encode(MODEL, tensors)))
    for _ in range(data.draw(st.integers(1, 3))):
        places = nodes(tree)
        container, key = places[data.draw(st.integers(0, len(places) - 1))]
        container[key] = copy.deepcopy(data.draw(ANY_JSON | st.sampled_from([c[k] for c, k in places])))
    try:
        out = serialise.decode(tree, tensors)
    except serialise.DecodeError:
        return
    plain = bool | int | float | str | list | tuple | dict | np.ndarray | jax.Array | np.generic | None
    assert isinstance(out, plain) or dataclasses.is_dataclass(out)


def test_missing_fields_are_refused():
    tensors = {}
    node = serialise.encode(tgp.SGPR(tgp.kernels.Matern32(), np.zeros((1, 1))), tensors)
    node["fields"].pop("jitter")
    with pytest.raises(serialise.DecodeError, match=r"does not have the fields of a models\.SGPR"):
        serialise.decode(node, tensors)


def test_files_may_be_older_than_a_field_with_a_default():
    tensors = {}
    data = tgp.Dataset(np.zeros((2, 1)), np.zeros(2))
    node = serialise.encode(tgp.SGPR(tgp.kernels.Matern32(), np.zeros((1, 1))).posterior(data), tensors)
    assert node["fields"].pop("is_bound") is True
    assert serialise.decode(node, tensors).is_bound is True


def test_classes_outside_the_list_are_refused():
    for name in ("os.system", "builtins.eval", "user.CustomKernel", "models.Model", "kernels.Kernel", "files.Path"):
        with pytest.raises(serialise.DecodeError, match="does not know"):
            serialise.decode({"$": "object", "class": name, "fields": {}}, {})
    with pytest.raises(serialise.DecodeError, match="does not have the fields"):
        serialise.decode({"$": "object", "class": "means.Zero", "fields": {"__class__": 1}}, {})
    with pytest.raises(serialise.DecodeError, match="does not fit"):
        serialise.decode({"$": "object", "class": "likelihoods.Bernoulli", "fields": {"link": 1}}, {})
