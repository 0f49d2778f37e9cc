"""The two functions an anchor kernel is given: what to do with a vector of finished sums, whole or cut off.

They read the body's argument words, address and image stride of every load and store, then scalars, from the kernel's
argument block, so the core of the kernel need not know them. In row-major outputs a cut vector is stored through its
mask; in blocked ones the lanes beyond C are stored as zero.
"""

from __future__ import annotations

from jitopt_kernels.packing import LINE_BYTES

from jitopt.codegen.render import Module, itemsize
from jitopt.lower.spec import FIRST_WORD, Operand


def render_finish(m: Module, blocked: bool, ahead: int = 0) -> None:
    """Write `finish` and `finish_tail` into the module, and begin its core.

    With `ahead` also `prepare`, which asks the cache for as many elements of each operand that lies like the output.
    """
    m.use("simd.epilogue", "epilogue")
    m.use("abi", "word")
    for masked in (False, True):
        name, extra = ("finish_tail", ", mask") if masked else ("finish", "")
        m.lines(0, f"@epilogue({m.spec.lanes})", f"def {name}(acc, image, offset, column, args{extra}):")
        _body(m, masked, blocked)
        m.lines(0, "", "")
    if ahead:
        _prepare(m, ahead)
    m.core()


def _body(m: Module, masked: bool, blocked: bool) -> None:
    body = m.spec.body
    place = _places(m)
    m.scalars(1, body.scalars, place)
    for operand in body.loads:
        m.load(1, Operand(operand.name, operand.dtype, "splat" if operand.inner == "splat" else "unit"),
               _address(operand, place), masked and not blocked)  # fmt: skip
    for instruction in body.instructions:
        m.instruction(1, instruction)
    for store in body.stores:
        address = _address(store.target, place)
        if masked and blocked:
            m.use("simd", "select", "splat", "store")
            zero = f'splat(0, "{store.target.dtype}", {m.spec.lanes})'
            m.line(1, f"store({address}, select(mask, {store.source}, {zero}))")
        else:
            m.store(1, store, address, masked)


def _prepare(m: Module, ahead: int) -> None:
    place = _places(m)
    m.lines(0, f"@epilogue({m.spec.lanes})", "def prepare(image, offset, args):")
    for operand in m.spec.body.loads:
        if operand.inner == "unit":
            m.use("simd", "prefetch")
            lines = -(-ahead * itemsize(operand.dtype) // LINE_BYTES) + 1
            m.line(1, f"prefetch({_address(operand, place)}, {lines})")
    m.lines(1, "pass", "", "")


def _places(m: Module) -> dict[str, str]:
    """Text of each argument word, by name."""
    return {word: f"word(args, {FIRST_WORD + i})" for i, word in enumerate(m.spec.words)}


def _address(operand: Operand, place: dict[str, str]) -> str:
    within = {"unit": " + offset", "column": " + column", "splat": ""}[operand.inner]
    return f"{place[f'{operand.name}_at']} + image * {place[f'{operand.name}_image']}{within}"
