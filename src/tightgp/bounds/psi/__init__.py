"""Kernel values averaged over uncertain inputs: the ψ-statistics (maths 7.1–7.3)."""

from tightgp.bounds.psi.moments import Moments, check, moments, numbers_per_row, pack, unpack

__all__ = ["Moments", "check", "moments", "numbers_per_row", "pack", "unpack"]
