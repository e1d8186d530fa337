"""Predict and fit from many threads at once; every answer must equal the serial one, bit for bit.

python -m soak.threads --seconds 60                 # on all cores
NPROC=1 taskset -c 0 python -m soak.threads         # on one, with one thread of XLA; NPROC=4 gives it four
"""

import argparse
import threading
import time
from collections import Counter

import numpy as np

import tightgp as tgp

BOUNDS = ("diagonal", "block", "vecchia")


class Workload:
    """Predictions and fits of one synthetic table."""

    def __init__(self, rows: int):
        rng = np.random.default_rng(0)
        X = rng.uniform(size=(rows, 2))
        self.data = tgp.Dataset(X, np.sin(6 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=rows))
        self.Z = tgp.inducing.kmeans(X, min(300, rows // 2), seed=0)
        self.queries = rng.uniform(size=(rows // 3, 2))
        self.posterior = self.model("diagonal").posterior(self.data)

    def model(self, bound: str) -> tgp.SGPR:
        """An untrained model."""
        kernel = tgp.kernels.SquaredExponential(1.0, [0.3, 0.3])
        return tgp.SGPR(kernel, self.Z, noise_variance=0.01, bound=bound)

    def predict(self) -> np.ndarray:
        """Means and variances from neighbours."""
        return np.concatenate([np.asarray(a).ravel() for a in self.posterior.predict_f(self.queries, neighbours=64)])

    def fit(self, bound: str) -> np.ndarray:
        """The values of the objective over three steps."""
        return np.asarray(tgp.fit(self.model(bound), self.data, steps=3).trace["objective"])


def run(seconds: float, predicting: int, fitting: int, rows: int) -> tuple[Counter, Counter]:
    """How many answers there were, and how many differed from the serial ones, by kind."""
    work = Workload(rows)
    jobs = {"predict": work.predict, **{f"fit {bound}": lambda bound=bound: work.fit(bound) for bound in BOUNDS}}
    expected = {kind: job() for kind, job in jobs.items()}
    kinds = ["predict"] * predicting + [f"fit {BOUNDS[i % len(BOUNDS)]}" for i in range(fitting)]
    answers: Counter = Counter()
    wrong: Counter = Counter()
    lock, end = threading.Lock(), time.monotonic() + seconds

    def repeat(kind: str) -> None:
        while time.monotonic() < end:
            answer = jobs[kind]()
            with lock:
                answers[kind] += 1
                wrong[kind] += not np.array_equal(answer, expected[kind])

    threads = [threading.Thread(target=repeat, args=(kind,), daemon=True) for kind in kinds]
    for thread in threads:
        thread.start()
    patience = end + 60 + 10 * seconds
    for thread in threads:
        thread.join(max(0.0, patience - time.monotonic()))
    if stuck := sum(thread.is_alive() for thread in threads):
        raise SystemExit(f"{stuck} of {len(threads)} threads never came back")
    return answers, wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--predicting", type=int, default=8, help="threads that predict")
    parser.add_argument("--fitting", type=int, default=4, help="threads that fit")
    parser.add_argument("--rows", type=int, default=3000)
    options = parser.parse_args()
    answers, wrong = run(options.seconds, options.predicting, options.fitting, options.rows)
    for kind, count in sorted(answers.items()):
        print(f"{kind}: {count} answers, {wrong[kind]} differ")
    raise SystemExit(1 if any(wrong.values()) or not answers else 0)


if __name__ == "__main__":
    main()
