"""The report: one HTML page on what was fitted, how well it predicts, and whether its uncertainty can be trusted."""

from tightgp.app.report.content import Content
from tightgp.app.report.gather import gather
from tightgp.app.report.render import render, write

__all__ = ["Content", "gather", "render", "write"]
