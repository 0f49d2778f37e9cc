"""How a plain Python function gets a meaning inside compiled code. The only use of Numba's private registries.

Every simd function has a Python body that works on NumPy arrays (the meaning with the JIT off, and the definition
a reader checks the code against) and a device definition that types a call and emits LLVM instructions. Numba's
public `@overload` would do, but compiles a whole function for each instance (10-20 ms each, a kernel has dozens);
an intrinsic emits in microseconds, but has no Python body. `device` registers an intrinsic under the plain function,
as `numba.extending.intrinsic(target="cpu")` does for the object it returns. The target puts ours before Numba's own
meanings of an operator, and remembering the answers, also "does not apply", spares a refresh of the target context
each time: together they more than halve the compile time of a formula.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit, types
from numba.core.errors import RequireLiteralValue
from numba.core.typing.templates import infer, infer_global, make_intrinsic_template

from .dtypes import DTYPES
from .emit import element, operand

Definition = Callable[..., Any]


def device(function: Any) -> Callable[[Definition], Definition]:
    """Register the decorated definition as the device meaning of `function` (a function or an `operator`).

    The definition takes (typing context, *argument types) and returns (signature, emit), or None where it does not
    apply; emit takes (target context, builder, signature, arguments) and returns the result's value.
    """

    def register(definition: Definition) -> Definition:
        template = make_intrinsic_template(
            function, definition, function.__name__, prefer_literal=True, kwargs={"target": "cpu"}
        )
        generic = template.generic

        def resolve(self: Any, args: Any, kws: Any) -> Any:
            known = self._impl_cache
            key = self.context, args, tuple(kws.items())
            if key not in known:
                applies = definition(self.context, *args, **kws) is not None
                known[key] = generic(self, args, kws) if applies else None
            return known[key]

        template.generic = resolve
        infer(template)
        infer_global(function, types.Function(template))
        return definition

    return register


def inlined(function: Callable[..., Any]) -> Any:
    """Compile `function` for use inside kernels only: no wrapper for calls from Python, NumPy's rules for division.

    Leaving the wrappers out halves the compile time of a small function.
    """
    return njit(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)


def spliced(function: Callable[..., Any]) -> Any:
    """`inlined`, pasted into its callers before they are typed: 0.03 s less for a helper with a caller or two."""
    return njit(error_model="numpy", inline="always")(function)


def by_kind(function: Any, choose: Callable[[str, str], Any]) -> None:
    """Give a function of two operands the meaning of the compiled or device function that choose(kind, kind) returns.

    The kinds are those of `DType`; choose returns None where the function does not apply.
    """

    @device(function)
    def _define(context: Any, a: Any, b: Any) -> Any:
        chosen = choose(element(a).kind, element(b).kind) if operand(a) and operand(b) else None
        if chosen is None:
            return None
        callee = context.resolve_value_type(chosen)
        taken = callee.get_call_type(context, (a, b), {})

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return context.get_function(callee, taken)(builder, args)

        return taken.return_type(*taken.args), emit


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
