"""Wild inputs, of which each may only be read or refused in one line: ``make fuzz``, or ``python -m soak.fuzz``.

Hypothesis changes small files (``soak/corpus``), descriptions inside model files with their fingerprint made valid
again, tables in memory and command lines. A failure is shown with the smallest input that shows it; it becomes a test.
"""

import argparse
import contextlib
import io
import json
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as hypothesis_seed
from hypothesis import strategies as st
from safetensors.numpy import save_file
from typer.testing import CliRunner

import tightgp as tgp
from tightgp.app.cli.app import app
from tightgp.app.tables import TableError, read_table
from tightgp.app.tables.text import read_text
from tightgp.estimators.encoding import Encoding
from tightgp.io import modelfile, serialise

CORPUS = Path(__file__).parent / "corpus"
#: Share of the cases of each target: all are cheap, but not equally.
SHARES = {"table": 0.55, "records": 0.05, "model": 0.25, "encoding": 0.13, "command": 0.02}
_TOKENS = [
    b",",
    b";",
    b"\t",
    b'"',
    b"\n",
    b"\r",
    b"\0",
    b"nan",
    b"1e999",
    b"=",
    b"\xff",
    b"\xef\xbb\xbf",
    b"-",
    b"9" * 40,
]
_EDITS = st.lists(
    st.tuples(st.integers(0, 1 << 12), st.integers(0, 6), st.sampled_from(_TOKENS) | st.binary(max_size=3)), max_size=5
)


def edited(content: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    """The content with some bytes gone and others inserted."""
    for place, gone, new in edits:
        place %= len(content) + 1
        content = content[:place] + new + content[place + gone :]
    return content


def one_line(error: Exception) -> None:
    """A message for people."""
    message = str(error)
    assert message.strip(), repr(error)
    assert "\n" not in message.strip(), message
    assert message.isprintable() or not isinstance(error, TableError), message


def table_target() -> Any:
    """Text of a table is read, or refused."""
    files = [path.read_bytes() for path in sorted(CORPUS.glob("*.csv"))]

    @given(
        st.sampled_from(files), _EDITS, st.sampled_from([None, ",", ";", "\t"]), st.sampled_from(["utf-8", "utf-16"])
    )
    def case(content, edits, delimiter, encoding):
        try:
            frame = read_text(Path("t.csv"), edited(content, edits), delimiter, encoding, (0, 1), False)
        except TableError as error:
            one_line(error)
        else:
            assert len(frame.columns)

    return case


def records_target() -> Any:
    """Records in JSON are read, or refused."""
    files = [path.read_bytes() for path in sorted(CORPUS.glob("*.jsonl"))]
    path = Path(tempfile.mkdtemp(prefix="tightgp-fuzz-")) / "t.jsonl"

    @given(st.sampled_from(files), _EDITS)
    def case(content, edits):
        path.write_bytes(edited(content, edits))
        try:
            frame = read_table(path)
        except TableError as error:
            one_line(error)
        else:
            assert len(frame.columns)

    return case


def model_target() -> Any:
    """The description in a model file, changed and signed again, is understood or refused; so are changed bytes."""
    folder = Path(tempfile.mkdtemp(prefix="tightgp-fuzz-"))
    model = tgp.SGPR(tgp.kernels.Matern32(1.0, [1.0, 2.0]), np.zeros((3, 2)), 0.1)
    tensors: dict[str, np.ndarray] = {}
    tree = json.dumps(serialise.encode(model, tensors), separators=(",", ":")).encode()
    tgp.save(model, folder / "good.safetensors")
    good = (folder / "good.safetensors").read_bytes()
    path = folder / "model.safetensors"

    @given(_EDITS, st.booleans())
    def case(edits, sign):
        if sign:
            changed = edited(tree, edits).decode("utf-8", "replace")
            header = {"format": "tightgp", "version": "1", "kind": "model", "tree": changed}
            header["fingerprint"] = modelfile.fingerprint("model", changed, tensors)
            save_file(tensors, path, header)
        else:
            path.write_bytes(edited(good, edits))
        try:
            tgp.load(path)
        except modelfile.ModelFileError as error:
            one_line(error)

    return case


def encoding_target() -> Any:
    """Cells of any kind become finite features, or are refused."""
    texts = st.sampled_from(["a", "b", "", "=1", "\x1b[31m", "2024-01-01", "1.5"]) | st.text(max_size=4)
    cells = st.one_of(
        st.floats(), st.integers(-(10**20), 10**20), texts, st.booleans(), st.none(), st.datetimes().map(pd.Timestamp)
    )
    columns = st.lists(st.lists(cells, min_size=3, max_size=3), min_size=1, max_size=2)

    @given(columns, st.lists(cells, min_size=2, max_size=2))
    def case(training, later):
        frame = pd.DataFrame({f"c{i}": column for i, column in enumerate(training)})
        try:
            encoding, features = Encoding.fit_transform(frame)
            assert np.isfinite(features).all()
            new = pd.DataFrame({column.name: later[:1] for column in encoding.columns})
            assert np.isfinite(encoding.transform(new)).all()
        except ValueError as error:
            one_line(error)

    return case


def command_target() -> Any:
    """Any command line ends with a documented exit code and without a traceback."""
    folder = Path(tempfile.mkdtemp(prefix="tightgp-fuzz-"))
    table = folder / "t.csv"
    table.write_bytes(b"a,y\n1,2\n")
    names = [
        "--inducing",
        "--kernel",
        "--bound",
        "--holdout",
        "--seed",
        "--ignore",
        "--max-iter",
        "--level",
        "--resume",
    ]
    words = st.sampled_from(["fit", "predict", "report", str(table), "-t", "y", "-o", str(table), "--json", *names])
    values = st.sampled_from(["", "-1", "0", "nan", "1e9", "\x1b[31m", "=1", "auto"]) | st.text(max_size=3)
    runner = CliRunner()

    @given(st.lists(words | values, max_size=8))
    def case(arguments):
        with contextlib.chdir(folder):
            ran = runner.invoke(app, arguments)
        assert ran.exception is None or isinstance(ran.exception, SystemExit), repr(ran.exception)
        assert ran.exit_code in (0, 2, 3, 4), ran.exit_code
        assert "\x1b" not in ran.stderr

    return case


TARGETS: dict[str, Callable[[], Any]] = {
    "table": table_target,
    "records": records_target,
    "model": model_target,
    "encoding": encoding_target,
    "command": command_target,
}


def run(name: str, cases: int, seed: int) -> tuple[int, str]:
    """How many cases of a target were tried, and the failure found, if any."""
    case, tried = TARGETS[name](), [0]
    inner = case.hypothesis.inner_test

    def counted(*arguments, **named):
        tried[0] += 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            inner(*arguments, **named)

    case.hypothesis.inner_test = counted
    quick = settings(
        max_examples=cases,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            hypothesis_seed(seed)(quick(case))()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        notes = "\n".join(getattr(error, "__notes__", []))
        return tried[0], f"{type(error).__name__}: {error}\n{notes}"
    return tried[0], ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=TARGETS)
    options = parser.parse_args()
    failed = False
    for name in [options.only] if options.only else TARGETS:
        begun = time.monotonic()
        cases = options.cases if options.only else round(options.cases * SHARES[name])
        tried, failure = run(name, cases, options.seed)
        print(f"{name}: {tried:,} cases in {time.monotonic() - begun:.0f} s, {'a failure' if failure else 'all held'}")
        if failure:
            print(failure)
            failed = True
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
