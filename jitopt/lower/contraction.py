"""MatMul and Gemm: A read in place, B packed once where it is constant, the epilogue on the registers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jitopt_kernels.packing import best_tile, gemm_scratch, pack_b

from jitopt.ir.dims import Dim, Shape, product, select_eq
from jitopt.ir.graph import Node, Value
from jitopt.lower import epilogue
from jitopt.lower.epilogue import ACCUMULATOR, Epilogue
from jitopt.lower.loops import Strides, contiguous_strides, merge_axes
from jitopt.lower.program import Address, Step
from jitopt.lower.spec import KernelSpec, table, unique
from jitopt.lower.strided import source_of, transposed_strides
from jitopt.lower.template import Template, serve, unusable
from jitopt.ops import operator_of

if TYPE_CHECKING:
    from jitopt_kernels.targets import Target

    from jitopt.lower.context import Context
    from jitopt.lower.groups import Group

_FLOAT = frozenset({"float32"})
_NONE: Dim = 0
# Argument words of a "gemm" kernel, in the order of the library's parameters; the epilogue's follow.
GEMM_WORDS = (
    "a", "a_outer", "a_inner", "a_row", "b", "b_outer", "b_inner", "b_row", "outer", "inner", "m", "n", "k",
    "y_inner", "y_row",
)  # fmt: skip


@dataclass(frozen=True)
class Product:
    """A matrix product as the kernel sees it: extents, two batch levels, strides in elements."""

    m: Dim
    n: Dim
    k: Dim
    batch: tuple[Dim, Dim]
    a: tuple[Dim, Dim, Dim]  # strides: outer, inner, row
    b: tuple[Dim, Dim, Dim]
    y: tuple[Dim, Dim, Dim]
    layout: str  # "packed", "rows", "columns"
    image_axes: int = 0  # leading axes of the result that the outer loop runs over


def product_of(node: Node, through: Collection[Node] = (), store: Node | None = None) -> Product | None:
    """The node as a product, or None where it is not one the kernel computes.

    Operands made by a Transpose of `through` are read where its input lies; the result is stored as the Transpose
    `store` would.
    """
    attrs = operator_of(node).attrs(node)
    (a, a_shape, a_strides), (b, b_shape, b_strides) = (_matrix(node.arg(i), i, through) for i in (0, 1))
    transposed = node.op == "Gemm" and bool(attrs.transB)
    k, n = (b_shape[-1], b_shape[-2]) if transposed else (b_shape[-2], b_shape[-1])
    if a_strides[-1] != 1 and k != 1:
        return None
    domain = node.output.shape[: max(len(a_shape), len(b_shape)) - 2]
    if len(b_shape) == 2 and b.constant is not None and store is None and a is node.arg(0):
        return Product(product(a_shape[:-1]), n, k, (1, 1), (0, 0, k), (0, 0, 0), (0, 0, n), "packed")
    m = a_shape[-2]
    if store is None:
        y_strides = contiguous_strides((*domain, m, n))
    else:
        _, y_strides = transposed_strides(store)
        if len(y_strides) != len(domain) + 2 or y_strides[-1] != 1:
            return None
    nest = merge_axes(domain, [_batch(a_shape, a_strides, domain), _batch(b_shape, b_strides, domain), y_strides[:-2]])
    if len(nest.extents) > 2:
        return None
    image_axes = nest.first[1] if len(nest.extents) == 2 else 0
    none: Strides = (0,) * (2 - len(nest.extents))
    outer, inner = _two((*(1 for _ in none), *nest.extents))
    (ao, ai), (bo, bi), (yo, yi) = (_two((*none, *s)) for s in nest.strides)
    if len(b_shape) == 2 and b.constant is not None:
        layout, b_row = "packed", _NONE
    elif transposed or (b_strides[-1] != 1 and b_strides[-2] == 1):
        layout, b_row = "columns", b_strides[-2] if transposed else b_strides[-1]
    elif b_strides[-1] == 1 or n == 1:
        layout, b_row = "rows", b_strides[-2]
    else:
        return None
    return Product(
        m, n, k, (outer, inner), (ao, ai, a_strides[-2]), (bo, bi, b_row), (yo, yi, y_strides[-2]), layout, image_axes
    )


def _matrix(value: Value, index: int, through: Collection[Node]) -> tuple[Value, Shape, Strides]:
    """Where an operand lies, its shape as at least a matrix, and its strides."""
    source, strides = source_of(value, value.producer is not None and value.producer in through)
    shape = value.shape
    if len(shape) == 1:
        shape, strides = ((1, shape[0]), (shape[0], 1)) if index == 0 else ((shape[0], 1), (1, 1))
    return source, shape, strides


def _two(strides: Sequence[Dim]) -> tuple[Dim, Dim]:
    outer, inner = strides
    return outer, inner


def _batch(shape: Shape, strides: Strides, domain: Shape) -> Strides:
    """Strides of an operand along the batch axes of the product."""
    lead = shape[:-2]
    padding = len(domain) - len(lead)
    found: list[Dim] = [0] * padding
    for extent, full, stride in zip(lead, domain[padding:], strides, strict=False):
        found.append(stride if extent == full else select_eq(extent, 1, 0, stride))
    return tuple(found)


class Gemm(Template):
    """MatMul of any rank, Gemm without a transposed A."""

    name = "gemm"

    def refuses(self, node: Node) -> str | None:
        reason = unusable([*node.inputs, *node.outputs], _FLOAT)
        if reason is not None:
            return reason
        if node.op == "Gemm" and operator_of(node).attrs(node).transA:
            return "A is transposed"
        found = product_of(node)
        if found is None:
            return "the batch axes do not merge into two loops"
        addend = node.input(2)
        if (
            addend is not None
            and epilogue.access(addend, node.output, found.image_axes) is None
            and not _single(addend)
        ):
            return "C is neither a row vector, a number nor a whole matrix"
        return None

    def absorbs(self, group: Group, node: Node, where: str) -> bool:
        found = product_of(group.anchor, group.through)
        if where != "after" or found is None:
            return False
        if len(group.anchor.arg(1).shape) == 1 and not _row_by_row(group, node):
            return False
        return epilogue.absorbs(group, node, group.anchor.output, found.image_axes)

    def looks_through(self, node: Node, transposes: Collection[Node]) -> bool:
        return product_of(node, transposes) is not None

    def stores_transposed(self, group: Group, node: Node) -> bool:
        found = product_of(group.anchor, group.through, node)
        if found is None:
            return False
        output, image_axes = group.anchor.output, found.image_axes
        kinds = [epilogue.access(v, output, image_axes) for v in group.inputs if v not in group.anchor.inputs]
        return all(k is not None and k[0] != "unit" for k in kinds)

    def lower(self, group: Group, context: Context) -> list[Step]:
        node = group.anchor
        store = next((n for n in group.nodes if n.op == "Transpose"), None)
        found = product_of(node, group.through, store)
        assert found is not None
        attrs = operator_of(node).attrs(node)
        ep = Epilogue(group, context, node.output, found.image_axes)
        if store is not None:
            ep.store_as(store, found.y[0])
        body, words, args = ep.finish(_result(ep, node, attrs))
        heights, panel = _tile(found.n, context.target)
        constants: dict[str, Any] = {"layout": found.layout, "heights": heights, "panel": panel}
        constants["single_row"] = not isinstance(found.m, int) or found.m == 1
        constants["whole"] = isinstance(found.n, int) and found.n % (panel * context.lanes) == 0
        spec = KernelSpec("gemm", context.lanes, table(constants), body, unique((*GEMM_WORDS, *words)))
        a, b = (_matrix(node.arg(i), i, group.through)[0] for i in (0, 1))
        a_strides, b_strides = (s * 4 for s in found.a), (s * 4 for s in found.b)
        head: list[Any] = [
            context.address(a), *a_strides, _b_address(b, node, attrs, context, panel), *b_strides,
            *found.batch, found.m, found.n, found.k, found.y[1] * 4, found.y[2] * 4,
        ]  # fmt: skip
        scratch = gemm_scratch(found.k, context.lanes, heights, panel, found.layout)
        flops = product((*found.batch, found.m, found.n, found.k))
        reads = [a, *ep.reads] if b.constant is not None and found.layout == "packed" else [a, b, *ep.reads]
        return [context.step(spec, [*head, *args], reads, ep.writes, group, scratch=scratch, work=flops)]


def _tile(columns: Dim, target: Target) -> tuple[tuple[int, ...], int]:
    """Heights and panel of the target's tile that wastes the fewest columns; the narrowest where n is symbolic."""
    tiles = ((target.gemm_heights, target.gemm_panel), (target.conv_heights, target.conv_panel))
    return best_tile(columns, target.lanes, tiles) if isinstance(columns, int) else min(tiles, key=lambda tile: tile[1])


def _row_by_row(group: Group, node: Node) -> bool:
    """Every outside operand lies as the result does: with a vector for B, the result has no axis of columns."""
    inside = {v for n in group.nodes for v in n.outputs}
    outside = [v for v in node.inputs if v is not None and v not in inside and not _single(v)]
    return all(v.shape == group.anchor.output.shape for v in outside)


def _single(value: Value) -> bool:
    return value.constant is not None and value.constant.size == 1


def _result(ep: Epilogue, node: Node, attrs: Any) -> str:
    """alpha * acc + beta * C, leaving out what is 1."""
    b, out = ep.builder, ACCUMULATOR
    if node.op != "Gemm":
        return out
    if attrs.alpha != 1.0:
        out = b.emit("mul", out, b.literal(attrs.alpha, "float32"))
    addend = node.input(2)
    if addend is not None and attrs.beta != 0.0:
        term = b.ref(addend)
        if attrs.beta != 1.0:
            term = b.emit("mul", term, b.literal(attrs.beta, "float32"))
        out = b.emit("add", out, term)
    return out


def _b_address(b: Value, node: Node, attrs: Any, context: Context, panel: int) -> Address:
    if b.constant is None or len(b.shape) > 2:
        return context.address(b)
    transposed = node.op == "Gemm" and bool(attrs.transB)
    lanes = context.lanes
    key = ("gemm", lanes, panel, transposed)

    def packing(array: Any) -> Any:
        matrix = array if array.ndim == 2 else array.reshape(-1, 1)
        return pack_b(matrix.T if transposed else matrix, lanes, panel)

    return Address(context.pack(b.constant, key, packing))


serve(Gemm(), "MatMul", "Gemm")
