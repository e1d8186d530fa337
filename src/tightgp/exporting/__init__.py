"""Predictions as programs that run without tightgp: StableHLO and ONNX."""

from tightgp.exporting.export import export

__all__ = ["export"]
