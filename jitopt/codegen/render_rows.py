"""Row kernels: pointwise bodies with folds along one axis, run as few passes over each row as the folds demand.

Softmax, the normalisations and all Reduce operators are bodies of this template. A value is at level k when k folds
lie on the longest path to it; pass k runs over the row, computes what is at level k, and completes the folds there.
Cheap values of earlier levels are computed again; dear ones (exp, tanh, ...) are kept in a scratch row.

Two ways to vectorise, constant `direction`: "horizontal", along the folded axis itself (lanes are combined at the end
of a pass, in a fixed tree order), or "vertical", along another axis that is contiguous (each lane folds its own row).

Argument words: outer extents n0 .. n<A-1>, `length` of the folded axis, in vertical kernels `inner`; per operand
`<name>_at`, byte strides `<name>_0` .. `<name>_<A-1>`, `<name>_r` where it varies along the folded axis in a vertical
kernel; per scalar `<name>_word`.
"""

from __future__ import annotations

from jitopt.codegen.render import Module, itemsize
from jitopt.lower.schedule import Pass, schedule
from jitopt.lower.spec import Instruction, KernelSpec, Operand, Store

# fold -> (combining formula, identity by dtype kind, combination of the lanes)
_FOLDS: dict[str, tuple[str, str, str]] = {
    "reduce_sum": ("add", "zero", "hsum"),
    "reduce_max": ("maximum", "lowest", "hmax"),
    "reduce_min": ("minimum", "highest", "hmin"),
    "reduce_prod": ("mul", "one", "hprod"),
}
_IDENTITY = {
    ("zero", "float32"): "0.0", ("one", "float32"): "1.0",
    ("lowest", "float32"): 'float("-inf")', ("highest", "float32"): 'float("inf")',
    ("zero", "int32"): "0", ("one", "int32"): "1", ("lowest", "int32"): "-(2**31)", ("highest", "int32"): "2**31 - 1",
    ("zero", "int64"): "0", ("one", "int64"): "1", ("lowest", "int64"): "-(2**63)", ("highest", "int64"): "2**63 - 1",
}  # fmt: skip


def render(spec: KernelSpec) -> Module:
    """The module of a "rows" spec; constants: `axes` (outer loops A) and `direction`."""
    return _Rows(spec).render()


class _Rows:
    def __init__(self, spec: KernelSpec) -> None:
        self.spec, self.body, self.lanes = spec, spec.body, spec.lanes
        self.axes: int = spec.constant("axes")
        self.vertical = spec.constant("direction") == "vertical"
        self.plan = schedule(spec.body)
        self.module = Module(spec)
        self.operands = [*self.body.loads, *(s.target for s in self.body.stores)]

    def render(self) -> Module:
        m = self.module
        m.kernel()
        if self.plan.kept:
            m.scratch()
        m.scalars(1, self.body.scalars)
        if any("length" in i.args for i in self.body.instructions):
            m.use("simd", "splat")
            m.line(1, f'length_v = splat(float(length), "float32", {self.lanes})')
        m.use("abi", "share")
        rows = " * ".join(f"n{a}" for a in range(self.axes)) or "1"
        if self.vertical:
            m.line(1, f"columns = (inner + {self.lanes - 1}) // {self.lanes}")
            rows += " * columns"
        m.line(1, f"first, last = share({rows}, 1, tid, nthreads)")
        m.line(1, "for row in range(first, last):")
        m.line(2, "at = row")
        if self.vertical:
            m.lines(2, f"column = at % columns * {self.lanes}", "at = at // columns")
        for a in reversed(range(self.axes)):
            m.line(2, f"i{a} = at % n{a}" if a else "i0 = at")
            if a:
                m.line(2, f"at = at // n{a}")
        for o in self.operands:
            terms = "".join(f" + i{a} * {o.name}_{a}" for a in range(self.axes))
            if self.vertical and o.inner != "splat":
                terms += f" + column * {_lane_step(o)}"
            m.line(2, f"{o.name}_row = {o.name}_at{terms}")
        if self.vertical:
            m.line(2, f"if inner - column >= {self.lanes}:")
            self._passes(3, masked=False)
            m.line(2, "else:")
            m.tail_mask(3, "inner - column")
            self._passes(3, masked=True)
        else:
            self._passes(2, masked=False)
        return m

    def _passes(self, depth: int, masked: bool) -> None:
        for o in self.body.loads:
            if not o.along:
                self._row_load(depth, o, masked)
        for k, p in enumerate(self.plan.passes):
            for i in self.plan.per_row[k]:
                self._instruction(depth, i)
            self._pass(depth, k, p, masked)
        for store in self.body.stores:
            if not self.plan.along[store.source]:
                self.module.store(depth, store, f"{store.target.name}_row", masked)

    def _row_load(self, depth: int, o: Operand, masked: bool) -> None:
        inner = o.inner if self.vertical else "splat"
        self.module.load(depth, Operand(o.name, o.dtype, inner), f"{o.name}_row", masked)

    def _pass(self, depth: int, k: int, p: Pass, masked: bool) -> None:
        m = self.module
        stores = [s for s in self.body.stores if self.plan.along[s.source] and self.plan.level[s.source] == k]
        if not (p.folds or p.kept or stores):
            return
        for fold in p.folds:
            identity = _FOLDS[fold.formula][1]
            m.use("simd", "splat")
            number = _IDENTITY[identity, fold.dtype]
            m.line(depth, f'{fold.result}_sum = splat({number}, "{fold.dtype}", {self.lanes})')
        if self.vertical:
            m.line(depth, "for r in range(length):")
            self._step(depth + 1, "r", p, stores, masked, tail=False)
        else:
            m.line(depth, f"full = length // {self.lanes} * {self.lanes}")
            m.line(depth, f"for r in range(0, full, {self.lanes}):")
            self._step(depth + 1, "r", p, stores, masked=False, tail=False)
            m.line(depth, "if full < length:")
            m.tail_mask(depth + 1, "length - full")
            self._step(depth + 1, "full", p, stores, masked=True, tail=True)
        for fold in p.folds:
            combine = _FOLDS[fold.formula][2]
            if self.vertical:
                m.line(depth, f"{fold.result} = {fold.result}_sum")
            else:
                m.use("simd", combine, "splat")
                m.line(depth, f'{fold.result} = splat({combine}({fold.result}_sum), "{fold.dtype}", {self.lanes})')

    def _step(self, depth: int, r: str, p: Pass, stores: list[Store], masked: bool, tail: bool) -> None:
        m = self.module
        for o in p.loads:
            m.load(depth, o, self._address(o, r), masked)
        for name in p.recalled:
            m.use("simd", "load")
            m.line(depth, f'{name} = load({self._scratch(name, r)}, "{self._dtype(name)}", {self.lanes})')
        for i in p.values:
            self._instruction(depth, i)
        for name in p.kept:
            m.use("simd", "store")
            m.line(depth, f"store({self._scratch(name, r)}, {name})")
        for store in stores:
            m.store(depth, store, self._address(store.target, r), masked)
        for fold in p.folds:
            formula, identity, _ = _FOLDS[fold.formula]
            m.use("formulas", formula)
            value = fold.args[0]
            if tail:
                m.use("simd", "select", "splat")
                neutral = f'splat({_IDENTITY[identity, fold.dtype]}, "{fold.dtype}", {self.lanes})'
                value = f"select(mask, {value}, {neutral})"
            m.line(depth, f"{fold.result}_sum = {formula}({fold.result}_sum, {value})")

    def _instruction(self, depth: int, i: Instruction) -> None:
        args = tuple("length_v" if a == "length" else a for a in i.args)
        self.module.instruction(depth, Instruction(i.result, i.formula, args, i.dtype))

    def _address(self, o: Operand, r: str) -> str:
        if self.vertical:
            return f"{o.name}_row + {r} * {o.name}_r"
        return f"{o.name}_row + {r} * {_lane_step(o)}"

    def _scratch(self, name: str, r: str) -> str:
        size = itemsize(self._dtype(name))
        base = self.plan.kept.index(name)
        if self.vertical:
            return f"scratch + ({base} * length + {r}) * {self.lanes * size}"
        return f"scratch + ({base} * ((length + {self.lanes - 1}) // {self.lanes} * {self.lanes}) + {r}) * {size}"

    def _dtype(self, name: str) -> str:
        return next(i.dtype for i in self.body.instructions if i.result == name)


def _lane_step(o: Operand) -> str:
    """Bytes from one lane to the next."""
    return f"{o.name}_inner" if o.inner == "strided" else str(itemsize(o.dtype))
