"""Exported predictions: a file with a program and what its columns are, which runs without the model's code."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tightgp.io import modelfile
from tightgp.io.modelfile import ModelFileError
from tightgp.numerics.chunks import pad_rows, rounded_up

#: What the file is called inside, which tells it from a model file.
KIND = "program"


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
        """Read what `tightgp.export` wrote. No code in the file runs but the program's arithmetic."""
        flatbuffers_installed()
        content = modelfile.read(path, KIND)
        try:
            description, program = Description(**content["description"]), content["program"].tobytes()
        except (KeyError, TypeError, AttributeError) as error:
            raise ModelFileError(f"{path} is damaged: {error}; get another copy of it") from None
        if description.dtype == "float64" and jnp.result_type(float) != np.float64:
            raise ValueError(
                f"{path} computes in float64, but JAX runs without 64-bit floats here; unset TIGHTGP_X64, or call "
                "jax.config.update('jax_enable_x64', True)"
            )
        from jax import export

        try:
            return cls(description, jax.jit(export.deserialize(bytearray(program)).call))
        except Exception:  # what JAX raises of a program that it cannot read has no class of its own
            raise ModelFileError(
                f"{path} was made by {description.made_by}, and JAX {jax.__version__} cannot read it; export it again"
            ) from None

    def __call__(self, X) -> dict[str, np.ndarray]:
        """Predictions by name, for rows (n, C) as an array, or a frame that has the columns."""
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
