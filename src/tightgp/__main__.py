"""``python -m tightgp``: the command line."""

from tightgp.cli import main

main()
