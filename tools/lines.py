"""Count lines of code, without blank lines, comments and docstrings: ``python tools/lines.py src``."""

import ast
import io
import sys
import tokenize
from pathlib import Path

_SILENT = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def count(path: Path) -> int:
    """Lines of code in one file."""
    text = path.read_text(encoding="utf-8")
    docs: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                docs.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _SILENT:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docs)


def main() -> None:
    """Print a count for each folder or file that was named."""
    for name in sys.argv[1:] or ["src"]:
        files = [Path(name)] if Path(name).is_file() else sorted(Path(name).rglob("*.py"))
        print(f"{sum(map(count, files)):6}  {name}")


if __name__ == "__main__":
    main()
