"""``tightgp predict``."""

import numpy as np
import pandas as pd

import tightgp as tgp
from tests.app.cli.conftest import inputs, run, table
from tightgp.app.tables import read_table


def test_predictions_are_those_of_the_loaded_model(fitted, csv, tmp_path):
    folder, _ = fitted
    out = tmp_path / "predictions.csv"
    ran = run("predict", folder, csv, "--out", out)
    assert ran.code == 0, ran.err
    written = read_table(out)
    assert list(written) == ["row", "mean", "sd", "lower95", "upper95"]
    assert written["row"].tolist() == list(range(2, 62))
    estimator = tgp.load(folder / "model.safetensors")
    mean, sd = estimator.predict(inputs(), return_std=True)
    np.testing.assert_array_equal(written["mean"], mean)
    np.testing.assert_array_equal(written["sd"], sd)
    low, high = estimator.predict_interval(inputs(), 0.95)
    np.testing.assert_array_equal(written[["lower95", "upper95"]], np.stack([low, high], axis=1))
    assert run("predict", folder, csv, "--out", out).code == 2
    assert run("predict", folder, csv, "--out", out, "--overwrite", "--level", 0.5, "--keep").code == 0
    kept = read_table(out)
    assert [*table().columns] == list(kept)[1:8]
    assert (kept["upper50"] - kept["lower50"] < written["upper95"] - written["lower95"]).all()


def test_parquet_in_and_out_and_json(fitted, tmp_path):
    folder, _ = fitted
    table().to_parquet(tmp_path / "new.parquet")
    ran = run(
        "predict", folder / "model.safetensors", tmp_path / "new.parquet", "--out", tmp_path / "p.parquet", "--json"
    )
    assert ran.code == 0, ran.err
    assert ran.json["rows"] == 60
    assert len(pd.read_parquet(tmp_path / "p.parquet")) == 60


def test_a_table_that_lacks_a_column_or_has_new_things(fitted, tmp_path):
    folder, _ = fitted
    table().drop(columns="city").to_csv(tmp_path / "new.csv", index=False)
    ran = run("predict", folder, tmp_path / "new.csv", "--out", tmp_path / "p.csv")
    assert (ran.code, ran.out) == (2, "")
    assert "lacks the column(s) 'city'" in ran.err
    assert ran.err.count("\n") == 1
    assert not (tmp_path / "p.csv").exists()
    table().assign(city="Paris").to_csv(tmp_path / "new.csv", index=False)
    ran = run("predict", folder, tmp_path / "new.csv", "--out", tmp_path / "p.csv")
    assert ran.code == 0
    assert "Paris" in ran.err


def test_models_that_predict_cannot_use(fitted, csv, tmp_path):
    tgp.save(tgp.SparseGPRegressor(), tmp_path / "unfitted.safetensors")
    tgp.save(tgp.SGPR(tgp.kernels.Matern32(), np.zeros((2, 1)), 0.1), tmp_path / "sgpr.safetensors")
    for name, said in (("unfitted", "is not fitted"), ("sgpr", "holds a SGPR")):
        ran = run("predict", tmp_path / f"{name}.safetensors", csv, "-o", tmp_path / "p.csv")
        assert ran.code == 2
        assert said in ran.err
    ran = run("predict", fitted[0], csv, "-o", tmp_path / "p.xlsx")
    assert ran.code == 2
    assert "use the suffix" in ran.err


def test_rows_are_predicted_once(fitted, csv, tmp_path, monkeypatch):
    folder, _ = fitted
    predict, counts = tgp.SparseGPRegressor.predict_distribution, []

    def counted(self, X):
        counts.append(len(X))
        return predict(self, X)

    monkeypatch.setattr(tgp.SparseGPRegressor, "predict_distribution", counted)
    assert run("predict", folder, csv, "--out", tmp_path / "p.csv").code == 0
    assert counts == [60]
