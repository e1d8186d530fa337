"""Files of exported programs: what their descriptions may say, and what programs may call."""

from dataclasses import replace

import pytest

from tightgp.io.modelfile import ModelFileError
from tightgp.io.program import Description, Program, unknown_calls, write_program

GOOD = Description(("x",), ("mean", "sd"), "float64", 8, ("up",), "a test")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"columns": ()}, "its columns are no names"),
        ({"columns": (1,)}, "its columns are no names"),
        ({"outputs": "mean"}, "its outputs are no names"),
        ({"dtype": "object"}, "its dtype is neither"),
        ({"dtype": ["float64"]}, "its dtype is neither"),
        ({"rows_at_a_time": 0}, "its rows_at_a_time is no number"),
        ({"rows_at_a_time": 2.5}, "its rows_at_a_time is no number"),
        ({"classes": "up"}, "its classes are no tuple"),
        ({"made_by": None}, "its made_by is no text"),
    ],
)
def test_descriptions_that_no_program_has_are_refused(tmp_path, changed, said):
    GOOD.check()
    write_program(tmp_path / "model.program", replace(GOOD, **changed), b"")
    with pytest.raises(ModelFileError, match=said):
        Program.load(tmp_path / "model.program")


def test_programs_may_call_linear_algebra_alone():
    known = "%1 = stablehlo.custom_call @lapack_dpotrf_ffi(%0) {x = 1}\nstablehlo.custom_call @shape_assertion(%2)"
    assert unknown_calls(known) == []
    for call, name in (
        ("stablehlo.custom_call @xla_ffi_python_cpu_callback(%0)", "xla_ffi_python_cpu_callback"),
        ('stablehlo.custom_call @"Qr\\00x"(%0)', "Qr\\00x"),
        ("stablehlo.custom_call @Qrs(%0)", "Qrs"),
        ('"stablehlo.custom_call"(%0) <{call_target_name = "Qr"}>', ""),  # a form that is not ours
    ):
        assert unknown_calls(f"{known}\n{call}") == [name]
