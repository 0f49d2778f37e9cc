"""How a plain Python function gets a meaning inside compiled code. The only use of Numba's private registries.

Every simd function has a Python body that works on NumPy arrays (the meaning with the JIT off, and the definition
a reader checks the code against) and a device definition that types a call and emits LLVM instructions. Numba's
public `@overload` would do, but compiles a whole function for each instance (10-20 ms each, a kernel has dozens);
an intrinsic emits in microseconds, but has no Python body. `device` registers an intrinsic under the plain function,
exactly as `numba.extending.intrinsic` does for the object it returns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit, types
from numba.core.errors import RequireLiteralValue
from numba.core.typing.templates import infer, infer_global, make_intrinsic_template

from .dtypes import DTYPES

Definition = Callable[..., Any]


def device(function: Any, name: str | None = None) -> Callable[[Definition], Definition]:
    """Register the decorated definition as the device meaning of `function` (a function or an `operator`).

    The definition takes (typing context, *argument types) and returns (signature, emit), or None where it does not
    apply; emit takes (target context, builder, signature, arguments) and returns the result's value.
    """

    def register(definition: Definition) -> Definition:
        template = make_intrinsic_template(function, definition, name or function.__name__, prefer_literal=True)
        infer(template)
        infer_global(function, types.Function(template))
        return definition

    return register


def inlined(function: Callable[..., Any]) -> Any:
    """Compile `function` for use inside kernels only: no wrapper for calls from Python, NumPy's rules for division.

    Leaving the wrappers out halves the compile time of a small function.
    """
    return njit(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)


def literals(*values: types.Type) -> list[Any]:
    """The Python values of literal argument types; tells Numba to try again with literals otherwise."""
    if not all(isinstance(value, types.Literal) for value in values):
        raise RequireLiteralValue("dtypes, lanes and tile sizes are compile-time constants")
    return [value.literal_value for value in values]


def dtype_literal(value: types.Type) -> str:
    """The name of a dtype given as a literal string; raises a typing error for a name not in the table."""
    (name,) = literals(value)
    if name not in DTYPES:
        raise RequireLiteralValue(f"unknown dtype {name!r}; vectors hold {', '.join(DTYPES)}")
    return name
