"""``tightgp inspect``, and a table of money and dates from the file to predictions."""

import numpy as np
import pytest

from tests.app.cli.conftest import QUICK, run
from tightgp.app.tables import read_table


@pytest.fixture(scope="module")
def messy(tmp_path_factory):
    """Forty rows as a shop would write them."""
    rng = np.random.default_rng(0)
    lines = ["id;when;price;tax;size;weight"]
    for i in range(40):
        price = f"{rng.integers(1, 9)}.{rng.integers(100, 999)},50 €"
        weight = -999 if i % 9 == 0 else 50 + i
        lines.append(
            f"{i};{i % 28 + 1:02d}.{i % 12 + 1:02d}.2021;{price};{i * 7 % 20}%;{['S', 'M', 'L'][i % 3]};{weight}"
        )
    path = tmp_path_factory.mktemp("messy") / "shop.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_everything_is_listed_with_its_option(messy):
    ran = run("inspect", messy, "--target", "price")
    assert ran.code == 0, ran.err
    for words in (
        "40 rows, 6 columns",
        "id: counts the rows from 0: an index, left out (change: --as id=keep)",
        "when: dates such as",
        "money in €, read as numbers with a decimal comma (change: --as price=text)",
        "its levels have an order: s<m<l",
        "-999 in 5 rows",
        "fitting Gaussian noise (change: --likelihood)",
    ):
        assert words in ran.out
    found = run("inspect", messy, "--json").json
    assert {one["column"] for one in found["findings"]} == {"id", "when", "price", "tax", "size", "weight"}


def test_problems_are_all_listed_and_the_exit_code_says_so(tmp_path):
    rows = [f'0{i % 9 + 1}/0{i % 7 + 1}/2020,"{i % 9 + 1},250",{i}.5' for i in range(30)]
    path = tmp_path / "t.csv"
    path.write_text("when,cost,y\n" + "\n".join(rows) + "\n")
    ran = run("inspect", path, "-t", "y")
    assert ran.code == 2
    assert ran.out.count("PROBLEM") == 2
    fixed = run("inspect", path, "-t", "y", "--date-format", "%d/%m/%Y", "--decimal", "comma")
    assert fixed.code == 0, fixed.out


def test_from_the_raw_file_to_predictions_in_one_attempt(messy, tmp_path):
    ran = run("fit", messy, "-t", "price", "-o", tmp_path / "m", *QUICK)
    assert ran.code == 0, ran.err
    assert "money in €" in ran.err
    ran = run("predict", tmp_path / "m", messy, "-o", tmp_path / "p.csv")
    assert ran.code == 0, ran.err
    assert read_table(tmp_path / "p.csv")["mean"].between(500, 20000).all()
    new = tmp_path / "new.csv"
    new.write_text("when;tax;size;weight\n03.04.2021;lots;S;60\n", encoding="utf-8")
    ran = run("predict", tmp_path / "m", new, "-o", tmp_path / "q.csv")
    assert ran.code == 2
    assert "row 2, column 'tax': 'lots' is not a number" in ran.err.splitlines()[-1]
