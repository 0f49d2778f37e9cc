"""Rewrites of graphs: one file a pass; `pipelines.py` lists their order, `optimize.py` runs them."""

from jitopt.passes.infer import infer
from jitopt.passes.optimize import OptimizeReport, optimize

__all__ = ["OptimizeReport", "infer", "optimize"]
