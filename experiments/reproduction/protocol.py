"""Time the paper's protocol under the new bound from some of its steps, alone on the device.

A short and a longer training are timed after compilation; their difference gives the time of a step, from which the
whole is extrapolated. Scores come from the whole trainings, in `medium` and `large`.
"""

from experiments.reproduction import large, medium, paper
from experiments.reproduction.rows import Parts
from experiments.reproduction.store import Record
from experiments.reproduction.work import Work

#: Full-batch steps or epochs of the short training (one epoch of many rows); the longer has three times as many.
_STEPS, _EPOCHS, _MANY_ROWS = 100, 5, 200_000


def pace(name: str, parts: Parts, Z, work: Work) -> Record:
    """Seconds of the whole protocol on a set, extrapolated."""
    data = parts.train
    options: dict[str, float] = {"learning_rate": paper.LEARNING_RATE}
    if name in medium.SETS:
        model, unit, short = medium.start("sgpr-new", data, Z), "steps", _STEPS
        whole = medium.QUICK_STEPS if work.quick else paper.STEPS
    else:
        model, unit, short = large.start("svgp-new", Z), "epochs", 1 if data.num_data > _MANY_ROWS else _EPOCHS
        options["batch_size"] = large.QUICK_BATCH if work.quick else paper.BATCH
        whole = large.QUICK_EPOCHS if work.quick else paper.EPOCHS

    def seconds(count: int) -> float:
        return work.once(model, data, "adam", **options, **{unit: count}).seconds

    seconds(short)
    one = 0.0 if work.rehearsal else (seconds(3 * short) - seconds(short)) / (2 * short)
    record: Record = {"seconds": one * whole, "extrapolated": True, unit: whole, "scores": []}
    return record | {"summary": f"{1000 * one:.3g} ms for each of {whole} {unit}, {one * whole:.1f} s"}
