"""Epilogues that are compiled apart from the kernel they end, and linked into it.

Kernels of one template and equal constants differ in their epilogue only. The library's part, the core, takes most of
the time to compile; it is compiled once, calling an epilogue that is declared here and defined elsewhere, and each
kernel links it with its own. LLVM then inlines one into the other.

An epilogue is functions of float32 sums in a Vec, whole or with a mask of the lanes that exist, and of no sums:
    finish(acc, image, offset, column, args)                 offset, column: bytes, as the kernel's docstring says
    finish_tail(acc, image, offset, column, args, mask)      args: the kernel's argument block
    prepare(image, offset, args)                             ask the cache for what a tile's `finish` will load
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import config, njit, types
from numba.core import cgutils

from jitopt_kernels.linkage import SYMBOLS

from .binding import device
from .registers import Mask, Vec


def finish(acc: Any, image: int, offset: int, column: int, args: int) -> None:
    """The whole epilogue of the kernel this core is linked into; in compiled cores only."""
    raise NotImplementedError("an epilogue that is linked in later has no body in Python")


def finish_tail(acc: Any, image: int, offset: int, column: int, args: int, mask: Any) -> None:
    """The same for a cut vector."""
    raise NotImplementedError("an epilogue that is linked in later has no body in Python")


def prepare(image: int, offset: int, args: int) -> None:
    """What the epilogue of a tile will load, asked for when the tile begins."""
    raise NotImplementedError("an epilogue that is linked in later has no body in Python")


def epilogue(lanes: int) -> Callable[[Callable[..., None]], Any]:
    """Compile the decorated function of an epilogue at once; with the JIT off it stays as it is."""

    def compiled(function: Callable[..., None]) -> Any:
        if config.DISABLE_JIT:
            return function
        special = {"acc": Vec("float32", lanes), "mask": Mask(lanes)}
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        signature = types.void(*(special.get(name, types.int64) for name in names))
        return njit(signature, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)

    return compiled


def _call(function: str) -> Callable[..., Any]:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        declared = ir.FunctionType(ir.VoidType(), [argument.type for argument in args])
        builder.call(cgutils.get_or_insert_function(builder.module, declared, SYMBOLS[function]), args)
        return context.get_dummy_value()

    return emit


@device(finish)
def _finish(context: Any, acc: Any, image: Any, offset: Any, column: Any, args: Any) -> Any:
    return types.void(acc, *[types.int64] * 4), _call("finish")


@device(finish_tail)
def _finish_tail(context: Any, acc: Any, image: Any, offset: Any, column: Any, args: Any, mask: Any) -> Any:
    return types.void(acc, *[types.int64] * 4, mask), _call("finish_tail")


@device(prepare)
def _prepare(context: Any, image: Any, offset: Any, args: Any) -> Any:
    return types.void(*[types.int64] * 3), _call("prepare")
