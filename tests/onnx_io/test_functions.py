"""Calls of model-local functions are replaced by the functions' bodies."""

from __future__ import annotations

import pytest

from jitopt.errors import ModelError
from tests.onnx_io.support import parsed, read

HEADER = '<ir_version: 9, opset_import: ["" : 17, "local" : 1]>\n'


def functions(*bodies: str) -> str:
    return "\n".join(f'<domain: "local", opset_import: ["" : 17, "local" : 1]>\n{body}' for body in bodies)


def text_of(graph_text: str, *bodies: str) -> str:
    return f"{HEADER}{graph_text}\n{functions(*bodies)}"


SQUARE = "square (a) => (b) { t = Abs(a)  b = Mul(t, t) }"


def test_a_body_takes_the_place_of_the_call() -> None:
    graph = read(
        text_of("agraph (float[2] x) => (float[2] y) { [one] h = local.square(x) y = local.square(h) }", SQUARE)
    )
    assert [n.op for n in graph] == ["Abs", "Mul", "Abs", "Mul"]
    assert [n.name for n in graph] == ["one/Abs", "one/Mul", "square/Abs", "square/Mul"]
    assert [n.output.name for n in graph] == ["one/t", "h", "square/t", "y"]


def test_functions_may_call_functions() -> None:
    graph = read(
        text_of(
            "agraph (float[2] x) => (float[2] y) { y = local.fourth(x) }",
            "fourth (a) => (c) { b = local.square(a)  c = local.square(b) }",
            SQUARE,
        )
    )
    assert [n.op for n in graph] == ["Abs", "Mul"] * 2
    assert graph.nodes[0].name == "fourth/square/Abs" and graph.outputs[0].producer is graph.nodes[-1]


def test_attribute_references_and_defaults() -> None:
    body = """scaled <alpha, beta: float = 0.5> (a) => (c) {
        b = LeakyRelu <alpha: float = @alpha> (a)
        c = Elu <alpha: float = @beta> (b)
    }"""
    for call, expected in (
        ("<alpha = 0.25>", (0.25, 0.5)),
        ("<alpha = 0.25, beta = 2.0>", (0.25, 2.0)),
        ("", (None, 0.5)),
    ):
        graph = read(text_of(f"agraph (float[2] x) => (float[2] y) {{ y = local.scaled {call} (x) }}", body))
        assert (graph.nodes[0].attrs.get("alpha"), graph.nodes[1].attrs["alpha"]) == expected


def test_references_pass_through_nested_functions_and_into_constants() -> None:
    graph = read(
        text_of(
            "agraph (float[2] x) => (float[2] y) { y = local.outer <k = 3.0> (x) }",
            "outer <k> (a) => (b) { b = local.inner <v: float = @k> (a) }",
            "inner <v> (a) => (b) { c = Constant <value_float: float = @v> ()  b = Mul(a, c) }",
        )
    )
    (constant,) = graph.constants
    assert constant.constant == 3.0 and [n.op for n in graph] == ["Mul"]


def test_optional_inputs_and_surplus_outputs_may_be_left_out() -> None:
    body = "f (a, low, high) => (b, c) { b = Clip(a, low, high)  c = Abs(b) }"
    graph = read(text_of("agraph (float[2] x, float m) => (float[2] y) { y = local.f(x, , m) }", body))
    clip = graph.nodes[0]
    assert [v and v.name for v in clip.inputs] == ["x", None, "m"]
    assert graph.outputs[0] is clip.output


def test_outputs_that_need_a_copy() -> None:
    body = "f (a) => (a, b, b) { b = Abs(a) }"
    graph = read(text_of("agraph (float[2] x) => (float[2] p, float[2] q, float[2] r) { p, q, r = local.f(x) }", body))
    assert [n.op for n in graph] == ["Abs", "Identity", "Identity"]
    assert [v.name for v in graph.outputs] == ["p", "q", "r"]


def test_a_constant_may_be_a_functions_output() -> None:
    body = "f (a) => (b) { b = Constant <value = float[2] {1, 2}> () }"
    graph = read(text_of("agraph (float[2] x) => (float[2] y) { c = local.f(x)  y = Add(x, c) }", body))
    assert [v.name for v in graph.constants] == ["c"]


def test_a_function_has_its_own_opset() -> None:
    model = parsed(
        '<ir_version: 9, opset_import: ["" : 17, "local" : 1]>\n'
        "agraph (float[2] x) => (float[2] y) { y = local.f(x) }\n"
        '<domain: "local", opset_import: ["" : 10]> f (a) => (b) { b = Clip <min = 0.0> (a) }'
    )
    assert read(model).outputs[0].name == "y"
    model.functions[0].opset_import[0].version = 17
    with pytest.raises(ModelError, match="Clip of opset 17 has no attribute 'min'"):
        read(model)


def test_subgraphs_in_functions_read_the_functions_names() -> None:
    graph = read(
        text_of(
            "agraph (float[2] x, bool c) => (float[2] y) { y = local.f <k = 2.0> (x, c) }",
            """f <k> (a, c) => (b) {
                t = Abs(a)
                b = If (c) <
                    then_branch = g () => (p) { p = LeakyRelu <alpha: float = @k> (t) },
                    else_branch = g () => (q) { q = Neg(a) }
                >
            }""",
        )
    )
    node = graph.nodes[-1]
    assert [v.name for v in node.captures] == ["f/t", "x"]
    assert node.attrs["then_branch"].nodes[0].attrs == {"alpha": 2.0}


@pytest.mark.parametrize(
    ("call", "bodies", "message"),
    [
        ("local.f(x)", ["f (a) => (b) { b = local.f(a) }"], "function local.f calls itself"),
        ("local.f(x)", ["f (a) => (b) { b = local.g(a) }", "g (a) => (b) { b = local.f(a) }"], "calls itself"),
        ("local.f(x)", ["f (a) => (b) { c = Abs(a) }"], "does not define its output 'b'"),
        ("local.f(x)", ["f (a) => (b) { b = Abs(x) }"], "'x' is used, but nothing defines it"),
        ("local.f(x, x)", [SQUARE.replace("square", "f")], "takes 1 inputs, 2 are given"),
        ("local.f <k = 1> (x)", [SQUARE.replace("square", "f")], "has no attribute 'k'"),
        ("local.f(x)", [SQUARE.replace("square", "f")] * 2, "defined twice"),
        ("local.f(x)", ["f (a, a) => (b) { b = Abs(a) }"], "names its input 'a' twice"),
        ("local.f(x)", ["f (a) => (b) { b = Abs(a)  b = Abs(a) }"], "'b' is defined twice"),
        ("local.f()", ["f (a) => (a) { b = Abs(a) }"], "returns its input 'a', which the call leaves out"),
    ],
)
def test_malformed_functions(call: str, bodies: list[str], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        read(text_of(f"agraph (float[2] x) => (float[2] y) {{ y = {call} }}", *bodies))


def test_calls_that_multiply_without_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jitopt.onnx_io.build._MOST_NODES", 1000)
    bodies = [f"f{i} (a) => (c) {{ b = local.f{i + 1}(a)  c = local.f{i + 1}(b) }}" for i in range(30)]
    with pytest.raises(ModelError, match="more than 1000 nodes once its functions are inlined"):
        read(
            text_of("agraph (float[2] x) => (float[2] y) { y = local.f0(x) }", *bodies, "f30 (a) => (b) { b = Abs(a) }")
        )
