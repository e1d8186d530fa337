"""What the suite measures: every case with its sizes, its libraries, and the arithmetic that it needs at least."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

ROWS = ("collapsed", "svgp", "fit", "predict", "start", "memory", "scaling")


class Column(NamedTuple):
    """A library with its settings, and the worker that runs it."""

    title: str
    library: str
    arguments: dict[str, Any]


#: The others are compared with the first.
COLUMNS = {
    "diagonal": Column("tightgp, diagonal", "tightgp", {"bound": "diagonal"}),
    "standard": Column("tightgp, standard", "tightgp", {"bound": "standard"}),
    "mixed": Column("tightgp, mixed", "tightgp", {"bound": "diagonal", "precision": "mixed"}),
    "gpytorch": Column("GPyTorch", "gpytorch", {}),
    "gpflow": Column("GPflow", "gpflow", {}),
    "gpjax": Column("GPJax", "gpjax", {}),
    "product": Column("matrix product", "limit", {}),
}
BASE = "diagonal"
EVERYONE = ("diagonal", "standard", "gpytorch", "gpflow", "gpjax")
#: The columns of the import row, where bounds make no difference.
LIBRARIES = ("diagonal", "gpytorch", "gpflow", "gpjax")


class Case(NamedTuple):
    """One thing to measure in each library."""

    row: str
    title: str
    task: str
    sizes: dict[str, Any]
    columns: tuple[str, ...] = EVERYONE
    flops: float | None = None
    dtype: str = "float64"
    once: bool = False

    def arguments(self, column: str) -> dict[str, Any]:
        """The arguments of the worker."""
        given = COLUMNS[column].arguments
        if self.task == "imports":
            return {**self.sizes, "module": COLUMNS[column].library}
        return self.sizes if self.task == "rate" else {**self.sizes, **given}

    def worker(self, column: str) -> str:
        """The name of the worker's module."""
        return "imports" if self.task == "imports" else COLUMNS[column].library


def collapsed_flops(n: int, m: int) -> float:
    """Value and gradient of a collapsed bound (maths 3.2), where N is far larger than M.

    Products of N·M² multiply-adds: A, S, K̄uf and T are halves (triangular or symmetric), Ā is whole.
    """
    return 2.0 * n * m * m * (0.5 + 0.5 + 1 + 0.5 + 0.5)


def svgp_flops(batch: int, m: int) -> float:
    """Value and gradient of a whitened SVGP with q(w) = N(μ, RRᵀ), R triangular.

    Six products of batch·M² multiply-adds, each with a triangular factor or a triangular result, so a half:
    A = Kfu L⁻ᵀ and AR forwards; R̄ = tril(Aᵀ·(AR)‾), Ā = (AR)‾·Rᵀ, K̄fu = Ā L⁻¹ and P = tril(AᵀĀ)
    backwards. Of M³ multiply-adds: Kuu's factor L, a sixth, and K̄uu = L⁻ᵀ sym(P) L⁻¹, symmetric, a half.
    """
    return 2.0 * (6 * 0.5 * batch * m * m + (1 / 6 + 1 / 2) * m**3)


def predict_flops(points: int, m: int) -> float:
    """Variances of ``points``: k − |k W|², where W may be triangular, so half of points·M² multiply-adds."""
    return 2.0 * 0.5 * points * m * m


def cases(rows: tuple[str, ...], quick: bool, peer: str) -> list[Case]:
    """The cases of some rows; ``peer`` is the library that the scaling rows compare with."""
    make: dict[str, Callable[[bool, str], Iterator[Case]]] = {
        "collapsed": _collapsed,
        "svgp": _svgp,
        "fit": _fit,
        "predict": _predict,
        "start": _start,
        "memory": _memory,
        "scaling": _scaling,
    }
    wanted = [case for row in ROWS if row in rows for case in make[row](quick, peer)]
    rates = [
        _rate(dtype, quick) for dtype in ("float64", "float32") if any(c.flops and c.dtype == dtype for c in wanted)
    ]
    return [*rates, *wanted]


def _rate(dtype: str, quick: bool) -> Case:
    sizes = {"dtype": dtype, "n": 1024 if quick else 8192, "m": 512 if quick else 2048, "budget": 1.0}
    return Case("rate", f"a matrix product, {dtype}", "rate", sizes, ("product",), None, dtype)


def _shape(**sizes: int) -> str:
    return ", ".join(f"{name} = {spaced(size)}" for name, size in sizes.items())


def spaced(size: int) -> str:
    """A number with its thousands set apart, from five digits on."""
    return f"{size:,}".replace(",", " ") if size >= 10_000 else str(size)


def _collapsed(quick: bool, peer: str) -> Iterator[Case]:
    shapes = [(1000, 8, 64)] if quick else [(10_000, 26, 1024), (100_000, 8, 512)]
    for n, d, m in shapes:
        sizes = {"n": n, "d": d, "m": m, "budget": 0.2 if quick else 8.0}
        columns = ("diagonal", "standard", "mixed", "gpytorch", "gpflow", "gpjax")
        yield Case("collapsed", _shape(N=n, D=d, M=m), "collapsed", sizes, columns, collapsed_flops(n, m))


def _svgp(quick: bool, peer: str) -> Iterator[Case]:
    for m in (32,) if quick else (1024, 256):
        for dtype in ("float64",) if quick else ("float64", "float32"):
            sizes = {"batch": m, "d": 8, "m": m, "dtype": dtype, "budget": 0.1 if quick else 8.0}
            title = f"M = batch = {m}, {dtype}"
            yield Case("svgp", title, "svgp", sizes, flops=svgp_flops(m, m), dtype=dtype)


def _fit(quick: bool, peer: str) -> Iterator[Case]:
    for n, d, m in [(40, 1, 7)] if quick else [(40, 1, 7), (1000, 2, 50)]:
        sizes = {"n": n, "d": d, "m": m, "budget": 0.1 if quick else 5.0}
        yield Case("fit", _shape(N=n, D=d, M=m), "fit", sizes)


def _predict(quick: bool, peer: str) -> Iterator[Case]:
    points, n, m = (2000, 1000, 64) if quick else (100_000, 10_000, 1024)
    sizes = {"points": points, "n": n, "d": 8, "m": m, "budget": 0.2 if quick else 8.0}
    title = f"{spaced(points)} points, {_shape(M=m, D=8)}"
    yield Case("predict", title, "predict", sizes, flops=predict_flops(points, m))


def _start(quick: bool, peer: str) -> Iterator[Case]:
    yield Case("start", "import", "imports", {"repeats": 1 if quick else 3}, LIBRARIES)
    # Compilation hardly depends on the sizes, so that small ones time little else.
    sizes = {"n": 1000, "d": 8, "m": 128, "budget": 0.1 if quick else 1.0}
    yield Case("start", "first call", "collapsed", sizes, LIBRARIES)


def _memory(quick: bool, peer: str) -> Iterator[Case]:
    n, d, m = (2000, 8, 256) if quick else (10_000, 26, 1024)
    yield Case("memory", _shape(N=n, D=d, M=m), "memory", {"n": n, "d": d, "m": m}, once=True)
    n, d, m = (20_000, 8, 64) if quick else (1_000_000, 8, 256)
    yield Case("memory", _shape(N=n, D=d, M=m), "memory", {"n": n, "d": d, "m": m}, (BASE,), once=True)


def _scaling(quick: bool, peer: str) -> Iterator[Case]:
    rows = (1000, 4000) if quick else (10_000, 20_000, 40_000, 80_000, 160_000)
    points = (32, 128) if quick else (128, 256, 512, 1024, 2048)
    shapes = [("N", n, 32 if quick else 256) for n in rows] + [("M", 1000 if quick else 10_000, m) for m in points]
    for along, n, m in shapes:
        sizes = {"n": n, "d": 8, "m": m, "budget": 0.1 if quick else 3.0}
        title = f"along {along}: {_shape(N=n, M=m)}"
        columns = (BASE,) if quick else (BASE, peer)  # the peer's time is in the first row
        yield Case("scaling", title, "collapsed", sizes, columns, flops=collapsed_flops(n, m))
