"""The text form reads back to what was printed, and malformed text is refused with its place."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from jitopt.errors import ModelError
from jitopt.ir.dims import Dim, dim_min, floor_div, select_eq, symbol
from jitopt.ir.dtypes import BY_NAME
from jitopt.ir.graph import Graph, Layout, walk
from jitopt.ir.literals import float_text
from jitopt.ir.text import blobs, digest, print_graph
from jitopt.ir.text_dims import dim_text, parse_dim_text, parse_type_text, type_text
from jitopt.ir.text_parser import parse_graph
from jitopt.ir.types import Type, tensor
from jitopt.ir.verifier import verify
from jitopt.ops import find
from tests.golden import check_golden
from tests.ir.random_graphs import DIMS, TYPES, graphs
from tests.ir.test_interpreter import branch, chain

SLOW = settings(deadline=None, suppress_health_check=list(HealthCheck))


@given(DIMS)
def test_dimensions_read_back_as_the_same_object(d: Dim) -> None:
    found = parse_dim_text(dim_text(d))
    assert found is d or (isinstance(d, int) and found == d)


@given(TYPES)
def test_types_read_back(type: Type) -> None:
    assert parse_type_text(type_text(type)) == type


@SLOW
@given(graphs())
def test_graphs_read_back(graph: Graph) -> None:
    text = print_graph(graph)
    again = parse_graph(text, blobs(graph))
    assert print_graph(again) == text
    assert blobs(again).keys() == blobs(graph).keys()


def test_parsed_graphs_are_sound_and_keep_their_arrays() -> None:
    for graph in (chain(), branch()):
        again = parse_graph(print_graph(graph))
        verify(again, find)
        assert [repr(n) for g in walk([again]) for n in g] == [repr(n) for g in walk([graph]) for n in g]
    constant = parse_graph(print_graph(chain())).find_value("w").constant
    assert constant is not None and constant.tolist() == [1, 1, 2] and constant.dtype == np.float32


def example() -> Graph:
    """One of everything."""
    n = symbol("n")
    graph = Graph("example")
    x = graph.input("x", "float32", (n, 3, floor_div(n + 1, 2), dim_min(n, 8)))
    flag = graph.input("flag", "bool", ())
    weights = graph.constant(np.arange(48, dtype=np.float32).reshape(16, 3, 1, 1), name="weights")
    bias = graph.constant(np.array([0.1, -0.0, np.inf, np.nan], np.float32), name="bias:0")
    y = graph.add("Conv", [x, weights, None], name="conv", strides=(1, 1), auto_pad="NOTSET")
    y.type, y.layout = tensor("float32", (n, 16, floor_div(n + 1, 2), dim_min(n, 8))), Layout(8)
    shape = graph.add("Shape", [y], name="shape", start=0)
    shape.type = tensor("int64", (4,))
    shape.content = np.array([n, 16, floor_div(n + 1, 2), select_eq(n, 1, 8, n)], object)
    branches = {}
    for name in ("then_branch", "else_branch"):
        inner = Graph(name)
        inner.captures.append(inner.value("y", y.type))
        inner.output(inner.add("LeakyRelu", [inner.captures[0]], name=f"{name}/relu", alpha=0.01))
        branches[name] = inner
    z = graph.add("If", [flag], captures=[y], name="if", **branches)
    filled = graph.add("ConstantOfShape", [shape], name="filled", value=np.array([1], np.int64))
    for value in (z, graph.add("Add", [filled, bias], name="sum")):
        graph.output(value)
    return graph


def test_golden_text() -> None:
    check_golden("example.graph", print_graph(example()))


def test_the_golden_text_reads_back() -> None:
    graph = example()
    again = parse_graph(print_graph(graph), blobs(graph))
    assert again.find_value("conv").layout == Layout(8)
    assert again.find_value("shape").content.tolist() == graph.find_value("shape").content.tolist()  # type: ignore[union-attr]
    assert again.find_value("weights").constant is graph.find_value("weights").constant


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (0.1, "float64", "0.1"),
        (np.float32(0.1), "float32", "0.1"),
        (np.float16(0.1), "float16", "0.1"),
        (1e22, "float64", "1e+22"),
        (-0.0, "float64", "-0.0"),
        (3.0, "float32", "3.0"),
        (float("-inf"), "float64", "-inf"),
        (float("nan"), "float64", "nan"),
        (np.array(0xFFC00001, np.uint32).view(np.float32)[()], "float32", "nan(0xffc00001)"),
    ],
)
def test_floats_are_short_and_exact(value: float, dtype: str, expected: str) -> None:
    assert float_text(value, BY_NAME[dtype]) == expected


def test_comments_and_free_layout_are_accepted() -> None:
    graph = parse_graph('graph "g" { # a comment\n input %x:float32[ 2 ]\n%y=Relu(%x)@"r"{} output %y}')
    assert [n.name for n in graph] == ["r"] and graph.outputs[0].name == "y"


HEAD = 'graph "g" {\n  input %x: float32[2]\n  '


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1, column 1: expected 'graph', found the end of the text"),
        ('graph "g" {', "line 1, column 12: expected a definition or '}', found the end"),
        ('graph "g" {} graph', "line 1, column 14: unexpected 'graph' after the graph"),
        (HEAD + "&", "line 3, column 3: unexpected character '&'"),
        (HEAD + "%y = Relu(%z) @r\n}", "line 3, column 13: value 'z' is not defined before its use"),
        (HEAD + "%y = Relu(%y) @r\n}", "reads its own output"),
        (HEAD + "input %x: float32[2]\n}", "line 3, column 9: value 'x' is defined twice"),
        (HEAD + "input %y: float31[2]\n}", "line 3, column 13: unknown type 'float31'"),
        (HEAD + "input %y: float32[n // 0]\n}", "line 3, column 23: division by zero"),
        (HEAD + "input %y: float32[select_eq(n, 1)]\n}", "select_eq takes 4 operands, 2 are given"),
        (HEAD + "%y = Relu(%x)\n}", "line 4, column 1: expected the node's name, such as @relu, found '}'"),
        (HEAD + "%y = Relu(%x) @r {a = }\n}", "line 3, column 25: expected a value, found '}'"),
        (HEAD + "%y = Relu(%x) @r {a = 1, a = 2}\n}", "attribute 'a' is given twice"),
        (HEAD + "constant %c: float32[2] = [1.0]\n}", "line 3, column 29: 1 elements for shape [2]"),
        (HEAD + "constant %c: float32[n] = [1.0]\n}", "constant 'c' needs a tensor type of known extents"),
        (HEAD + "constant %c: uint8[1] = [256]\n}", "256 does not fit uint8"),
        (HEAD + "constant %c: int4[1] = [-9]\n}", "-9 does not fit int4"),
        (HEAD + "constant %c: bool[] = 1\n}", "expected true or false, found '1'"),
        (HEAD + "constant %c: float32[] = 0x10\n}", "expected a decimal number"),
        (HEAD + 'constant %c: float32[99] = blob "sha256:12"\n}', "constant 'c' is the array sha256:12, which `const"),
        (HEAD + 'metadata {colour = "red"}\n}', "unknown metadata field 'colour'"),
        (HEAD + "input %z: float32[1, 4] NCx\n}", "line 3, column 27: unknown layout 'NCx'"),
        (HEAD + 'input %"\\q": float32[1]\n}', "is no valid name"),
        (HEAD + "input %y: float32[" + "(" * 5000 + "\n}", "nested too deeply"),
    ],
)
def test_malformed_text(text: str, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        parse_graph(text)
    assert message in str(caught.value) and "line " in str(caught.value)


def test_arrays_that_do_not_fit_are_refused() -> None:
    array = np.zeros(99, np.float32)
    text = f'graph "g" {{ constant %c: float32[9, 12] = blob "{digest(array)}" output %c }}'
    with pytest.raises(
        ModelError, match=r"constant 'c' is float32\[9, 12\], but the array sha256:\w+ is float32\[99\]"
    ):
        parse_graph(text, {digest(array): array})


def test_arrays_of_equal_bytes_share_a_digest_across_shapes_and_types() -> None:
    graph = Graph("zeros")
    for index, array in enumerate((np.zeros((3, 7), np.float32), np.zeros(21, np.int32), np.zeros((7, 3), np.float32))):
        graph.output(graph.constant(array, f"c{index}"))
    assert len(blobs(graph)) == 1
    again = parse_graph(print_graph(graph), blobs(graph))
    for before, after in zip(graph.outputs, again.outputs, strict=True):
        assert before.constant is not None and after.constant is not None
        assert after.constant.dtype == before.constant.dtype and after.constant.shape == before.constant.shape


def test_damaged_text_is_read_or_refused() -> None:
    graph = example()
    text, arrays = print_graph(graph), blobs(graph)
    for seed in range(1000):
        rng = random.Random(seed)
        damaged = text
        for _ in range(rng.choice((1, 1, 3))):
            at = rng.randrange(len(damaged))
            piece = rng.choice(['"', "%x", "(", "]", "0", "9" * 30, "=", "-", "{", "}", "\\", "é", "nan", "b", "?", ""])
            damaged = damaged[:at] + piece + damaged[at + rng.randrange(3) :]
        try:
            parse_graph(damaged, arrays)
        except ModelError as error:
            assert str(error).startswith("line "), seed
