"""Objects have one global symbol and expect nothing of their process; what would is refused by name."""

from __future__ import annotations

import pytest

from jitopt.codegen.emitter import ALLOWED_UNDEFINED, check_object
from jitopt.codegen.symbols import read_symbols
from jitopt.codegen.worker import compile_text, entry_symbol
from jitopt.errors import CompileError

from . import modules

KEY = "0123456789abcdef"


def compile_here(text, target, **options):
    return compile_text(text, KEY, target.cpu, target.features, **options)


def test_one_global_symbol_and_nothing_undefined(target):
    out = compile_here(modules.ADD_ONE, target)
    symbols = read_symbols(out.code)
    assert symbols.defined == {entry_symbol(KEY)}
    assert symbols.undefined <= ALLOWED_UNDEFINED
    assert out.assembly == ""
    assert out.core is None


def test_assembly_on_request_shows_the_target_instructions(target):
    assembly = compile_here(modules.ADD_ONE, target, assembly=True).assembly
    assert f"{entry_symbol(KEY)}:" in assembly
    assert "addps" in assembly


@pytest.mark.parametrize(
    ("text", "symbol"),
    [(modules.RAISES, "kernel_may_raise"), (modules.CALLS_LIBM, "sin"), (modules.ALLOCATES, "NRT_")],
    ids=["raises", "libm", "allocates"],
)
def test_refusals_name_the_symbol(text, symbol, target):
    with pytest.raises(CompileError, match=symbol):
        compile_here(text, target)


def test_a_second_global_symbol_is_refused(target):
    code = compile_here(modules.ADD_ONE, target).code
    with pytest.raises(CompileError, match=f"defines {entry_symbol(KEY)} besides"):
        check_object(code, "k_other")


def test_the_features_decide_the_instructions_not_this_machine(target):
    from jitopt_kernels.targets import TARGETS

    v2 = TARGETS["x86-64-v2"]
    assembly = compile_here(modules.ADD_ONE, v2, assembly=True).assembly
    assert "ymm" not in assembly
    assembly = compile_here(modules.ADD_ONE, TARGETS["avx512"], assembly=True).assembly
    assert "ymm" in assembly


@pytest.mark.parametrize("cut", [0, 10, 63, 200])
def test_a_damaged_object_is_a_value_error(cut, target):
    code = compile_here(modules.ADD_ONE, target).code
    with pytest.raises(ValueError, match="ELF"):
        read_symbols(code[:cut])
    with pytest.raises(ValueError, match="ELF"):
        read_symbols(b"MZ" + code[2:])


def test_a_module_without_kernel_is_a_name_error(target):
    with pytest.raises(NameError, match="no function `kernel`"):
        compile_here("x = 1", target)
