"""``tightgp compare``."""

from tests.app.cli.conftest import run


def test_compare(csv):
    ran = run(
        "compare", csv, "-t", "y", "--ignore", "count", "--ignore", "label", "--inducing", 6, "--max-iter", 3, "--json"
    )
    assert ran.code == 0, ran.err
    lines = {line["method"]: line for line in ran.json["methods"]}
    bounds = ["standard", "spherical", "diagonal", "block of 64", "neighbours"]
    no_bounds = ["Power EP 0.5", "FITC", "PITC of 64", "Vecchia"]
    assert list(lines) == ["exact GP", *bounds, *no_bounds]
    assert [name for name, line in lines.items() if not line["is_bound"]] == no_bounds
    assert [name for name, line in lines.items() if not line["neighbour_scores"]] == ["exact GP"]
    assert all(line["scores"]["RMSE"] > 0 for line in lines.values())
    assert run("compare", csv, "-t", "y", "--inducing", "auto").code == 2


def test_compare_without_gaussian_noise(csv):
    arguments = ("compare", csv, "-t", "label", "--ignore", "count", "--ignore", "y", "--inducing", 6, "--max-iter", 3)
    ran = run(*arguments)
    assert ran.code == 0, ran.err
    assert "spherical" in ran.out
    assert "accuracy" in ran.out
