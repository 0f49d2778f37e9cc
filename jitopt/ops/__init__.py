"""Operators: one declaration each, grouped by theme; importing the package fills the table."""

from importlib import import_module

from jitopt.ops.registry import find, operator_of, operators, register

_THEMES = (
    "elementwise", "activation", "binary", "cast", "variadic", "reduction", "softmax", "selection", "normalisation",
    "contraction", "convolution", "window", "resize", "quantisation", "contrib",
)  # fmt: skip

for _theme in _THEMES:
    import_module(f"jitopt.ops.{_theme}")

__all__ = ["find", "operator_of", "operators", "register"]
