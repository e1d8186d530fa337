"""Imports go one way: the layers of the library, lowest first, and the application on top."""

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "tightgp"
#: A module may import from its own layer and from those above it in this list.
LAYERS = (
    ("numerics",),
    ("forking",),
    ("checks",),
    ("progress",),
    ("priors",),
    ("parameters",),
    ("distributed",),
    ("data",),
    ("kernels", "means"),
    ("inducing",),
    ("likelihoods",),
    ("bounds",),
    ("posterior",),
    ("models",),
    ("mcmc",),
    ("io",),
    ("training",),
    ("optimise",),
    ("placing",),
    ("datasets",),
    ("estimators",),
    ("exporting",),
    ("app",),
)
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
#: Training is beside the models: it knows none of them.
FORBIDDEN = {"training": {"models", "posterior", "bounds", "kernels", "likelihoods"}}


def imports(path: Path) -> set[str]:
    """The parts of tightgp that a file imports: packages, and modules beside them."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "tightgp":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tightgp."):
            found.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("tightgp.")}
    return found


def test_imports_go_one_way():
    wrong = []
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        own = parts[0]
        if own in ("__init__", "__main__"):
            continue
        assert own in RANK, f"{own} has no place in the list of layers"
        for other in imports(path) - {own}:
            if RANK.get(other, -1) > RANK[own] or other in FORBIDDEN.get(own, set()):
                wrong.append(f"{'/'.join(parts)} imports {other}")
    assert wrong == []


def test_every_layer_is_there():
    there = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert there - {"__init__", "__main__"} == set(RANK)


def test_the_library_knows_nothing_of_the_terminal():
    """Nothing outside of the application prints, except for what `verbose` asks estimators to say."""
    printing = [
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print" and "app" not in path.parts
    ]
    assert printing == ["estimators/growth.py"]
