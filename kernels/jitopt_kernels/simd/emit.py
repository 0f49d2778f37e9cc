"""What the device definitions share: typing of operands, splats, and calls of LLVM's intrinsics.

Elementwise functions accept a Vec, a Mask or a plain scalar of a table dtype; a scalar operand beside a Vec takes the
Vec's dtype. A scalar is treated as a register without lanes, so one definition serves both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError

from .dtypes import DTYPES, DType
from .registers import Vec

INT1, INT8, INT32, INT64 = (ir.IntType(bits) for bits in (1, 8, 32, 64))
_BY_SCALAR = {dtype.scalar: dtype for dtype in DTYPES.values()}


def operand(numba_type: types.Type) -> bool:
    """Whether an argument is a register or a scalar of a table dtype."""
    return isinstance(numba_type, Vec) or types.unliteral(numba_type) in _BY_SCALAR


def element(numba_type: types.Type) -> DType:
    """The element dtype of a register or scalar type."""
    return numba_type.element if isinstance(numba_type, Vec) else _BY_SCALAR[types.unliteral(numba_type)]


def _takes(target: DType, scalar: types.Type) -> bool:
    """Whether a scalar may stand beside elements of `target`: no float beside integers, no number beside bool."""
    kind = element(scalar).kind
    return kind == "b" if target.kind == "b" else kind != "b" and (kind != "f" or target.kind == "f")


def common(operands: Sequence[types.Type], kinds: str = "fiub") -> types.Type | None:
    """The type all operands take: that of the Vecs, else that of the scalars that are not literals.

    None when one is no operand, when Vecs differ, when a scalar does not fit, or when the dtype is not one of `kinds`.
    """
    if not all(operand(t) for t in operands):
        return None
    vecs = {t for t in operands if isinstance(t, Vec)}
    if not vecs:
        vecs = {t for t in operands if not isinstance(t, types.Literal)} or {types.unliteral(operands[0])}
    if len(vecs) != 1:
        return None
    (result,) = vecs
    target = element(result)
    if target.kind not in kinds or not all(isinstance(t, Vec) or _takes(target, t) for t in operands):
        return None
    return result


def formal(result: types.Type, operands: Sequence[types.Type]) -> list[types.Type]:
    """The signature's argument types once `common` is known: Vecs stay, scalars are cast to its element dtype."""
    return [t if isinstance(t, Vec) else element(result).scalar for t in operands]


def mismatch(name: str, operands: Sequence[types.Type]) -> TypingError:
    """The error of a call whose operands have no common type."""
    return TypingError(f"{name}({', '.join(map(str, operands))}): operands need one dtype and one number of lanes")


def splat(builder: ir.IRBuilder, scalar: ir.Value, lanes: int) -> ir.Value:
    """A vector with `scalar` in every lane."""
    vector = ir.VectorType(scalar.type, lanes)
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, scalar, INT32(0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(INT32, lanes), [0] * lanes))


def constant(like: ir.Type, value: float) -> ir.Constant:
    """A constant of a vector or scalar LLVM type with `value` everywhere."""
    if isinstance(like, ir.VectorType):
        return ir.Constant(like, [ir.Constant(like.element, value)] * like.count)
    return ir.Constant(like, value)


def spread(builder: ir.IRBuilder, result: types.Type, args: Sequence[ir.Value]) -> list[ir.Value]:
    """Arguments as registers of `result`'s lanes: scalars are splatted; nothing changes when `result` is a scalar."""
    if not isinstance(result, Vec):
        return list(args)
    return [a if isinstance(a.type, ir.VectorType) else splat(builder, a, result.lanes) for a in args]


def mangle(llvm_type: ir.Type) -> str:
    """The suffix by which LLVM names an overloaded intrinsic: v8f32, i64, p0."""
    if isinstance(llvm_type, ir.VectorType):
        return f"v{llvm_type.count}{mangle(llvm_type.element)}"
    if isinstance(llvm_type, ir.PointerType):
        return "p0"
    return {"float": "f32", "double": "f64"}.get(str(llvm_type), str(llvm_type))


def call(builder: ir.IRBuilder, name: str, result: ir.Type, *args: ir.Value, over: Sequence[ir.Type] = ()) -> ir.Value:
    """Call LLVM intrinsic `name`, overloaded on the types `over` (by default the type of its first argument).

    Declared by its full name: `ir.Module.declare_intrinsic` refuses vector types.
    """
    suffix = ".".join(mangle(t) for t in (over or (args[0].type,)))
    function_type = ir.FunctionType(result, [a.type for a in args])
    function = cgutils.get_or_insert_function(builder.module, function_type, f"llvm.{name}.{suffix}")
    return builder.call(function, args)


def pointer(builder: ir.IRBuilder, address: ir.Value, to: ir.Type) -> ir.Value:
    """A pointer to `to` at an integer address."""
    return builder.inttoptr(address, to.as_pointer())


def with_lanes(llvm_type: ir.Type, lanes: int | None) -> ir.Type:
    """`llvm_type` repeated over the lanes; itself for a scalar (lanes None)."""
    return llvm_type if lanes is None else ir.VectorType(llvm_type, lanes)


def lanes_of(numba_type: Any) -> int | None:
    """Lanes of a register type, None of a scalar."""
    return numba_type.lanes if isinstance(numba_type, Vec) else None


def keep_loop(builder: ir.IRBuilder, last: ir.Block) -> None:
    """Ask LLVM not to unroll or peel the loop whose body ends in block `last`: its copies would cost compile time."""
    module = builder.module
    flag = module.add_metadata([ir.MetaDataString(module, "llvm.loop.unroll.disable")])
    loop = ir.MDValue(module, [flag], name=str(len(module.metadata)))
    loop.operands = (loop, flag)  # a loop's metadata node starts with itself, which makes it this loop's own
    last.terminator.set_metadata("llvm.loop", loop)
