"""ONNX files in and out; the only user of the `onnx` package."""

from jitopt.onnx_io.reader import read_model

__all__ = ["read_model"]
