"""The command line: ``tightgp fit``, ``predict``, ``compare``, ``report``, ``datasets``, ``demo``, ``info``."""

from tightgp.cli.app import main

__all__ = ["main"]
