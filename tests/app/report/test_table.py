"""Input tables as the report needs them."""

import numpy as np
import pytest

from tests.app.report import problems


def test_the_worst_rows_have_the_lowest_density(contents, priced):
    estimator, _X, _y, (Xh, yh) = priced
    order = np.argsort(estimator.log_density(Xh, yh))[:10]
    worst = contents["regression"].heldout.worst
    assert [row.row for row in worst.rows] == (3 * order + 2).tolist()
    assert worst.columns == ("area", problems.SCRIPT, "district", "sold", "rooms")
    first = worst.rows[0]
    assert first.deviations == pytest.approx((yh[order[0]] - estimator.predict(Xh)[order[0]]) / estimator.sd)
    assert first.inputs[2] == Xh["district"][order[0]]
    assert first.inputs[3] == str(Xh["sold"][order[0]].date())
