"""How many kernels a run of the real models executes, by lowering alone: nothing is compiled."""

from __future__ import annotations

from functools import cache

import pytest

from bench import models
from jitopt.api import load_graph
from jitopt.codegen.host import choose_target
from jitopt.codegen.templates import render
from jitopt.explain import REORDERS
from jitopt.lower.program import Program
from jitopt.model import ModelOptions, lower_model, optimize_model
from jitopt.passes.infer import infer

# The most kernels a run may execute, reorders apart.
LIMITS = {
    "efficientnet-lite0": 53, "open-nsfw": 60, "resnet50": 58, "squeezenet": 31, "ocr-cls": 90, "ocr-det": 93,
    "u2netp": 190, "minilm-l3": 75, "densenet121": 183, "inception-v1": 75, "inception-v2": 84, "shufflenet": 75,
}  # fmt: skip
WITHOUT_HOST_STEPS = (
    *LIMITS, "ocr-rec", "minilm-l6-int8", "alexnet", "zfnet512", "vgg19",
)  # fmt: skip
LARGE = {"alexnet", "zfnet512", "vgg19"}  # hundreds of MB of weights, which take seconds to read and pack


@cache
def program(name: str, optimize: bool = True) -> Program:
    """The model's program; a test that asks for a model that is not on this machine is skipped."""
    try:
        path = models.load(name)
    except models.NotFetched as reason:
        pytest.skip(str(reason))
    graph, options = load_graph(path), ModelOptions(choose_target(), optimize=optimize)
    infer(graph)
    optimize_model(graph, options)
    return lower_model(graph, options)


@pytest.mark.parametrize("name", LIMITS)
def test_no_more_kernels_than_promised(name: str) -> None:
    steps = [step for step in program(name).steps if step.spec.template not in REORDERS]
    assert len(steps) <= LIMITS[name]


@pytest.mark.parametrize("name", sorted(set(WITHOUT_HOST_STEPS) - LARGE))
def test_no_host_steps(name: str) -> None:
    assert [(h.node.op, h.node.name, h.reason) for h in program(name).host_steps] == []


@pytest.mark.parametrize("name", sorted(set(WITHOUT_HOST_STEPS) - LARGE))
def test_no_host_steps_without_optimisation(name: str) -> None:
    """Every operator of these models has a kernel of its own, not only what passes make of it."""
    found = program(name, optimize=False)
    assert [(h.node.op, h.node.name, h.reason) for h in found.host_steps] == []
    assert all(len(step.nodes) == 1 for step in found.steps)


@pytest.mark.parametrize("name", sorted(set(WITHOUT_HOST_STEPS) - LARGE))
def test_equal_specs_compile_once(name: str) -> None:
    """Layers that differ in extents and weights only share a kernel: far fewer modules than steps, all different."""
    found = program(name)
    texts = [render(spec).split('"""', 2)[2] for spec in found.specs]  # without the heading, which names the spec
    assert len(set(texts)) == len(texts) == len({spec.digest for spec in found.specs})
    assert len(texts) <= len(found.steps) / 2


@pytest.mark.parametrize("name", sorted(LARGE))
def test_large_models_have_no_host_steps(name: str) -> None:
    assert program(name).host_steps == []
    program.cache_clear()
