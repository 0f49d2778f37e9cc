"""What an operator is: one declaration from which checks, inference, folding, fusion and tests derive."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from jitopt.errors import ModelError
from jitopt.ir.dtypes import BY_NAME, DType
from jitopt.ir.graph import Graph, Node
from jitopt.ir.types import Type

Array = np.ndarray[Any, Any]


class Kind(enum.Enum):
    """How an operator touches its data; fusion legality is a table over these."""

    MAP = "map"  # output element i depends on element i of (broadcast) inputs
    REDUCE = "reduce"  # along axes: sums, maxima, softmax, normalisation
    CONTRACT = "contract"  # Conv, MatMul, Gemm
    WINDOW = "window"  # pooling, resizing, local normalisation
    VIEW = "view"  # same bytes under another shape: Reshape, Squeeze, Flatten, Identity
    MOVE = "move"  # bytes go elsewhere: Transpose, Slice, Concat, Gather, Pad, Expand
    SHAPE = "shape"  # reads only shapes, or makes small integer tensors: Shape, Size, Range, ConstantOfShape
    OPAQUE = "opaque"  # recurrent cells, control flow, data-dependent shapes, the rest


# Named sets of element types that schemas use.
FLOATS = frozenset(d for d in BY_NAME.values() if d.kind == "float")
INTEGERS = frozenset(d for d in BY_NAME.values() if d.kind in ("int", "uint"))
NUMBERS = FLOATS | INTEGERS
BOOLEAN = frozenset({BY_NAME["bool"]})
ANY = frozenset(BY_NAME.values())
INDICES = frozenset({BY_NAME["int32"], BY_NAME["int64"]})


@dataclass(frozen=True, slots=True)
class Param:
    """One formal input or output: `type_var` ties dtypes together as ONNX's T does; `dtypes` are those allowed."""

    name: str
    dtypes: frozenset[DType] = ANY
    type_var: str = "T"
    optional: bool = False
    variadic: bool = False


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute: `kind` is int, float, string, ints, floats, strings, tensor, graph or type.

    `default` None together with `required` False means it may be absent (`attrs.name` is then None).
    """

    kind: str
    default: Any = None
    required: bool = False
    choices: tuple[Any, ...] = ()
    check: Callable[[Any], bool] | None = None  # an extra condition on the value


@dataclass(frozen=True, slots=True)
class Sample:
    """One test case: input arrays (None for an absent optional one), attributes, and the opset it is written for."""

    inputs: tuple[Any, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    opset: int | None = None
    outputs: int = 1


class Attrs:
    """Attribute access with defaults: `attrs.alpha`. Also carries what a reference may need beside attributes.

    `outputs` is the number of outputs asked for; `run(graph, inputs, captures)` evaluates a subgraph (control flow);
    `captures` are the captured values' arrays.
    """

    def __init__(
        self, values: Mapping[str, Any], *, outputs: int = 1,
        run: Callable[..., list[Any]] | None = None, captures: Sequence[Any] = (),
    ) -> None:  # fmt: skip
        self.__dict__.update(values)
        self.outputs, self.run, self.captures = outputs, run, captures

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"no attribute '{name}' is declared")


Infer = Callable[[Node, Attrs], Sequence[Type]]
Reference = Callable[..., Any]
Upgrade = Callable[[Graph, Node], None]


@dataclass(frozen=True)
class Operator:
    """One operator in the one form the IR knows (that of its newest supported version).

    since      the opset versions at which the operator changed, oldest supported first
    upgrades   (version, function): a node written for an opset below `version` is brought to that version's form
    infer      types of all outputs from the node's input types (and contents); raises ShapeError or ModelError
    reference  NumPy meaning: reference(attrs, *arrays) -> array or tuple of arrays; absent optional inputs are None
    content    what is known symbolically: content(attrs, node, *object_arrays) -> object array or None, for operators
               that appear in shape arithmetic; an input whose content is unknown is passed as None
    formula    for MAP: dotted name of the device formula ("jitopt_kernels.formulas.relu")
    scalars    attributes handed to the formula after the tensors, in order
    nondeterministic  results differ run to run (random operators): never folded, never merged
    samples    cases for tests and fuzzing, built on demand
    """

    name: str
    kind: Kind
    inputs: tuple[Param, ...]
    outputs: tuple[Param, ...]
    infer: Infer
    reference: Reference | None
    attributes: Mapping[str, Attribute] = field(default_factory=lambda: MappingProxyType({}))
    since: tuple[int, ...] = (1,)
    upgrades: tuple[tuple[int, Upgrade], ...] = ()
    content: Callable[..., Array | None] | None = None
    formula: str | None = None
    scalars: tuple[str, ...] = ()
    nondeterministic: bool = False
    samples: Callable[[], Sequence[Sample]] = tuple

    def attrs(self, node: Node) -> Attrs:
        """The node's attributes with defaults filled in.

        Raises ModelError for one that is missing, unknown, of a wrong kind or outside its choices.
        """
        return Attrs(self._checked(node), outputs=len(node.outputs))

    def _checked(self, node: Node) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name in node.attrs:
            if name not in self.attributes:
                raise ModelError(f"{self.name} has no attribute '{name}'", node=node.name)
        for name, attribute in self.attributes.items():
            value = node.attrs.get(name)
            if value is None:
                if attribute.required:
                    raise ModelError(f"{self.name} needs the attribute '{name}'", node=node.name)
                values[name] = attribute.default
                continue
            if not _KINDS[attribute.kind](value):
                raise ModelError(
                    f"attribute '{name}' of {self.name} must be {attribute.kind}: {value!r}", node=node.name
                )
            if attribute.choices and value not in attribute.choices:
                allowed = ", ".join(map(repr, attribute.choices))
                raise ModelError(
                    f"attribute '{name}' of {self.name} is {value!r}, not one of {allowed}", node=node.name
                )
            if attribute.check is not None and not attribute.check(value):
                raise ModelError(f"attribute '{name}' of {self.name} cannot be {value!r}", node=node.name)
            values[name] = value
        return values


def _is_int(v: Any) -> bool:
    return isinstance(v, (int, np.integer)) and not isinstance(v, bool)


def _is_number(v: Any) -> bool:
    return isinstance(v, (int, float, np.number))


def _each(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda v: isinstance(v, (list, tuple)) and all(map(check, v))


_KINDS: dict[str, Callable[[Any], bool]] = {
    "int": _is_int,
    "float": _is_number,
    "string": lambda v: isinstance(v, str),
    "ints": _each(_is_int),
    "floats": _each(_is_number),
    "strings": _each(lambda v: isinstance(v, (str, bytes))),
    "tensor": lambda v: isinstance(v, np.ndarray),
    "graph": lambda v: isinstance(v, Graph),
    "type": lambda v: not isinstance(v, (int, float, str)),
}
