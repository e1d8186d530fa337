"""Every entry of the catalogue is complete, and `Source` checks its fields."""

import re

import pytest

from tightgp import datasets

EVANS = ("pol", "bike", "elevators", "kin40k", "protein", "keggdirected", "keggundirected", "3droad", "song", "buzz")
# Rows of the whole set that give the paper's numbers of training rows, and its numbers of inputs.
SHAPES = {
    "snelson": (200, 1),
    "nybikes": (210, 2),
    "pol": (15000, 26),
    "bike": (17379, 17),
    "elevators": (16599, 18),
    "kin40k": (40000, 8),
    "protein": (45730, 9),
    "keggdirected": (48827, 20),
    "keggundirected": (63608, 27),
    "3droad": (434874, 3),
    "song": (515345, 90),
    "buzz": (583250, 77),
    "houseelectric": (2049280, 9),
    "oil": (1000, 12),
}


def test_names_and_shapes():
    assert {name: (datasets.describe(name).rows, len(datasets.describe(name).inputs)) for name in SHAPES} == SHAPES
    assert set(datasets.names()) == set(SHAPES)
    assert len(datasets.names()) == len(SHAPES)


@pytest.mark.parametrize("name", SHAPES)
def test_each_has_an_origin(name):
    source = datasets.describe(name)
    assert source.name == name
    assert source.page.startswith("https://")
    assert source.credit
    if source.downloads:
        assert source.url.startswith("https://")
        assert source.checked
    else:
        assert source.sha256 is None
        assert "http" in source.by_hand


def test_only_sets_with_a_checksum_are_downloaded():
    assert tuple(name for name in datasets.names() if datasets.describe(name).downloads) == EVANS
    sums = [datasets.describe(name).sha256 for name in EVANS]
    assert len(set(sums)) == len(sums)
    assert all(datasets.describe(name).file == f"uci/{name}.csv.gz" for name in EVANS)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nybikes", "30 days repeated seven times, so a random split leaks"),
        ("bike", "Inputs 16 and 17 .* sum to exp"),
        ("keggundirected", "Input 10 is constant"),
        ("houseelectric", "nine inputs and does not say which"),
    ],
)
def test_notes(name, words):
    source = datasets.describe(name)
    assert any(re.search(words, note) for note in source.notes)
    assert re.search(words, str(source))


@pytest.mark.parametrize(("name", "suggestion"), [("kin40", "'kin40k'"), ("KeggDirected", "'keggdirected'")])
def test_unknown_name_suggests_a_similar_one(name, suggestion):
    with pytest.raises(ValueError, match=f"name must be one of 'snelson', .*did you mean {suggestion}"):
        datasets.describe(name)


def test_describe_returns_a_source_unchanged():
    source = datasets.Source("mine", "mine", "mine.csv", rows=3, inputs=("x",), target="y")
    assert datasets.describe(source) is source
