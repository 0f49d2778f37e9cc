"""If, Loop, Scan, SequenceMap, sequences and optionals in whole models, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import onnxruntime as ort
import pytest

from jitopt.errors import ExecutionError, ModelError
from jitopt.ir.dims import Environment
from jitopt.ir.graph import Graph
from jitopt.ir.interpreter import Interpreter
from jitopt.onnx_io.reader import read_model
from jitopt.ops import find
from jitopt.passes.infer import infer
from jitopt.verify import compare_all
from tests.ops.oracle import misfit

Feeds = dict[str, Any]


def model(text: str, opset: int = 18) -> bytes:
    header = f'<ir_version: 9, opset_import: ["" : {opset}]>'
    found: bytes = onnx.parser.parse_model(header + text).SerializeToString()
    return found


def read(proto: bytes) -> Graph:
    graph = read_model(proto)
    infer(graph)
    return graph


def check(text: str, *feeds: Feeds, opset: int = 18, exact: str = "") -> Graph:
    """Our interpreter agrees with ONNX Runtime on every feed, and the inferred types with the results.

    `exact` names outputs whose extents must be known without running.
    """
    proto = model(text, opset)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(proto, options, providers=["CPUExecutionProvider"])
    graph = read(proto)
    for feed in feeds:
        ours, theirs = list(Interpreter(graph, find).run(feed).values()), session.run(None, feed)
        extents = {}
        for value in graph.inputs:
            for dim, extent in zip(value.tensor.shape or (), np.shape(feed[value.name]), strict=False):
                extents[str(dim)] = extent
        for value, a, b in zip(graph.outputs, ours, theirs, strict=True):
            many = isinstance(b, list)
            assert (found := compare_all(a if many else [a], b if many else [b])), f"{value.name}: {found.reason}"
            problem = misfit(value.type, a, extents, exact=value.name in exact.split())
            assert not problem, f"{value.name}: {problem}"
    return graph


def f32(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(list(shape)).standard_normal(shape).astype(np.float32)


def flag(value: bool) -> np.ndarray[Any, Any]:
    return np.array(value)


# If -----------------------------------------------------------------------------------------------------------------
IF = """agraph (bool c, float[n, 3] x) => (y, z) {
    y, z = If (c) <
        then_branch = g1 () => (a, b) { a = Add(x, x)  b = ReduceSum <keepdims = 0> (x) },
        else_branch = g2 () => (a, b) { a = Concat <axis = 0> (x, x)  b = Identity(x) }>
}"""


def test_if_with_captures_and_other_shapes() -> None:
    graph = check(IF, {"c": flag(True), "x": f32(4, 3)}, {"c": flag(False), "x": f32(4, 3)})
    y, z = graph.outputs
    assert y.shape[1] == 3 and str(y.shape[0]).startswith("?")
    assert z.tensor.shape is None


def test_if_nested_with_a_capture_of_the_outermost_graph() -> None:
    check(
        """agraph (bool c, bool d, float[2] x) => (y) {
            w = Neg(x)
            y = If (c) <
                then_branch = g1 () => (a) {
                    v = Add(x, w)
                    a = If (d) <then_branch = g3 () => (p) { p = Add(v, w) },
                                else_branch = g4 () => (p) { p = Mul(x, v) }>
                },
                else_branch = g2 () => (a) { a = Identity(w) }>
        }""",
        *({"c": flag(c), "d": flag(d), "x": f32(2)} for c in (True, False) for d in (True, False)),
        exact="y",
    )


def test_if_whose_condition_is_known_takes_that_branch_s_type() -> None:
    check(
        """agraph (float[n, 3] x) => (y) {
            s = Shape(x)  three = Constant <value_int = 3> ()  one = Constant <value_int = 1> ()
            d = Gather(s, one)  c = Equal(d, three)
            y = If (c) <then_branch = g1 () => (a) { a = Add(x, x) }, else_branch = g2 () => (a) { a = ReduceSum(x) }>
        }""",
        {"x": f32(4, 3)},
        exact="y",
    )


def test_branches_of_different_dtype_are_refused() -> None:
    text = """agraph (bool c, float[2] x) => (y) {
        y = If (c) <then_branch = g1 () => (a) { a = Identity(x) },
                    else_branch = g2 () => (a) { a = Cast <to = 7> (x) }>
    }"""
    with pytest.raises(ModelError, match="float32"):
        read(model(text))


# Loop ---------------------------------------------------------------------------------------------------------------
def test_loop_that_counts_with_a_scan_output() -> None:
    text = """agraph (int64 m, float[n] x) => (y, steps) {
        t = Constant <value = bool {1}> ()
        y, steps = Loop (m, t, x) <body = b (int64 i, bool c, float[n] v) => (c2, w, s) {
            c2 = Identity(c)  f = Cast <to = 1> (i)  w = Add(v, f)  s = Mul(w, x) }>
    }"""
    graph = check(text, *({"m": np.array(m), "x": f32(3)} for m in (3, 1, 0)))
    assert str(graph.outputs[0].shape) == "(n,)"
    constant = text.replace("int64 m, ", "").replace("t = Const", "m = Constant <value_int = 4> ()  t = Const")
    check(constant, {"x": f32(5)}, exact="y steps")


def test_loop_that_stops_by_its_condition_and_grows() -> None:
    check(
        """agraph (int64 m, bool t, float[1, 2] x) => (y, k) {
            five = Constant <value_int = 5> ()
            y, k = Loop (m, t, x) <body = b (int64 i, bool c, float[p, 2] v) => (c2, w, s) {
                w = Concat <axis = 0> (v, x)  s = Identity(i)
                d = Shape <start = 0, end = 1> (w)  e = Squeeze(d)  c2 = Less(e, five) }>
        }""",
        {"m": np.array(10), "t": flag(True), "x": f32(1, 2)},
        {"m": np.array(2), "t": flag(True), "x": f32(1, 2)},
        {"m": np.array(2), "t": flag(False), "x": f32(1, 2)},
    )


def test_loop_without_trip_count_and_with_a_sequence() -> None:
    check(
        """agraph (int64 m, float[2] x) => (y) {
            empty = SequenceEmpty ()
            s = Loop (m, , empty) <body = b (int64 i, bool c, seq(float[]) v) => (c2, w) {
                c2 = Constant <value = bool {1}> ()  f = Cast <to = 1> (i)  e = Add(x, f)  w = SequenceInsert(v, e) }>
            y = ConcatFromSequence <axis = 0, new_axis = 1> (s)
        }""",
        {"m": np.array(3), "x": f32(2)},
    )


# Scan ---------------------------------------------------------------------------------------------------------------
def test_scan_over_axes_in_both_directions() -> None:
    text = """agraph (float[3] state, float[n, 3] a, float[3, n] b) => (y, up, down) {{
        y, up, down = Scan (state, a, b) <num_scan_inputs = 2, {attributes}
            body = g (float[3] s, float[3] p, float[3] q) => (s2, u, v) {{
                s2 = Add(s, p)  u = Mul(s2, q)  v = Sub(s, q) }}>
    }}"""
    attributes = (
        "scan_input_axes = [0, 1], scan_input_directions = [0, 1], scan_output_axes = [0, -1],"
        "scan_output_directions = [1, 0],"
    )
    feeds = {"state": f32(3), "a": f32(5, 3), "b": f32(3, 5)}
    check(text.format(attributes=attributes), feeds, exact="y up down")
    plain = text.format(attributes="").replace("float[3, n] b", "float[n, 3] b")
    check(plain, {**feeds, "b": f32(5, 3)}, opset=9, exact="y up down")


# sequences and optionals --------------------------------------------------------------------------------------------
def test_sequence_map() -> None:
    check(
        """agraph (float[4, 3] x, float[1] k) => (y) {
            two = Constant <value_int = 2> ()
            s = SplitToSequence <axis = 0> (x, two)
            m = SequenceMap (s, k) <body = g (float[p, 3] e, float[1] o) => (float[p, 3] r) { r = Add(e, o) }>
            y = ConcatFromSequence <axis = 1> (m)
        }""",
        {"x": f32(4, 3), "k": f32(1)},
    )


def test_elements_of_different_shape_stay_apart() -> None:
    graph = check(
        """agraph (float[n, 3] x, float[m, 3] y) => (a, b) {
            zero = Constant <value_int = 0> ()  one = Constant <value_int = 1> ()
            s = SequenceConstruct(x, y)
            a = SequenceAt(s, zero)  b = SequenceAt(s, one)
        }""",
        {"x": f32(4, 3), "y": f32(2, 3)},
    )
    a, b = graph.outputs
    assert a.shape[0] is not b.shape[0] and a.shape[1] == b.shape[1] == 3


def test_optionals() -> None:
    check(
        """agraph (float[n] x) => (h, e, y) {
            o = Optional(x)
            h = OptionalHasElement(o)  e = Identity(h)  y = OptionalGetElement(o)
        }""",
        {"x": f32(3)},
        opset=15,
        exact="y",
    )


def test_a_position_beyond_the_sequence_raises() -> None:
    graph = read(
        model("agraph (float[2] x, int64 i) => (y) { s = SequenceConstruct(x, x)  y = SequenceAt(s, i) }", opset=13)
    )
    with pytest.raises(ExecutionError, match="position 2"):
        Interpreter(graph, find).run({"x": f32(2), "i": np.array(2)})


def test_extents_inside_a_body_do_not_leak() -> None:
    graph = check(
        """agraph (bool c, float[n] x) => (y) {
            y = If (c) <then_branch = g1 () => (a) { nz = NonZero(x)  f = Cast <to = 1> (nz)  a = Squeeze(f) },
                        else_branch = g2 () => (a) { a = Identity(x) }>
        }""",
        {"c": flag(True), "x": f32(6)},
        {"c": flag(False), "x": f32(6)},
        opset=11,
    )
    for value in graph.outputs:
        for dim in value.tensor.shape or ():
            with pytest.raises(KeyError, match=r"\?y_"):
                Environment({"n": 6})(dim)
