"""Data sets, and how their rows are ordered, placed on devices and searched."""

from tightgp.data.dataset import Batches, Dataset

__all__ = ["Batches", "Dataset"]
