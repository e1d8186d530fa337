"""The evidence bracket: how far a sparse model can be from the exact one, without the exact one (maths §9)."""

from dataclasses import dataclass


@dataclass(frozen=True)
class EvidenceBracket:
    """``lower ≤ log p(y) ≤ upper``, in total nats over ``num_data`` rows.

    >>> print(EvidenceBracket(-120.0, -118.0, 100))
    log evidence between -120 and -118 (0.02 nats per point)
    """

    lower: float
    upper: float
    num_data: int

    @property
    def gap(self) -> float:
        """Width of the bracket in total nats."""
        return self.upper - self.lower

    @property
    def nats_per_point(self) -> float:
        """Width of the bracket a row of data: the most that more inducing points could add to the bound."""
        return self.gap / self.num_data

    def __str__(self) -> str:
        return f"log evidence between {self.lower:.6g} and {self.upper:.6g} ({self.nats_per_point:.3g} nats per point)"
