"""The options of `jitopt.compile`: each does what it says, and an unknown one is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from jitopt_kernels.targets import TARGETS

import jitopt
from jitopt import CompileError, FeedError, Graph, MemoryLimitError, ModelError, ShapeError
from jitopt.codegen.host import choose_target, runs_here
from jitopt.verify import compare
from tests.networks import N, check, convolutional, floats, pair, reference, weights

FEEDS = {"x": floats(3, 4), "y": floats(3, 4, seed=1)}
IMAGES = {"x": floats(2, 3, 8, 8)}


# unknown options --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"precision": "exakt"}, "precision='exakt' is unknown; did you mean 'exact'?"),
        ({"gelu": "erf"}, "gelu='erf' is unknown; it is one of exact, tanh, sigmoid"),
        ({"disable": ["fold-batchnorms"]}, "disable='fold-batchnorms' is unknown; did you mean 'fold-batchnorm'"),
        ({"disable": ["pointwise-group"]}, "did you mean 'pointwise-groups'"),
        ({"disable": "fuson", "optimize": False}, "disable='fuson' is unknown; did you mean 'fusion'?"),
        ({"disable": [3]}, "disable=3 is unknown"),
        ({"target": "avx"}, "target='avx' is unknown; did you mean 'avx2'"),
        ({"num_threads": 0}, "num_threads is 0, it must be at least 1"),
        ({"num_threads": -2}, "num_threads is -2"),
        ({"max_memory": -1}, "max_memory is -1, it must not be negative"),
    ],
)
def test_impossible_values_raise_value_errors(option: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        jitopt.compile(pair(), **option)


@pytest.mark.parametrize(
    "option", [{"threads": 2}, {"optimise": False}, {"num_threads": 1.5}, {"max_memory": "1 GB"}, {"shapes": 3}]
)
def test_unknown_options_and_wrong_types_raise_type_errors(option: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        jitopt.compile(pair(), **option)


def test_options_go_by_name_only() -> None:
    with pytest.raises(TypeError):
        jitopt.compile(pair(), 2)  # type: ignore[misc]


# the model ----------------------------------------------------------------------------------------------------------
def test_the_callers_graph_stays_as_it_is() -> None:
    graph = convolutional()
    before = [(node.op, node.name, [v.name for v in node.inputs if v is not None]) for node in graph]
    jitopt.compile(graph, outputs=["logits"])
    assert [(node.op, node.name, [v.name for v in node.inputs if v is not None]) for node in graph] == before
    assert [v.name for v in graph.outputs] == ["y"]


# outputs ------------------------------------------------------------------------------------------------------------
def test_any_tensor_can_be_an_output() -> None:
    names = ["joined", "stem.norm", "y", "x", "fc.b", "stem"]
    session = jitopt.compile(convolutional(), outputs=names)
    assert [o.name for o in session.get_outputs()] == names
    graph = convolutional()
    graph.outputs = [graph.find_value(name) for name in names]
    check(session, graph, IMAGES)


def test_what_only_feeds_other_outputs_is_left_out() -> None:
    for outputs in (["stem.relu"], "stem.relu"):
        session = jitopt.compile(convolutional(), outputs=outputs, optimize=False)
        assert session.explain().as_dict()["original_types"] == {"BatchNormalization": 1, "Conv": 1, "Relu": 1}


def test_no_names_mean_all_outputs_and_one_twice_counts_once() -> None:
    assert [o.name for o in jitopt.compile(pair(), outputs=[]).get_outputs()] == ["sum", "out"]
    assert [o.name for o in jitopt.compile(pair(), outputs=["out", "out"]).get_outputs()] == ["out"]


def test_unknown_outputs_are_refused_with_near_matches() -> None:
    with pytest.raises(ModelError, match=r"there is no tensor named 'stem\.rel'") as caught:
        jitopt.compile(convolutional(), outputs=["y", "stem.rel"])
    assert "stem.relu" in (caught.value.remedy or "") and caught.value.model == "convolutional"


# shapes and feeds ---------------------------------------------------------------------------------------------------
def planned(session: Any) -> int:
    return sum(len(frame.plans) for frame in session._executor._frames.values())


def test_shapes_and_feeds_are_bound_ahead() -> None:
    shapes = [{"x": (3, 4), "y": (3, 4)}, {"x": [5, 4], "y": np.array([5, 4])}]
    session = jitopt.compile(pair(), shapes=shapes, feeds=FEEDS)
    assert planned(session) == 2
    session.run(None, FEEDS)
    assert planned(session) == 2
    assert planned(jitopt.compile(pair(), shapes=shapes[0])) == 1
    assert planned(jitopt.compile(pair(), feeds={"x": FEEDS["x"].tolist(), "y": FEEDS["y"]})) == 1


@pytest.mark.parametrize(
    ("option", "kind", "message"),
    [
        ({"shapes": [{"x": (3, 4)}]}, FeedError, "missing shape 'y'"),
        ({"shapes": [{"x": (3, 4), "y": (3, 4), "z": ()}]}, FeedError, "no input is named 'z'"),
        ({"shapes": [(3, 4)]}, FeedError, "shapes must be a dictionary"),
        ({"shapes": [{"x": (3,), "y": (3, 4)}]}, ShapeError, "'x' has rank 2, the shape given is"),
        ({"shapes": [{"x": (3, 4), "y": (2, 4)}]}, ShapeError, "axis 0 of input 'y' must be n = 3"),
        ({"shapes": [{"x": (3, 5), "y": (3, 4)}]}, ShapeError, "axis 1 of input 'x' must be 4"),
        ({"shapes": [{"x": ("n", 4), "y": (3, 4)}]}, ShapeError, "must be a sequence of integers"),
        ({"shapes": [{"x": 4, "y": (3, 4)}]}, ShapeError, "must be a sequence of integers"),
        ({"shapes": [{"x": (-3, 4), "y": (-3, 4)}]}, ShapeError, "negative extent"),
        ({"feeds": {"x": floats(3, 4)}}, FeedError, "missing feed 'y'"),
        ({"feeds": [floats(3, 4)]}, FeedError, "must be a dictionary"),
        ({"feeds": {"x": floats(3, 4), "y": floats(2, 4)}}, ShapeError, "must be n = 3"),
    ],
)
def test_wrong_shapes_and_feeds_are_refused(option: dict[str, Any], kind: Any, message: str) -> None:
    with pytest.raises(kind, match=message) as caught:
        jitopt.compile(pair(), **option)
    assert caught.value.model == "pair"


# what runs ----------------------------------------------------------------------------------------------------------
def test_without_optimisation_every_operator_is_its_own_kernel() -> None:
    session = jitopt.compile(convolutional(), optimize=False)
    found = session.explain().as_dict()
    assert all(len(group["members"]) == 1 for group in found["groups"])
    assert not found["passes"] and not found["host_steps"]
    kernels = sorted(op for group in found["groups"] for op in group["operators"] if op != "jitopt.Reorder")
    assert kernels == sorted(node.op for node in convolutional() if node.op != "Flatten")
    check(session, convolutional(), IMAGES)


def test_optimisation_folds_and_fuses() -> None:
    session = jitopt.compile(convolutional())
    groups = session.explain().as_dict()["groups"]
    assert [g["operators"] for g in groups if g["operators"][0] == "Conv"] == [
        ["Conv", "Relu"],
        ["Conv", "Relu", "Add"],
    ]
    check(session, convolutional(), IMAGES)


def test_passes_and_groupings_can_be_left_out() -> None:
    unfolded = jitopt.compile(convolutional(), disable=["fold-batchnorm", "fold-affine"])
    assert "fold-batchnorm" not in {p["name"] for p in unfolded.explain().as_dict()["passes"]}
    check(unfolded, convolutional(), IMAGES)
    ungrouped = jitopt.compile(convolutional(), disable="fusion")
    assert all(len(g["members"]) == 1 for g in ungrouped.explain().as_dict()["groups"])
    check(ungrouped, convolutional(), IMAGES)


def test_exact_mode_folds_nothing() -> None:
    session = jitopt.compile(convolutional(), precision="exact")
    members = [group["operators"] for group in session.explain().as_dict()["groups"]]
    assert members[:2] == [["Conv", "Mul", "Add", "Relu"], ["Conv", "Mul", "Add", "Relu", "Add"]]
    check(session, convolutional(), IMAGES)


def test_gelu_takes_the_form_asked_for() -> None:
    graph = Graph("gelu")
    graph.output(graph.add("Gelu", [graph.input("x", "float32", (N,))], name="y"))
    x = {"x": np.linspace(-6, 6, 4001, dtype=np.float32)}
    exact = reference(graph, x)["y"]
    for form, low, high in (("exact", 0.0, 1e-6), ("tanh", 1e-4, 1e-3), ("sigmoid", 5e-3, 2.1e-2)):
        error = np.abs(jitopt.compile(graph, gelu=form).run(None, x)[0] - exact).max()
        assert low <= error <= high, form


def test_progress_is_told_of_every_kernel_compiled() -> None:
    told: list[tuple[int, int, str, float]] = []
    session = jitopt.compile(pair(), cache=False, progress=lambda *a: told.append(a))
    assert [done for done, *_ in told] == list(range(1, len(session.kernels) + 1))
    assert all(total == len(session.kernels) and seconds > 0 for _, total, _, seconds in told)
    assert {key for _, _, key, _ in told} == {kernel.key for kernel in session.kernels}
    assert session.kernels[0].path is None


# targets ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["avx512", "avx2", "x86-64-v2", "neon"])
def test_a_forced_target_runs_or_is_refused(name: str) -> None:
    if not runs_here(TARGETS[name]):
        with pytest.raises(CompileError, match=name) as caught:
            jitopt.compile(convolutional(), target=name)
        assert caught.value.remedy or "this is" in str(caught.value)
        return
    session = jitopt.compile(convolutional(), target=name)
    assert session.explain().as_dict()["target"] == name
    check(session, convolutional(), IMAGES)


def test_the_best_target_is_the_default() -> None:
    assert jitopt.compile(pair()).explain().as_dict()["target"] == choose_target().name


# memory -------------------------------------------------------------------------------------------------------------
def test_constants_beyond_the_limit_are_refused() -> None:
    size = sum(v.constant.nbytes for v in convolutional().constants if v.constant is not None)
    with pytest.raises(MemoryLimitError, match=r"constants take [\d,]+ bytes") as caught:
        jitopt.compile(convolutional(), max_memory=size - 1, optimize=False)
    assert caught.value.model == "convolutional" and "max_memory" in (caught.value.remedy or "")


def test_a_pool_beyond_the_limit_is_refused_before_it_is_allocated() -> None:
    """A thousand million rows: nothing could allocate them, so an attempt would be another error."""
    session = jitopt.compile(convolutional(), max_memory=1 << 20)
    with pytest.raises(MemoryLimitError, match="more than the limit of 1,048,576") as caught:
        session.bind({"x": (10**9, 3, 8, 8)})
    assert caught.value.model == "convolutional"
    check(session, convolutional(), IMAGES)
    with pytest.raises(MemoryLimitError):
        jitopt.compile(convolutional(), max_memory=1 << 20, shapes=[{"x": (10**9, 3, 8, 8)}])


def expanding(fed: bool) -> Graph:
    """A tensor blown up to 8 GiB: by a kernel, or (`fed`) by a host step, for the shape is a feed's."""
    graph = Graph("expanding")
    x = graph.input("x", "float32", (1, 1))
    shape = np.array([1 << 16, 1 << 15], np.int64)
    target = graph.input("shape", "int64", (2,)) if fed else graph.constant(shape, "shape")
    graph.output(graph.add("Expand", [x, target], name="y"))
    return graph


def test_results_beyond_the_limit_are_refused_before_they_are_allocated() -> None:
    session = jitopt.compile(expanding(fed=False), max_memory=1 << 30)
    with pytest.raises(MemoryLimitError, match="arrays of 8,589,934,592 bytes"):
        session.run(None, {"x": [[1.0]]})


def test_tables_beyond_the_limit_are_refused_before_they_are_allocated() -> None:
    graph = Graph("counting")
    x = graph.input("x", "float32", (N, 0))
    zero, one = (graph.constant(np.array(i), str(i)) for i in (0, 1))
    count = graph.add("Squeeze", [graph.add("Shape", [x], name="shape", start=0, end=1)], name="count")
    places = graph.add("Range", [zero, count, one], name="places")
    graph.output(graph.add("Add", [places, graph.input("y", "int64", ())], name="y"))
    session = jitopt.compile(graph, max_memory=1 << 30)
    feeds = {"x": np.zeros((3, 0), np.float32), "y": 5}
    assert session.run(None, feeds)[0].tolist() == [5, 6, 7]
    with pytest.raises(MemoryLimitError):
        session.run(None, {"x": np.zeros((1 << 40, 0), np.float32), "y": 5})


def test_folding_stays_below_the_limit() -> None:
    """A constant that folding would make larger than the limit is left to the run, which refuses it in turn."""
    graph = Graph("folding")
    shape = graph.constant(np.array([1 << 12, 1 << 12], np.int64), "shape")
    ones = graph.add("Expand", [graph.constant(weights(1, 1 << 12), "row"), shape], name="large")
    graph.output(graph.add("Add", [ones, graph.input("x", "float32", ())], name="y"))
    session = jitopt.compile(graph, max_memory=1 << 25)
    assert "fold-constants" not in {p["name"] for p in session.explain().as_dict()["passes"]}
    with pytest.raises(MemoryLimitError):
        session.run(None, {"x": 1.0})


def test_a_reference_that_runs_out_of_memory_is_a_memory_error_of_ours(monkeypatch: Any) -> None:
    session = jitopt.compile(expanding(fed=True))
    assert session.run(None, {"x": [[2.0]], "shape": [2, 3]})[0].tolist() == [[2.0] * 3] * 2

    def exhausted(*_: Any) -> Any:
        raise MemoryError("Unable to allocate 8.00 GiB")

    step = session._program.host_steps[0]
    planned_step = session._executor._interpreters[step]._single[step.node]
    monkeypatch.setattr(planned_step, "operator", type("Exhausted", (), {"reference": staticmethod(exhausted)}))
    with pytest.raises(MemoryLimitError, match="Unable to allocate 8") as caught:
        session.run(None, {"x": [[2.0]], "shape": [2, 3]})
    assert caught.value.model == "expanding"
    monkeypatch.undo()
    assert session.run(None, {"x": [[2.0]], "shape": [1, 1]})[0].tolist() == [[2.0]]


def test_pools_of_other_shapes_give_way() -> None:
    """Twenty sizes in turn, of which the limit holds about three pools."""
    one = jitopt.compile(convolutional(), shapes=[{"x": (20, 3, 8, 8)}]).memory()
    session = jitopt.compile(convolutional(), max_memory=one.weight_bytes + 3 * one.pool_bytes)
    for images in range(1, 21):
        feeds = {"x": floats(images, 3, 8, 8)}
        assert compare(session.run(None, feeds)[0], reference(convolutional(), feeds)["y"])
        frames = session._executor._frames.values()
        assert sum(frame.idle_bytes for frame in frames) <= 3 * one.pool_bytes
