"""A share of a table's rows: what one of several processes reads."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Share:
    """The ``number``-th, from 0, of ``count`` parts of consecutive rows, as even as they can be."""

    number: int = 0
    count: int = 1

    def __post_init__(self):
        if not 0 <= self.number < self.count:
            raise ValueError(f"share must be (i, n) with 0 <= i < n, got ({self.number}, {self.count})")

    def of(self, rows: int) -> slice:
        """Which of so many rows: those that ``numpy.array_split`` would give."""
        each, more = divmod(rows, self.count)
        first, last = (k * each + min(k, more) for k in (self.number, self.number + 1))
        return slice(first, last)

    def cut(self, frame):
        """A whole frame's rows that belong to the share."""
        if self.count == 1:
            return frame
        here = self.of(len(frame))
        return self.marked(frame.iloc[here].reset_index(drop=True), here, frame.attrs)

    def marked(self, frame, here: slice, attrs: dict | None = None):
        """A frame of these rows alone, which remembers where in the file it begins."""
        frame.attrs.update(attrs or {})
        if self.count > 1:
            frame.attrs["first"] = here.start
        return frame


#: All rows.
WHOLE = Share()
