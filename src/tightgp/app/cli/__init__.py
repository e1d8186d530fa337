"""The command line: ``tightgp fit``, ``predict``, ``compare``, ``report``, ``datasets``, ``demo``, ``info``."""

from tightgp.app.cli.app import main

__all__ = ["main"]
