"""The evidence bracket: how far a sparse model can be from the exact one, without the exact one (maths §9, §12)."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Certificate:
    """How a tight evidence bracket was got, and what it cost (maths §12).

    Attributes:
        estimate: of the exact log evidence, in total nats; no bound.
        certain_upper: an upper bound without randomness. ``upper`` of the bracket may be far below it: it holds with a
            probability of at least ``1 − failure_probability`` over its random probes.
        failure_probability: of ``upper``; zero where ``upper`` is certain. ``lower`` always is.
        determinant: what the lower end knows of the log determinant: "inducing rows" (maths 12.2b), "inducing points"
            (12.2a) or "neighbours" (12.2c).
        inducing_rows: rows that all others were given.
        neighbours: earlier rows that each block of rows was given besides.
        steps: of conjugate gradients, each one product with the N×N kernel matrix.
        probes: random vectors among the columns of each product.
        seconds: what it took.
    """

    estimate: float
    certain_upper: float
    failure_probability: float
    determinant: str
    inducing_rows: int
    neighbours: int
    steps: int
    probes: int
    seconds: float

    def __str__(self) -> str:
        given = f"log determinant from {self.inducing_rows} {self.determinant} and {self.neighbours} neighbours"
        if self.determinant != "inducing rows":
            given = f"log determinant from {self.determinant} and {self.neighbours} neighbours"
        chance = f"upper end fails with probability {self.failure_probability:.0e} at most"
        upper = chance if self.failure_probability else "upper end certain"
        return f"{self.steps} steps, {given}, {self.probes} probes, {self.seconds:.3g} s; lower end certain, {upper}"


@dataclass(frozen=True)
class EvidenceBracket:
    """``lower ≤ log p(y) ≤ upper``, in total nats over ``num_data`` rows.

    ``certificate`` says how a tight bracket was got; None where the bracket is that of one pass over the data.

    >>> print(EvidenceBracket(-120.0, -118.0, 100))
    log evidence between -120 and -118 (0.02 nats per point)
    >>> EvidenceBracket(-120.0, -118.0, 100).sentence
    'The lower bound is within 0.02 nats a row of the log evidence of the exact GP with these parameters.'
    """

    lower: float
    upper: float
    num_data: int
    certificate: Certificate | None = None

    @property
    def gap(self) -> float:
        """Width of the bracket in total nats."""
        return self.upper - self.lower

    @property
    def nats_per_point(self) -> float:
        """Width of the bracket a row of data: the most that more inducing points could add to the bound."""
        return self.gap / self.num_data

    def distance(self, value: float) -> float:
        """The most that ``value``, in total nats, can differ from the log evidence, in nats a row."""
        return max(self.upper - value, value - self.lower) / self.num_data

    @property
    def sentence(self) -> str:
        """What the bracket says, for people."""
        of = "of the log evidence of the exact GP with these parameters"
        return f"The lower bound is within {self.nats_per_point:.2g} nats a row {of}."

    def __str__(self) -> str:
        return f"log evidence between {self.lower:.6g} and {self.upper:.6g} ({self.nats_per_point:.3g} nats per point)"
