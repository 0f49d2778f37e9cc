"""Subgraphs: explicit captures, at every depth, the same list for all subgraphs of a node."""

from __future__ import annotations

import pytest

from jitopt.errors import ModelError
from jitopt.ir.graph import Graph, Node, walk
from tests.onnx_io.support import parsed, read


def captured(node: Node) -> tuple[list[str], list[list[str]]]:
    return [v.name for v in node.captures], [[v.name for v in g.captures] for g in node.subgraphs]


BRANCHES = """
agraph (bool c, float[2] x, float[2] z) => (float[2] y)
<float[2] w = {1.0, 2.0}>
{
    a = Abs(x)
    y = If (c) <
        then_branch = then () => (float[2] p) { t = Add(a, w)  p = Mul(t, z) },
        else_branch = otherwise () => (float[2] p) { t = Add(z, w)  p = Neg(t) }
    >
}
"""


def test_both_branches_have_the_union_of_captures() -> None:
    graph = read(BRANCHES)
    node = graph.nodes[-1]
    assert captured(node) == (["a", "z"], [["a", "z"], ["a", "z"]])
    a = graph.find_value("a")
    assert node in graph.consumers(a) and a.uses == [(node, 1)]
    then = node.attrs["then_branch"]
    assert then.captures[0] is then.nodes[0].inputs[0] and then.captures[0] is not a
    assert then.captures[1].type == graph.find_value("z").type


def test_constants_are_not_captured_but_shared() -> None:
    graph = read(BRANCHES)
    arrays = [c.constant for g in walk([graph]) for c in g.constants]
    assert len(arrays) == 2 and arrays[0] is arrays[1]
    assert [c.constant.tolist() for c in graph.nodes[-1].attrs["else_branch"].constants] == [[1, 2]]  # type: ignore[union-attr]


def test_values_of_sibling_subgraphs_have_different_names() -> None:
    names = [v.name for g in walk([read(BRANCHES)]) for n in g for v in n.outputs]
    assert sorted(names) == ["a", "p", "p_1", "t", "t_1", "y"]


def test_captures_pass_through_every_level() -> None:
    graph = read("""
        agraph (bool c, float[2] x) => (float[2] y) {
            a = Abs(x)
            y = If (c) <
                then_branch = g1 () => (float[2] p) {
                    b = Neg(x)
                    p = If (c) <
                        then_branch = g2 () => (float[2] q) { q = Add(a, b) },
                        else_branch = g3 () => (float[2] r) { r = Neg(b) }
                    >
                },
                else_branch = g4 () => (float[2] s) { s = Neg(x) }
            >
        }""")
    outer = graph.nodes[-1]
    assert captured(outer) == (["x", "a", "c"], [["x", "a", "c"]] * 2)
    inner = outer.attrs["then_branch"].nodes[-1]
    assert captured(inner) == (["a", "b"], [["a", "b"]] * 2)
    assert inner.captures[0] is outer.attrs["then_branch"].captures[1]


def test_loop_bodies_shadow_nothing_and_may_return_what_they_capture() -> None:
    graph = read("""
        agraph (int64 m, float[2] x) => (float[2] y, float[k, 2] s) {
            y, s = Loop (m, , x) <
                body = b (int64 i, bool go, float[2] v) => (bool go2, float[2] v2, float[2] x) {
                    go2 = Identity(go)
                    v2 = Add(v, x)
                }
            >
        }""")
    (loop,) = graph.nodes
    body: Graph = loop.attrs["body"]
    assert captured(loop) == (["x"], [["x"]])
    assert [v.name for v in body.outputs] == ["go2", "v2", "x"] and body.outputs[2] is body.captures[0]


def test_an_output_listed_twice_in_a_body_gets_a_copy() -> None:
    graph = read("""
        agraph (int64 m, float[2] x) => (float[2] y, float[k, 2] s) {
            y, s = Loop (m, , x) <
                body = b (int64 i, bool go, float[2] v) => (bool go, float[2] w, float[2] w) { w = Neg(v) }
            >
        }""")
    body = graph.nodes[0].attrs["body"]
    assert [n.op for n in body] == ["Neg", "Identity"]
    assert len({v.name for v in body.outputs}) == 3


def test_subgraphs_may_return_values_of_different_types() -> None:
    graph = read("""
        agraph (bool c, float[2] x, int64[2] k) => (float[2] y, int64[2] m) {
            y, m = If (c) <
                then_branch = g1 () => (float[2] p, int64[2] q) { p = Neg(x)  q = Neg(k) },
                else_branch = g2 () => (float[2] r, int64[2] s) { r = Abs(x)  s = Abs(k) }
            >
        }""")
    assert [str(v.type) for v in graph.outputs] == ["float32[2]", "int64[2]"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("p = Neg(nowhere)", "'nowhere' is used, but nothing defines it"),
        ("q = Neg(x)", "output 'p' of graph 'then' is not defined"),
        ("p = Neg(x) p = Abs(x)", "'p' is defined twice"),
        ("p = Neg(q) q = Abs(p)", "cycle"),
        ("p = Neg(y)", "cycle"),
    ],
)
def test_malformed_bodies(body: str, message: str) -> None:
    text = f"""
        agraph (bool c, float[2] x) => (float[2] y) {{
            [branch] y = If (c) <
                then_branch = then () => (float[2] p) {{ {body} }},
                else_branch = otherwise () => (float[2] p) {{ p = Abs(x) }}
            >
        }}"""
    with pytest.raises(ModelError, match=message):
        read(parsed(text))
