"""From a kernel spec to the text of a Python module: unpack the argument words, loop, load, call formulas, store.

Generated modules are meant to be read and stepped through; no formula is ever in their text, only calls. This file
holds the pieces; `render_*.py` hold a template family each; `templates.py` lists them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from jitopt.codegen.core import CORE
from jitopt.ir.dtypes import BY_NAME
from jitopt.lower.spec import FIRST_WORD, Instruction, KernelSpec, Operand, Scalar, Store


def itemsize(dtype: str) -> int:
    """Bytes of an element in memory."""
    return BY_NAME[dtype].itemsize


class Module:
    """Lines of a module under construction, with the imports its lines ask for."""

    def __init__(self, spec: KernelSpec) -> None:
        self.spec = spec
        self._begin()
        self._epilogue = ""

    def _begin(self) -> None:
        self._imports: dict[str, set[str]] = {}
        self._lines: list[str] = []

    def core(self) -> None:
        """End the epilogue, which `jitopt_kernels.simd.epilogue` describes: what follows is the core."""
        self._epilogue = self._part()
        self._begin()

    def use(self, module: str, *names: str) -> None:
        """Import names from a module of jitopt_kernels."""
        self._imports.setdefault(f"jitopt_kernels.{module}", set()).update(names)

    def line(self, depth: int = 0, text: str = "") -> None:
        self._lines.append("    " * depth + text if text else "")

    def lines(self, depth: int, *texts: str) -> None:
        for text in texts:
            self.line(depth, text)

    def word_address(self, name: str) -> str:
        """Text of the address of an argument word, for library functions that read several in a row."""
        return f"args + {8 * (FIRST_WORD + self.spec.words.index(name))}"

    def text(self) -> str:
        """The whole module."""
        head = [f'"""Kernel {self.spec.digest}: {self.spec.template}.', "", *str(self.spec).splitlines(), '"""', "", ""]
        return "\n".join(head) + (f"{self._epilogue}{CORE}{self._part()}" if self._epilogue else self._part())

    def _part(self) -> str:
        imports = [f"from {m} import {', '.join(sorted(n))}" for m, n in sorted(self._imports.items())]
        return "\n".join([*imports, "", "", *self._lines]) + "\n"

    # pieces every template needs ------------------------------------------------------------------------------
    def kernel(self, words: Sequence[str] | None = None) -> None:
        """Open the kernel function and unpack its argument words, or the first ones, named `words`."""
        self.use("abi", "word")
        self.line(0, "def kernel(args, tid, nthreads):")
        for index, name in enumerate(self.spec.words if words is None else words):
            self.line(1, f"{name} = word(args, {FIRST_WORD + index})")

    def scratch(self) -> None:
        """`scratch`: this thread's own."""
        self.use("abi", "word")
        self.line(1, "scratch = word(args, 1) + tid * word(args, 2)")

    def scalars(self, depth: int, scalars: Iterable[Scalar], place: Mapping[str, str] | None = None) -> None:
        """Every lane of each scalar's vector, from its word `<name>_word`, or from what `place` says in its stead."""
        for scalar in scalars:
            self.use("simd", "splat")
            word = f"{scalar.name}_word"
            word = word if place is None else place[word]
            if scalar.dtype == "float32":
                self.use("abi", "float_word")
                word = f"float_word({word})"
            self.line(depth, f'{scalar.name} = splat({word}, "{scalar.dtype}", {self.spec.lanes})')

    def load(self, depth: int, operand: Operand, address: str, masked: bool) -> None:
        """`<name> = ` one vector of the operand at the address `address`."""
        lanes, dtype = self.spec.lanes, operand.dtype
        if operand.inner == "splat":
            self.use("simd", "load_splat")
            call = f'load_splat({address}, "{dtype}", {lanes})'
        elif operand.inner == "strided" and masked:
            self.use("loops", "load_strided_masked")
            call = f'load_strided_masked({address}, {operand.name}_inner, mask, "{dtype}", {lanes})'
        elif operand.inner == "strided":
            self.use("loops", "load_strided")
            call = f'load_strided({address}, {operand.name}_inner, "{dtype}", {lanes})'
        elif masked:
            self.use("simd", "load_masked")
            call = f'load_masked({address}, mask, "{dtype}")'
        else:
            self.use("simd", "load")
            call = f'load({address}, "{dtype}", {lanes})'
        self.line(depth, f"{operand.name} = {call}")

    def store(self, depth: int, store: Store, address: str, masked: bool) -> None:
        """Write a body value; a splat target takes the first lane only."""
        if store.target.inner == "splat":
            self.use("simd", "store_masked", "tail_mask")
            self.line(depth, f"store_masked({address}, {store.source}, tail_mask(1, {self.spec.lanes}))")
        elif masked:
            self.use("simd", "store_masked")
            self.line(depth, f"store_masked({address}, {store.source}, mask)")
        else:
            self.use("simd", "store")
            self.line(depth, f"store({address}, {store.source})")

    def instruction(self, depth: int, instruction: Instruction) -> None:
        self.use("formulas", instruction.formula)
        self.line(depth, str(instruction))

    def tail_mask(self, depth: int, count: str) -> None:
        self.use("simd", "tail_mask")
        self.line(depth, f"mask = tail_mask({count}, {self.spec.lanes})")
