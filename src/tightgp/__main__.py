"""``python -m tightgp``: the command line."""

from tightgp.app.cli import main

main()
