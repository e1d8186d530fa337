"""Numbers beside the paper's: mean, standard error, and difference in standard errors."""

import math
from dataclasses import dataclass

import numpy as np

from experiments.reproduction.paper import SPLITS, Number

#: The standard deviation of a difference by rounding alone; the paper rounds to three decimals.
_ROUNDING = 0.001 / math.sqrt(12)


@dataclass(frozen=True)
class Cell:
    """One number of a table: the paper's, if it has one, and ours, one value for each split."""

    ours: tuple[float, ...]
    paper: Number | None = None
    splits: int = SPLITS

    @property
    def mean(self) -> float:
        return float(np.mean(self.ours)) if self.ours else math.nan

    @property
    def error(self) -> float:
        """The standard error of our mean; not known from one split."""
        n = len(self.ours)
        return float(np.std(self.ours, ddof=1) / math.sqrt(n)) if n > 1 else math.nan

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's, in standard errors of the difference; None where either is missing.

        From one split our standard error is taken to be what one split's would be by the paper's.
        """
        if self.paper is None or not self.ours:
            return None
        mean, error = self.paper
        own = self.error if len(self.ours) > 1 else error * math.sqrt(SPLITS)
        return (self.mean - mean) / math.sqrt(own**2 + error**2 + _ROUNDING**2)

    def text(self, digits: int = 3) -> str:
        """Mean and standard error; and the number of splits if there are fewer than planned."""
        if not self.ours:
            return "—"
        spread = "" if math.isnan(self.error) else f" ({self.error:.{digits}f})"
        few = "" if len(self.ours) >= self.splits else f" [{len(self.ours)} of {self.splits}]"
        return minus(f"{self.mean:.{digits}f}{spread}{few}")

    def paper_text(self, digits: int = 3) -> str:
        return "" if self.paper is None else minus(f"{self.paper[0]:.{digits}f} ({self.paper[1]:.{digits}f})")

    def difference_text(self) -> str:
        return "" if self.difference is None else minus(f"{self.difference:+.1f}")

    @property
    def off(self) -> bool:
        """Whether it lies more than two standard errors from the paper's."""
        return self.difference is not None and abs(self.difference) > 2


def minus(text: str) -> str:
    """Replace hyphens before digits by minus signs."""
    return "".join(
        "−" if sign == "-" and after.isdigit() else sign for sign, after in zip(text, text[1:] + " ", strict=True)
    )


def unbroken(text: str) -> str:
    """Replace spaces by non-breaking ones."""
    return text.replace(" ", "\u00a0")


def thousands(count: int) -> str:
    """A number such as 10 000, with a non-breaking space."""
    return unbroken(f"{count:,}".replace(",", " "))
