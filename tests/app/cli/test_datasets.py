"""``tightgp datasets``."""

from tests.app.cli.conftest import run


def test_datasets(tmp_path, monkeypatch):
    monkeypatch.setenv("TIGHTGP_DATA", str(tmp_path))
    ran = run("datasets", "list", "--json")
    assert ran.code == 0
    names = [row["name"] for row in ran.json["datasets"]]
    assert {"snelson", "nybikes", "kin40k", "3droad", "houseelectric", "oil"} <= set(names)
    assert "snelson" in run("datasets", "list").out
    (tmp_path / "snelson.csv").write_text("x,y\n" + "".join(f"{i},{i / 2}\n" for i in range(200)))
    ran = run("datasets", "show", "snelson", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["columns"]["x"]["largest"] == 199
    ran = run("datasets", "fetch", "snelson", "--json")
    assert ran.json["paths"]["snelson"] == str(tmp_path / "snelson.csv")
    ran = run("datasets", "show", "snelsen")
    assert ran.code == 2
    assert "snelsen" in ran.err
