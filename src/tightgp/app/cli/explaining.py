"""``tightgp explain``: cause and cure of the errors and warnings that a user meets, found by their text."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class Explanation:
    """What lies behind a kind of message.

    Attributes:
        title: the kind in a few words.
        texts: pieces by which a message is recognised; ``{}`` stands for anything.
        example: such a message.
        cause: what leads to it.
        cure: what to do.
    """

    title: str
    texts: tuple[str, ...]
    example: str
    cause: str
    cure: str

    def fits(self, message: str) -> bool:
        """Whether a message is of this kind."""
        return any(_has(message, text) for text in self.texts)


def _has(message: str, text: str) -> bool:
    """Whether the pieces of ``text`` between its placeholders stand in a message, in this order."""
    place = 0
    for piece in text.split("{}"):
        place = message.find(piece, place)
        if place < 0:
            return False
        place += len(piece)
    return True


@cache
def catalogue() -> dict[str, Explanation]:
    """All explanations by name, in the order in which they are tried."""
    text = files("tightgp.app.cli").joinpath("messages.toml").read_text(encoding="utf-8")
    return {
        name: Explanation(**(entry | {"texts": tuple(entry["texts"])})) for name, entry in tomllib.loads(text).items()
    }


def name_of(message: str) -> str | None:
    """The name of the explanation of a message; None where there is none.

    >>> from tightgp.app.cli.explaining import name_of
    >>> name_of("only 12 of 64 inducing points are distinct; using these 12")
    'few-distinct-points'
    """
    return next((name for name, one in catalogue().items() if one.fits(message)), None)


def explain(name: str | None) -> str:
    """The text of ``tightgp explain``: one explanation, or the list of all."""
    if name is None:
        width = max(map(len, catalogue()))
        return "\n".join(f"{name:{width}}  {one.title}" for name, one in catalogue().items())
    if name not in catalogue():
        raise ValueError(f"NAME must be one of {', '.join(catalogue())}; got {name!r}")
    one = catalogue()[name]
    return f"{one.title}\n\nFor example:  {one.example}\n\n{one.cause}\n\nWhat to do: {one.cure}"
