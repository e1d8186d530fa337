"""The reference of the command line, from the program itself."""

from typing import Any

import typer

from tightgp.app.cli import failures
from tightgp.app.cli.app import app


def page() -> str:
    """Markdown: each command with its arguments and options."""
    group: Any = typer.main.get_command(app)
    parts = [
        "# Command line",
        "What `--help` says of each command; the texts come from the program.",
        "\n".join(_commands("tightgp", group)),
        _exit_codes(),
    ]
    return "\n\n".join(parts) + "\n"


def _commands(name: str, command: Any) -> list[str]:
    """A command's section, or those of a group's commands."""
    if hasattr(command, "commands"):
        found: list[str] = []
        for part, inner in command.commands.items():
            found += _commands(f"{name} {part}", inner)
        return found
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and not getattr(p, "hidden", False)]
    needed = [f"{o.opts[0]} {_takes(o)}" for o in options if o.required]
    usage = " ".join([name, *(_takes(a) for a in arguments), *needed, "[OPTIONS]"])
    lines = [f"## {name}", "", command.help or "", "", "```sh", usage, "```", ""]
    if arguments:
        lines += [f"- `{_takes(a)}`: {getattr(a, 'help', '') or ''}" for a in arguments] + [""]
    if options:
        lines += ["| option | what it does | default |", "| --- | --- | --- |"]
        lines += [_option(o) for o in options] + [""]
    return lines


def _option(option: Any) -> str:
    names = ", ".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts])
    takes = "" if option.is_flag else f" `{_takes(option)}`"
    empty = option.default is None or option.default is False or option.default == () or option.required
    default = "required" if option.required else "" if empty else f"`{option.default}`"
    return f"| {names}{takes} | {_cell(option.help or '')} | {default} |"


def _takes(parameter: Any) -> str:
    """What stands for the value of a parameter."""
    return parameter.metavar or (parameter.name.upper() if parameter.param_type_name == "argument" else "VALUE")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _exit_codes() -> str:
    said = (failures.__doc__ or "").split("Exit codes:")[1]
    rows = [part.strip().rstrip(".").split(" ", 1) for part in " ".join(said.split()).split(", ")]
    table = "\n".join(f"| {code} | {meaning} |" for code, meaning in rows)
    return f"## Exit codes\n\n| code | meaning |\n| ---: | --- |\n{table}"
