"""Exported predictions: a file with a program and what its columns are, which runs without the model's code."""

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tightgp.forking import check_not_forked
from tightgp.io import modelfile
from tightgp.io.modelfile import ModelFileError
from tightgp.numerics.chunks import pad_rows, rounded_up

#: What the file is called inside, which tells it from a model file.
KIND = "program"
#: What a program may call: XLA's own linear algebra, random bits, and notes on shapes and devices. Other names could
#: lead to Python or to kernels that the file brings along.
_CALLS = re.compile(
    r"(lapack|cusolver|cublas|cusparse|hipsolver|hipblas|hipsparse)_\w+_ffi|(cu|hip)_(threefry2x32_ffi|lu_\w+)"
    r"|Eigh|Qr|LuDecomposition|ProductOfElementaryHouseholderReflectors|ApproxTopK|AllocateBuffer|stablehlo\.dynamic_\w+"
    r"|shape_assertion|Sharding|SPMDFullToShardShape|SPMDShardToFullShape|annotate_device_placement"
)


@dataclass(frozen=True)
class Description:
    """What a program takes and gives.

    Attributes:
        columns: the columns of the rows it takes.
        outputs: the names of the arrays it gives, each with a row for every row.
        dtype: of rows and arrays.
        rows_at_a_time: how many rows to pass at most, so that memory suffices.
        classes: the classes whose probabilities it gives; none for other models.
        made_by: which tightgp, which JAX and which model made it.
    """

    columns: tuple[str, ...]
    outputs: tuple[str, ...]
    dtype: str
    rows_at_a_time: int
    classes: tuple[Any, ...] = ()
    made_by: str = ""

    def check(self) -> None:
        """Raise ValueError about a field that no program has."""
        for name in ("columns", "outputs"):
            names = getattr(self, name)
            if not isinstance(names, tuple) or not names or not all(isinstance(one, str) for one in names):
                raise ValueError(f"its {name} are no names")
        if self.dtype not in ("float32", "float64"):
            raise ValueError("its dtype is neither float32 nor float64")
        if type(self.rows_at_a_time) is not int or self.rows_at_a_time < 1:
            raise ValueError("its rows_at_a_time is no number of at least 1")
        if not isinstance(self.classes, tuple) or not isinstance(self.made_by, str):
            raise ValueError("its classes are no tuple, or its made_by is no text")


class Program:
    """Predictions that `tightgp.export` wrote: a StableHLO program that JAX compiles for the device at hand.

    >>> from tempfile import TemporaryDirectory
    >>> post = tgp.SGPR(tgp.kernels.Matern32(), X[:20]).posterior(tgp.Dataset(X, y))
    >>> with TemporaryDirectory() as folder:  # doctest: +SKIP
    ...     tgp.export(post, f"{folder}/model.program")
    ...     tgp.Program.load(f"{folder}/model.program")(X[:3])["mean"].shape
    (3,)
    """

    def __init__(self, description: Description, call: Callable):
        self.description, self._call = description, call

    @classmethod
    def load(cls, path) -> "Program":
        """Read what `tightgp.export` wrote. No code in the file runs but the program's arithmetic.

        A program that calls anything but XLA's own linear algebra is refused.
        """
        content = modelfile.read(path, KIND)
        try:
            description, program = Description(**content["description"]), content["program"].tobytes()
            description.check()
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ModelFileError(f"{path} is damaged: {error}; get another copy of it") from None
        if description.dtype == "float64" and jnp.result_type(float) != np.float64:
            raise ValueError(
                f"{path} computes in float64, but JAX runs without 64-bit floats here; unset TIGHTGP_X64, or call "
                "jax.config.update('jax_enable_x64', True)"
            )
        flatbuffers_installed()
        from jax import export

        try:
            exported = export.deserialize(bytearray(program))
            text = str(exported.mlir_module())
        except Exception:  # what JAX raises of a program that it cannot read has no class of its own
            raise ModelFileError(
                f"{path} was made by {description.made_by}, and JAX {jax.__version__} cannot read it; export it again"
            ) from None
        if unknown := unknown_calls(text):
            raise ModelFileError(f"{path} calls {unknown[0]!r}, which is no part of XLA's arithmetic; do not use it")
        taken = [(len(a.shape), a.shape[-1:], a.dtype.name) for a in exported.in_avals]
        width = len(description.columns)
        if taken != [(2, (width,), description.dtype)] or len(exported.out_avals) != len(description.outputs):
            raise ModelFileError(f"{path} is damaged: its description is of another program; get another copy of it")
        return cls(description, jax.jit(exported.call))

    def __call__(self, X) -> dict[str, np.ndarray]:
        """Predictions by name, for rows (n, C) as an array, or a frame that has the columns."""
        check_not_forked()
        rows = self._rows(X)
        step, parts = self.description.rows_at_a_time, []
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            answers = self._call(pad_rows(part, min(step, rounded_up(len(part)))))
            parts.append([np.asarray(answer)[: len(part)] for answer in answers])
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        return dict(zip(self.description.outputs, columns, strict=True))

    def _rows(self, X) -> np.ndarray:
        names = self.description.columns
        if hasattr(X, "columns"):
            if lacking := [name for name in names if name not in X.columns]:
                raise ValueError(f"X lacks the column(s) {', '.join(lacking)}")
            X = X[list(names)]
        rows = np.asarray(X, self.description.dtype)
        if rows.ndim != 2 or rows.shape[1] != len(names) or not len(rows):
            raise ValueError(f"X must have shape (n, {len(names)}) and at least one row, got {rows.shape}")
        return rows


def unknown_calls(text: str) -> list[str]:
    """What a program, as the text of its MLIR module, calls that is not known to be arithmetic."""
    names = [name.strip('"') for name in re.findall(r'custom_call(?: @("[^"]*"|[\w$.]+)\()?', text)]
    return sorted({name for name in names if not _CALLS.fullmatch(name)})


def write_program(path, description: Description, program: bytes) -> None:
    """Write a serialised program and its description, completely or not at all."""
    content = {"description": asdict(description), "program": np.frombuffer(program, np.uint8)}
    modelfile.write(content, path, KIND)


def flatbuffers_installed() -> None:
    """JAX reads and writes programs with the help of flatbuffers, which it does not install."""
    try:
        import flatbuffers  # noqa: F401
    except ImportError:
        raise ImportError("exported programs need the package flatbuffers: pip install 'tightgp[export]'") from None
