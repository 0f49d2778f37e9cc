"""ONNX files in and out; the only user of the `onnx` package."""

from jitopt.onnx_io.reader import read_model
from jitopt.onnx_io.writer import write_model

__all__ = ["read_model", "write_model"]
