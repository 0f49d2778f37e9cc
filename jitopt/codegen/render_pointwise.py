"""Pointwise kernels: nested loops over a broadcast domain, the innermost vectorised with a masked tail.

Argument words: extents n0 .. n<R-1>; per operand its address `<name>_at`, byte strides `<name>_0` .. `<name>_<R-2>`
and, where it is strided along the last axis, `<name>_inner`; per scalar `<name>_word`.
"""

from __future__ import annotations

from jitopt.codegen.render import Module, itemsize
from jitopt.lower.spec import KernelSpec, Operand


def render(spec: KernelSpec) -> Module:
    """The module of a "pointwise" spec; constant `axes` is the number of loops R."""
    module, body, lanes = Module(spec), spec.body, spec.lanes
    axes = spec.constant("axes")
    operands = [*body.loads, *(s.target for s in body.stores)]
    module.kernel()
    module.use("loops", "axis_share", "shared_axis")
    module.line(1, f"axis = shared_axis({module.word_address('n0')}, {axes}, nthreads)")
    for a in range(axes):
        grain = lanes if a == axes - 1 else 1
        module.line(1, f"lo{a}, hi{a} = axis_share(axis == {a}, n{a}, {grain}, tid, nthreads)")
    module.scalars(1, body.scalars)
    depth = 1
    last = axes - 1
    for a in range(last):
        module.line(depth, f"for i{a} in range(lo{a}, hi{a}):")
        depth += 1
    for o in operands:
        terms = "".join(f" + i{a} * {o.name}_{a}" for a in range(last))
        module.line(depth, f"{o.name}_row = {o.name}_at{terms}")
    module.line(depth, f"full = lo{last} + (hi{last} - lo{last}) // {lanes} * {lanes}")
    module.line(depth, f"for i in range(lo{last}, full, {lanes}):")
    _element(module, depth + 1, "i", masked=False)
    module.line(depth, f"if full < hi{last}:")
    module.tail_mask(depth + 1, f"hi{last} - full")
    _element(module, depth + 1, "full", masked=True)
    return module


def _element(module: Module, depth: int, index: str, masked: bool) -> None:
    body = module.spec.body
    for operand in body.loads:
        module.load(depth, operand, _address(operand, index), masked)
    for instruction in body.instructions:
        module.instruction(depth, instruction)
    for store in body.stores:
        module.store(depth, store, _address(store.target, index), masked)


def _address(operand: Operand, index: str) -> str:
    if operand.inner == "splat":
        return f"{operand.name}_row"
    step = f"{operand.name}_inner" if operand.inner == "strided" else str(itemsize(operand.dtype))
    return f"{operand.name}_row + {index} * {step}"
