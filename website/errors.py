"""The part of the troubleshooting page that the program says itself: each of its explanations, under an anchor."""

from tightgp.app.cli.explaining import catalogue

_MARK = "<!-- messages -->"


def page(text: str) -> str:
    """The page, with an entry for each message of the catalogue where its mark stands."""
    if _MARK not in text:
        raise SystemExit(f"docs/troubleshooting.md has no line {_MARK}")
    entries = [
        f"### {one.title} {{ #{name} }}\n\n```text\n{one.example}\n```\n\n{one.cause}\n\n**What to do:** {one.cure}\n"
        for name, one in catalogue().items()
    ]
    return text.replace(_MARK, "\n".join(entries))
