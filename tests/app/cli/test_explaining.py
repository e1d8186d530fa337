"""What is said of errors and warnings, and that it is said of those which there are."""

import ast
from pathlib import Path

import pytest

from tests.app.cli.conftest import run
from tightgp.app.cli import explaining, failures

SOURCE = Path(explaining.__file__).parents[2]
#: What only the program meets, and messages that are made of other messages.
INTERNAL = ("no memory for another thread", "{} target {} {}", "column {} {}")


def texts(node: ast.expr) -> str:
    """A string as it stands in the source, with {} for what is put in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
    if isinstance(node, ast.BinOp):
        return texts(node.left) + texts(node.right)
    return "{}"


def strings(path: Path) -> list[str]:
    """All strings of a file, and those of its raised errors joined from their arguments."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [texts(node) for node in ast.walk(tree) if isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp)]


def messages(path: Path) -> list[str]:
    """The messages of the errors that a file raises and of its warnings, where they stand there."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        call = node.exc if isinstance(node, ast.Raise) else node
        if isinstance(call, ast.Call) and (isinstance(node, ast.Raise) or ast.unparse(call.func) == "warnings.warn"):
            found += [" ".join(texts(argument) for argument in call.args if not isinstance(argument, ast.Name))]
    return [message for message in found if len(message.replace("{}", "").strip(" :;,-")) > 3]


def files(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((SOURCE / folder).rglob("*.py"))]


def test_every_message_of_the_command_line_and_its_tables_is_explained():
    found = [message for path in files("app/cli", "app/tables") for message in messages(path)]
    assert len(found) > 70
    assert [m for m in found if explaining.name_of(m) is None and m not in INTERNAL] == []


def test_every_warning_is_explained():
    told = ["; Gaussian noise takes them at their word", "The inputs seem to say nothing about the target"]
    told += ["the training rows had none, so the median fills them", "levels that the training rows did not have"]
    told += ["inducing points are distinct"]
    written = " ".join(text for path in files("") for text in strings(path))
    for message in told:
        assert explaining.name_of(message)
        assert message in written


def test_every_explanation_stands_for_messages_that_there_are():
    source = [text for path in files("") for text in strings(path) if path.name != "explaining.py"]
    of_the_system = ("No space left on device", "Permission denied", "Read-only file system")
    for name, one in explaining.catalogue().items():
        assert explaining.name_of(one.example) == name
        for text in one.texts:
            pieces = [piece for piece in text.split("{}") if piece]
            assert text in of_the_system or any(all(p in s for p in pieces) for s in source), (name, text)


@pytest.mark.parametrize(
    ("message", "name"),
    [
        ("out of memory: 3.2 GiB could not be allocated; use fewer rows", "out-of-memory"),
        ("t.csv: --target z: there is no column z; the columns are a, b", "no-such-column"),
        ("a.csv: No space left on device", "cannot-write"),
        ("X has NaN or infinite values in 3 row(s): 1, 2, 3; remove or impute these rows", "nan-rows"),
        ("something that nobody has thought of", None),
    ],
)
def test_a_message_leads_to_its_explanation(message, name):
    assert explaining.name_of(message) == name
    assert failures.more_about(message) == (f" (more: tightgp explain {name})" if name else "")


def test_the_command_explains_one_or_lists_all():
    ran = run("explain", "nan-rows")
    assert ran.code == 0
    assert "What to do:" in ran.out
    assert "out-of-memory" in run("explain").out
    assert run("explain", "no-such-name").code == 2
