"""The comparison with the reference can fail: two inputs, or a damaged layer, give answers far apart."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest

from . import surgery
from .cases import CASES, Case
from .reference import Reference
from .sensitivity import ENOUGH, measure, measure_model

X = np.arange(8, dtype=np.float32).reshape(1, 8) / 8


def parse(text: str, **weights: np.ndarray) -> onnx.ModelProto:
    """A model from its text form, with initialisers."""
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]>\n{text}')
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in weights.items())
    onnx.checker.check_model(model, full_check=True)
    return model


def random(*shape: int, seed: int = 0) -> np.ndarray:
    """Normally distributed numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_comparison_can_fail(case: Case) -> None:
    found = measure(case.name)
    assert found.different, found.differences
    assert min(found.scales.values()) >= 1e-2, found.scales
    # Where a layer may be damaged unseen, test_answers compares every intermediate tensor; only there.
    assert found.moved is not case.every, found.movements


def test_the_table_names_each_model_once() -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)


GEMM = """g (float[1, 8] x) => (float[1, 4] y) {
    s = MatMul(x, w)
    y = Softmax(s)
}"""


def test_movements_and_differences_are_counted_in_tolerances() -> None:
    weights = random(8, 4)
    found = measure_model(parse(GEMM, w=weights), [{"x": X}, {"x": -X}])
    product = X @ weights
    scale = np.abs(product).max()
    assert found.differences.keys() == {"y", "s"}
    assert found.differences["s"] == pytest.approx(2 * scale / 1e-4 / max(1, scale), rel=1e-4)
    assert found.movements.keys() == {"s"} and found.movements["s"] > ENOUGH
    assert found.scales["s"] == pytest.approx(scale)
    assert found.different and found.moved


def test_a_network_that_ignores_its_input_is_found_out() -> None:
    deaf = GEMM.replace("y = Softmax(s)", "n = Mul(s, little) y = Softmax(n)")
    found = measure_model(parse(deaf, w=random(8, 4), little=np.float32(1e-6)), [{"x": X}, {"x": -X}])
    assert not found.different and not found.moved


def test_cuts_look_through_reshapes() -> None:
    model = parse(
        """g (float[1, 8] x) => (float[8] y, float[1, 8] z, float[1, 8] w) {
            s = Softmax(x)  f = Flatten<axis = 0>(s)  shape = Constant<value_ints = [8]>()  y = Reshape(f, shape)
            t = Relu(x)  z = Sigmoid(t)  w = Relu(z)
        }"""
    )
    assert surgery.before_activations(model.graph) == ["x", "t"]


def test_weighted_nodes_have_one_constant_operand() -> None:
    model = parse(
        """g (float[1, 8] x) => (float[1, 8] y) {
            v = Transpose(w)  a = MatMul(x, v)  t = Transpose(x)  b = MatMul(a, t)  c = MatMul(b, x)  d = MatMul(w, v)
            e = MatMul(c, d)  y = Add(e, x)
        }""",
        w=random(8, 8),
    )
    nodes = surgery.weighted_nodes(model.graph)
    assert [node.output[0] for node in nodes] == ["a", "e"]
    assert surgery.intermediates(model.graph) == ["a", "t", "b", "c", "e", "y"]
    assert [node.output[0] for node in surgery.first_middle_last(nodes)] == ["a", "e"]
    assert surgery.first_middle_last([]) == []


def test_masks_of_ones_change_nothing_and_zeros_take_channels_out() -> None:
    model = parse(
        "g (float[1, 2, 5, 5] x) => (float[1, 4, 3, 3] y) { c = Conv(x, w) y = Relu(c) }", w=random(4, 2, 3, 3)
    )
    feeds = {"x": random(1, 2, 5, 5, seed=1)}
    plain = Reference(model).run(feeds)[0]
    masked = Reference(surgery.masked(model, surgery.weighted_nodes(model.graph)))
    np.testing.assert_array_equal(masked.run({**feeds, "mask:c": np.ones(1, np.float32)})[0], plain)
    mask = np.ones(surgery.mask_shape(surgery.weighted_nodes(model.graph)[0], (1, 4, 3, 3)), np.float32)
    assert mask.shape == (4, 1, 1)
    mask[1] = 0
    without = masked.run({**feeds, "mask:c": mask})[0]
    assert not without[:, 1].any()
    np.testing.assert_array_equal(without[:, [0, 2, 3]], plain[:, [0, 2, 3]])


NESTED = """g (float[1, 8] x, bool outer, bool inner) => (float[1, 8] y) <float two = {2}> {
    t = Mul(x, two)
    y = If(outer) <
        then_branch = a () => (float[1, 8] u) {
            p = Mul(t, two)
            u = If(inner) <then_branch = b () => (float[1, 8] v) { v = Add(p, two) },
                           else_branch = c () => (float[1, 8] v) { v = Neg(p) }>
        },
        else_branch = d () => (float[1, 8] u) { u = Identity(t) }
    >
}"""


@pytest.mark.parametrize("outer", [True, False])
@pytest.mark.parametrize("inner", [True, False])
def test_the_branches_taken_stand_for_nested_ifs(outer: bool, inner: bool) -> None:
    model = parse(NESTED)
    feeds = {"x": X, "outer": np.array(outer), "inner": np.array(inner)}
    flat = surgery.without_ifs(model, feeds)
    assert not any(node.op_type == "If" for node in flat.graph.node)
    np.testing.assert_array_equal(Reference(flat).run(feeds)[0], Reference(model).run(feeds)[0])


def test_names_of_a_branch_do_not_clash_with_the_graph() -> None:
    model = parse(
        """g (float[1, 8] x, bool p) => (float[1, 8] y, float[1, 8] z) {
            y = If(p) <then_branch = a () => (float[1, 8] u) { u = Neg(x) },
                       else_branch = b () => (float[1, 8] u) { u = Abs(x) }>
            z = If(p) <then_branch = c () => (float[1, 8] u) { u = Exp(x) },
                       else_branch = d () => (float[1, 8] u) { u = Relu(x) }>
        }"""
    )
    feeds = {"x": X, "p": np.array(True)}
    flat = Reference(surgery.without_ifs(model, feeds)).run(feeds)
    np.testing.assert_array_equal(flat[0], -X)
    np.testing.assert_allclose(flat[1], np.exp(X), rtol=1e-6)
