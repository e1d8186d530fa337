"""The report: one HTML file that says what was fitted, how well it predicts, and whether to trust it."""

from tightgp.report.content import Content
from tightgp.report.gather import gather
from tightgp.report.render import render, write

__all__ = ["Content", "gather", "render", "write"]
