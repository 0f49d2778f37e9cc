"""Edits of ONNX graphs that show whether a comparison could fail: cuts before activations, zeroed channels."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
from onnx import helper

from .reference import Feeds, Reference, clone

ACTIVATIONS = frozenset({"Softmax", "Sigmoid", "LogSoftmax"})
PASSING = frozenset(
    {"Identity", "Cast", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Transpose", "Slice", "ReduceMean"}
)
CONVOLUTIONS = frozenset({"Conv", "ConvTranspose", "ConvInteger"})
MATMULS = frozenset({"Gemm", "MatMul", "MatMulInteger", "Einsum"})


def before_activations(graph: onnx.GraphProto) -> list[str]:
    """The tensors that a final Softmax or Sigmoid is applied to, looking through reshapes and the like."""
    producers = {output: node for node in graph.node for output in node.output}
    found: list[str] = []
    for output in graph.output:
        node = producers.get(output.name)
        while node is not None and node.op_type in PASSING:
            node = producers.get(node.input[0])
        if node is not None and node.op_type in ACTIVATIONS and node.input[0] not in found:
            found.append(node.input[0])
    return found


def varying(graph: onnx.GraphProto) -> set[str]:
    """The tensors that depend on the graph's inputs (a node with a subgraph always does)."""
    constants = {initializer.name for initializer in graph.initializer}
    found = {value.name for value in graph.input} - constants
    for node in graph.node:
        subgraph = any(attribute.type == onnx.AttributeProto.GRAPH for attribute in node.attribute)
        if subgraph or any(name in found for name in node.input):
            found.update(node.output)
    return found


def weighted_nodes(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """Convolutions and matrix products of something that varies with something that does not, in graph order."""
    inconstant = varying(graph)
    return [
        node
        for node in graph.node
        if node.op_type in CONVOLUTIONS | MATMULS and len({name in inconstant for name in node.input[:2]}) == 2
    ]


def first_middle_last(nodes: Sequence[onnx.NodeProto]) -> list[onnx.NodeProto]:
    """Three of the nodes (fewer if there are fewer)."""
    return [nodes[index] for index in sorted({0, len(nodes) // 2, len(nodes) - 1})] if nodes else []


def intermediates(graph: onnx.GraphProto) -> list[str]:
    """Every tensor a node computes from the inputs, the graph's outputs included."""
    inconstant = varying(graph)
    return [name for node in graph.node for name in node.output if name and name in inconstant]


def masked(model: onnx.ModelProto, nodes: Sequence[onnx.NodeProto]) -> onnx.ModelProto:
    """A copy in which the first output of each node is multiplied by a new graph input, `mask:<output>`.

    The mask (float32) broadcasts over the channel axis: [C, 1, 1] for a 2-D convolution, [C] for a matrix product.
    """
    copy = clone(model)
    chosen = {node.output[0] for node in nodes}
    edited: list[onnx.NodeProto] = []
    for node in copy.graph.node:
        edited.append(node)
        name = node.output[0] if node.output else ""
        if name in chosen:
            node.output[0] = f"raw:{name}"
            edited.append(helper.make_node("Mul", [f"raw:{name}", f"mask:{name}"], [name]))
            copy.graph.input.append(helper.make_tensor_value_info(f"mask:{name}", onnx.TensorProto.FLOAT, None))
    edited = [onnx.NodeProto.FromString(node.SerializeToString()) for node in edited]
    del copy.graph.node[:]
    copy.graph.node.extend(edited)
    return copy


def mask_shape(node: onnx.NodeProto, output_shape: Sequence[int]) -> list[int]:
    """The mask's shape for a node whose first output has that shape."""
    if node.op_type in CONVOLUTIONS:
        return [output_shape[1]] + [1] * (len(output_shape) - 2)
    return [output_shape[-1]]


def without_ifs(model: onnx.ModelProto, feeds: Feeds) -> onnx.ModelProto:
    """A copy in which every If (also nested) is replaced by the branch that these feeds take.

    Names inside a branch get a prefix, as another branch may use them too; the If's outputs keep their names.
    """
    copy = clone(model)
    count = 0
    while (place := next((i for i, node in enumerate(copy.graph.node) if node.op_type == "If"), None)) is not None:
        node = copy.graph.node[place]
        taken = "then_branch" if bool(Reference(copy, [node.input[0]]).run(feeds)[0]) else "else_branch"
        branch = next(attribute.g for attribute in node.attribute if attribute.name == taken)
        spliced = _prefixed(branch, f"if{count}/")
        count += 1
        nodes = [*copy.graph.node[:place], *spliced.node]
        for inside, outside in zip(spliced.output, node.output, strict=True):
            nodes.append(helper.make_node("Identity", [inside.name], [outside]))
        nodes.extend(copy.graph.node[place + 1 :])
        nodes = [onnx.NodeProto.FromString(each.SerializeToString()) for each in nodes]
        copy.graph.initializer.extend(spliced.initializer)
        del copy.graph.node[:]
        copy.graph.node.extend(nodes)
    return copy


def _prefixed(branch: onnx.GraphProto, prefix: str) -> onnx.GraphProto:
    """A copy of a branch in which every name of its own has a prefix."""
    copy = onnx.GraphProto()
    copy.CopyFrom(branch)
    own = {name for node in copy.node for name in node.output} | {each.name for each in copy.initializer}
    _rename(copy, {name: prefix + name for name in own if name})
    return copy


def _rename(graph: onnx.GraphProto, names: dict[str, str]) -> None:
    for each in [*graph.initializer, *graph.output]:
        each.name = names.get(each.name, each.name)
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                _rename(attribute.g, names)
