"""Matrix products: MatMul, MatMulInteger, Gemm, com.microsoft FusedMatMul."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitopt.ir.dims import Shape
from jitopt.ir.graph import Graph, Node
from jitopt.ops import cases
from jitopt.ops.operator import Array, Attribute, Attrs, Kind, Param, Sample
from jitopt.ops.rules import broadcast, broadcast_to, require, same, shape_of, shape_or_none, show
from jitopt.ops.signature import BYTES, REALS, WIDE_NUMERIC, declare, dtypes
from jitopt.ops.upgrades import take_out

FLAG = Attribute("int", 0, choices=(0, 1))


# MatMul -------------------------------------------------------------------------------------------------------------
def matmul_shape(a: Shape, b: Shape) -> Shape:
    """NumPy's matmul: batch axes broadcast, a 1-D operand loses its axis. Raises ShapeError where they do not fit."""
    require(bool(a) and bool(b), f"operands of shapes {show(a)} and {show(b)}: scalars cannot be multiplied so")
    left, right = (1, *a) if len(a) == 1 else a, (*b, 1) if len(b) == 1 else b
    same(left[-1], right[-2], f"the inner extents of {show(a)} and {show(b)} differ")
    rows = () if len(a) == 1 else (left[-2],)
    columns = () if len(b) == 1 else (right[-1],)
    return (*broadcast(left[:-2], right[:-2]), *rows, *columns)


def _matmul_rule(node: Node, attrs: Attrs) -> Sequence[Shape]:
    return [matmul_shape(shape_of(node, 0), shape_of(node, 1))]


def _products(make: Any) -> list[Sample]:
    """Samples over the ranks matmul takes; `make(shape, seed)` gives an operand."""
    shapes: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
        ((3, 5), (5, 7)), ((2, 3, 5), (5, 7)), ((2, 1, 3, 5), (4, 5, 2)), ((5,), (5, 3)), ((2, 3, 5), (5,)),
        ((5,), (5,)), ((0, 5), (5, 2)), ((2, 4, 3, 5), (2, 4, 5, 3)),
    ]  # fmt: skip
    return [cases.sample(make(a, 0), make(b, 1)) for a, b in shapes]


def _matmul_samples() -> list[Sample]:
    out = _products(lambda shape, seed: cases.floats(*shape, seed=seed))
    whole = [(cases.ints(3, 5, dtype=n, low=0), cases.ints(5, 4, dtype=n, low=0, seed=1)) for n in ("int32", "int64")]
    out += [cases.sample(a, b) for a, b in whole]
    return [*out, cases.sample(cases.floats(3, 5, dtype="float64"), cases.floats(5, 2, dtype="float64"))]


declare(
    "MatMul", Kind.CONTRACT, (Param("A", WIDE_NUMERIC), Param("B", WIDE_NUMERIC)), (Param("Y", WIDE_NUMERIC),),
    _matmul_rule, lambda attrs, a, b: np.matmul(a, b), since=(1, 9, 13), samples=_matmul_samples,
)  # fmt: skip


def integer_matmul(a: Array, b: Array, a_zero: Array | None = None, b_zero: Array | None = None) -> Array:
    """(A - zero points of its rows) @ (B - zero points of its columns), exact in int32."""
    left = a.astype(np.float64) - _zero(a_zero, row=True)
    right = b.astype(np.float64) - _zero(b_zero, row=False)
    return np.asarray(np.matmul(left, right)).astype(np.int64).astype(np.int32)


def _zero(zero: Array | None, *, row: bool) -> Any:
    if zero is None:
        return 0.0
    wide = zero.astype(np.float64)
    return wide[:, None] if row and zero.ndim == 1 and zero.size > 1 else wide


def _matmul_integer_samples() -> list[Sample]:
    def make(shape: tuple[int, ...], seed: int) -> Array:
        return cases.ints(*shape, low=0, high=255, dtype="uint8", seed=seed)

    a, signed = make((3, 5), 0), cases.ints(5, 4, low=-128, high=128, dtype="int8", seed=2)
    zero = cases.scalar(117, "uint8")
    return [
        *(s for s in _products(make) if min(x.ndim for x in s.inputs) > 1),
        cases.sample(a, signed, zero),
        cases.sample(a, signed, zero, cases.scalar(-3, "int8")),
        cases.sample(a, signed, None, cases.vector(1, -2, 3, 4, dtype="int8")),
    ]


declare(
    "MatMulInteger", Kind.CONTRACT,
    (
        Param("A", BYTES, "T1"), Param("B", BYTES, "T2"), Param("a_zero_point", BYTES, "T1", optional=True),
        Param("b_zero_point", BYTES, "T2", optional=True),
    ),
    (Param("Y", dtypes("int32"), "T3"),), _matmul_rule, lambda attrs, *arrays: integer_matmul(*arrays), since=(10,),
    samples=_matmul_integer_samples,
)  # fmt: skip


# Gemm ---------------------------------------------------------------------------------------------------------------
def _gemm_rule(node: Node, attrs: Attrs) -> Sequence[Shape]:
    a, b, c = shape_of(node, 0), shape_of(node, 1), shape_or_none(node, 2)
    require(len(a) == 2 and len(b) == 2, f"A and B must be matrices, not {show(a)} and {show(b)}")
    rows, inner = (a[1], a[0]) if attrs.transA else a
    inner_b, columns = (b[1], b[0]) if attrs.transB else b
    same(inner, inner_b, f"the inner extents of A {show(a)} and B {show(b)} differ")
    if c is not None:
        broadcast_to((rows, columns), c, "C")
    return [(rows, columns)]


def _gemm(attrs: Attrs, a: Array, b: Array, c: Array | None = None) -> Array:
    product = np.matmul(a.T if attrs.transA else a, b.T if attrs.transB else b)
    out = product if attrs.alpha == 1 else attrs.alpha * product
    return np.asarray(out if c is None or attrs.beta == 0 else out + (c if attrs.beta == 1 else attrs.beta * c))


def _gemm_samples() -> list[Sample]:
    a, b, row = cases.floats(3, 5), cases.floats(5, 4, seed=1), cases.floats(4, seed=2)
    whole = cases.ints(3, 5, dtype="int32"), cases.ints(5, 4, dtype="int32", seed=1)
    return [
        cases.sample(a, b, row),
        cases.sample(a, b, row, alpha=0.5, beta=2.0),
        cases.sample(a.T.copy(), b, cases.floats(3, 1), transA=1),
        cases.sample(a, b.T.copy(), cases.floats(3, 4), transB=1, alpha=-1.5),
        cases.sample(a.T.copy(), b.T.copy(), cases.floats(), transA=1, transB=1),
        cases.sample(a, b, row, beta=0.0),
        cases.sample(a, b, opset=11),
        cases.sample(cases.floats(0, 5), b, row),
        cases.sample(*(x.astype("float64") for x in (a, b, row))),
        cases.sample(*whole, cases.ints(4, dtype="int32"), opset=13),
    ]


declare(
    "Gemm", Kind.CONTRACT,
    (Param("A", WIDE_NUMERIC), Param("B", WIDE_NUMERIC), Param("C", WIDE_NUMERIC, optional=True)),
    (Param("Y", WIDE_NUMERIC),), _gemm_rule, _gemm, since=(7, 9, 11, 13), samples=_gemm_samples,
    attributes={"alpha": Attribute("float", 1.0), "beta": Attribute("float", 1.0), "transA": FLAG, "transB": FLAG},
)  # fmt: skip


# com.microsoft ------------------------------------------------------------------------------------------------------
def _arranged(rank: int, batch_first: bool, transposed: bool) -> list[int]:
    """The permutation FusedMatMul applies to an operand: the first axis behind the batch, then the last two swapped."""
    perm = list(range(rank))
    if rank < 2:
        return perm
    if batch_first:
        perm = [*range(1, rank - 1), 0, rank - 1]
    return [*perm[:-2], perm[-1], perm[-2]] if transposed else perm


def _fused_rule(node: Node, attrs: Attrs) -> Sequence[Shape]:
    a, b = shape_of(node, 0), shape_of(node, 1)
    left = tuple(a[i] for i in _arranged(len(a), attrs.transBatchA, attrs.transA))
    right = tuple(b[i] for i in _arranged(len(b), attrs.transBatchB, attrs.transB))
    return [matmul_shape(left, right)]


def _fused(attrs: Attrs, a: Array, b: Array) -> Array:
    left = a.transpose(_arranged(a.ndim, attrs.transBatchA, attrs.transA))
    right = b.transpose(_arranged(b.ndim, attrs.transBatchB, attrs.transB))
    return np.asarray(attrs.alpha * np.matmul(left, right))


def _fused_samples() -> list[Sample]:
    a, b = cases.floats(2, 3, 5), cases.floats(2, 5, 4, seed=1)
    at, bt = a.swapaxes(-1, -2).copy(), b.swapaxes(-1, -2).copy()
    deep, other = cases.floats(3, 2, 4, 5), cases.floats(2, 4, 5, 6, seed=1)
    return [
        cases.sample(a, b, alpha=0.125),
        cases.sample(at, b, transA=1),
        cases.sample(a, bt, transB=1, alpha=2.0),
        cases.sample(at, bt, transA=1, transB=1),
        cases.sample(deep, other, transBatchA=1),
        cases.sample(deep, other.transpose(2, 0, 1, 3).copy(), transBatchA=1, transBatchB=1),
    ]


declare(
    "com.microsoft.FusedMatMul", Kind.CONTRACT, (Param("A", REALS), Param("B", REALS)), (Param("Y", REALS),),
    _fused_rule, _fused, since=(1,), samples=_fused_samples,
    attributes={
        "alpha": Attribute("float", 1.0), "transA": FLAG, "transB": FLAG, "transBatchA": FLAG, "transBatchB": FLAG,
    },
)  # fmt: skip


def _to_fused_matmul(graph: Graph, node: Node) -> None:
    operands, attrs = list(node.inputs), dict(node.attrs)
    graph.add("com.microsoft.FusedMatMul", operands, outputs=take_out(graph, node), name=node.name, **attrs)


declare(
    "com.microsoft.TransposeMatMul", Kind.CONTRACT, (Param("A", REALS), Param("B", REALS)), (Param("Y", REALS),),
    lambda node, attrs: [None], None, since=(1,), upgrades=((2, _to_fused_matmul),),
    samples=lambda: [cases.sample(cases.floats(2, 5, 3), cases.floats(2, 5, 4), transA=1, alpha=0.5)],
    attributes={"alpha": Attribute("float", 1.0), "transA": FLAG, "transB": FLAG},
)  # fmt: skip
