"""``tightgp inspect``: what is in the columns of a table, and what a fit would do with it."""

from tightgp.app.cli.levels import offer_ordinal
from tightgp.app.cli.likelihood import choose_likelihood
from tightgp.app.cli.options import InspectRequest, Request
from tightgp.app.cli.problem import read
from tightgp.app.cli.terminal import Terminal
from tightgp.app.printing import text_table
from tightgp.app.tables import check_target, find_column, inspect_table
from tightgp.estimators.cells import read as read_cells


def inspect(request: InspectRequest, terminal: Terminal) -> int:
    """List everything unusual in the columns of a table, with the option of fit that changes it."""
    frame = read(request, terminal, strict=False)
    target = None if request.target is None else find_column(frame, request.target, "--target")
    found = inspect_table(frame, target, request.choices)
    rows = []
    for name in frame.columns:
        column = found.frame[name] if name in found.frame else frame[name]
        kind = read_cells(str(name), column).kind if name in found.frame else "left out"
        kind = "target" if name == target else kind
        shown = ", ".join(str(value)[:20] for value in frame[name].dropna().unique()[:3])
        rows.append((str(name)[:40], kind, f"{column.nunique():,}", f"{int(column.isna().sum()):,}", shown))
    terminal.print(f"{request.table}: {len(frame):,} rows, {len(frame.columns)} columns.")
    terminal.print(text_table(("column", "read as", "different", "missing", "such as"), rows, wrap="such as"))
    for one in found.findings:
        terminal.print(f"{'PROBLEM  ' if one.kind == 'problem' else ''}{one}")
    if not found.findings:
        terminal.print("Nothing unusual.")
    guess = offer = ""
    if target is not None and not found.problems:
        column = check_target(found.frame.dropna(subset=[target]), target, request.table)
        fit = Request(request.table, str(target))
        inputs = found.frame.loc[column.index].drop(columns=target)
        likelihood, guess = choose_likelihood(fit, column, str(target), inputs)
        terminal.print(f"{guess} (change: --likelihood).")
        if offer := offer_ordinal(likelihood, column, str(target)):
            terminal.print(f"{offer}.")
    findings = [
        {"column": one.column, "kind": one.kind, "text": one.text, "change": one.change} for one in found.findings
    ]
    sizes = {"rows": len(frame), "columns": len(frame.columns)}
    terminal.result({**sizes, "findings": findings, "likelihood": guess, "offer": offer})
    return 2 if found.problems else 0
