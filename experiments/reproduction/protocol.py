"""How long the paper's own protocol takes under the new bound, from some of its steps, with the device to itself.

A short and a longer training are timed once their programs are there; what they differ by is the pace of a step, and
the rest is multiplied out. There are no scores: those are of the whole trainings, in `medium` and `large`.
"""

import tightgp as tgp
from experiments.reproduction import large, medium, paper
from experiments.reproduction.rows import Parts
from experiments.reproduction.store import Record
from experiments.reproduction.work import Work

#: Full-batch steps or epochs of the short training (one epoch of many rows); the longer has three times as many.
_STEPS, _EPOCHS, _MANY_ROWS = 100, 5, 200_000


def pace(name: str, parts: Parts, Z, work: Work) -> Record:
    data = parts.train
    if name in medium.SETS:
        model, options, unit, short = medium.start("sgpr-new", data, Z), {}, "steps", _STEPS
        whole = medium.QUICK_STEPS if work.quick else paper.STEPS
    else:
        model, unit, short = large.start("svgp-new", Z), "epochs", 1 if data.num_data > _MANY_ROWS else _EPOCHS
        options = {"batch_size": large.QUICK_BATCH if work.quick else paper.BATCH}
        whole = large.QUICK_EPOCHS if work.quick else paper.EPOCHS

    def seconds(count: int) -> float:
        length = {unit: count}
        done = tgp.fit(model, data, "adam", learning_rate=paper.LEARNING_RATE, progress=False, **options, **length)
        return done.seconds

    seconds(short)
    one = 0.0 if work.rehearsal else (seconds(3 * short) - seconds(short)) / (2 * short)
    record: Record = {"seconds": one * whole, "extrapolated": True, unit: whole, "scores": []}
    return record | {"summary": f"{unit[:-1]}: {1000 * one:.3g} ms, {whole} of them {one * whole:.1f} s"}
