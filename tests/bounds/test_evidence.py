import pytest

import tightgp as tgp


def test_width():
    bracket = tgp.EvidenceBracket(-130.5, -118.0, 50)
    assert (bracket.lower, bracket.upper, bracket.num_data) == (-130.5, -118.0, 50)
    assert bracket.gap == 12.5
    assert bracket.nats_per_point == 0.25


def test_text():
    text = "log evidence between -130.5 and -118 (0.25 nats per point)"
    assert str(tgp.EvidenceBracket(-130.5, -118.0, 50)) == text


def test_text_is_short():
    bracket = tgp.EvidenceBracket(-1234.56789, 1e-3 / 3, 7)
    assert str(bracket) == "log evidence between -1234.57 and 0.000333333 (176 nats per point)"


def test_values_do_not_change():
    bracket = tgp.EvidenceBracket(-2.0, -1.0, 1)
    with pytest.raises(AttributeError):
        bracket.lower = 0.0
    assert bracket == tgp.EvidenceBracket(-2.0, -1.0, 1)
    assert bracket != tgp.EvidenceBracket(-2.0, -1.0, 2)
