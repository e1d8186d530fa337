"""The command line: ``tightgp inspect``, ``fit``, ``predict``, ``compare``, ``report``, ``datasets`` and others."""

from tightgp.app.cli.app import main

__all__ = ["main"]
