"""Where ONNX Runtime is no oracle: it has no kernel for a (operator, dtype) pair, or it departs from the standard.

Such cases are compared with onnx's reference evaluator instead. A test checks that every entry is still needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.ops.oracle import Case


@dataclass(frozen=True)
class Exclusion:
    """Concerns cases of `operators` whose first input has one of `dtypes` (all when empty) at opsets in `opsets`.

    `when` narrows it to some samples; `older` is an opset of the same meaning at which ONNX Runtime has a kernel.
    """

    operators: str
    reason: str
    dtypes: str = ""
    opsets: range = range(1000)
    when: Callable[[Case], bool] = lambda case: True
    older: int = 0

    def concerns(self, case: Case) -> bool:
        names, types = self.operators.split(), self.dtypes.split()
        return (
            case.operator.name in names
            and (not types or case.dtype in types)
            and case.opset in self.opsets
            and self.when(case)
        )


def _dilated_same(case: Case) -> bool:
    attrs = case.sample.attrs
    return str(attrs.get("auto_pad")).startswith("SAME") and max(attrs.get("dilations", [1])) > 1


def _channel_zero_points(case: Case) -> bool:
    return len(case.sample.inputs) > 3 and case.sample.inputs[3] is not None and case.sample.inputs[3].size > 1


def _third(case: Case) -> bool:
    return len(case.sample.inputs) > 2


NO_KERNEL = "ONNX Runtime has no CPU kernel for these types"
EXCLUSIONS: tuple[Exclusion, ...] = (
    Exclusion("Acos Acosh Asin Asinh Atan Atanh Cosh Erf Sinh Softplus Softsign Tan", NO_KERNEL, "float64"),
    Exclusion("AveragePool LpPool", NO_KERNEL, "float64"),
    Exclusion("Clip", NO_KERNEL, "float64", range(11, 12)),
    Exclusion("Conv", NO_KERNEL, "float64"),
    Exclusion("Conv", "ONNX Runtime refuses dilations with SAME padding", when=_dilated_same),
    Exclusion("ConvInteger", "ONNX Runtime refuses zero points per channel", when=_channel_zero_points),
    Exclusion(
        "QuantizeLinear DequantizeLinear",
        "ONNX Runtime has no kernel for opset 28 yet",
        opsets=range(28, 1000),
        older=25,
    ),
    Exclusion("Gemm", NO_KERNEL, "int32"),
    Exclusion("Hardmax HardSwish", NO_KERNEL, "float64"),
    Exclusion("GlobalLpPool", NO_KERNEL, opsets=range(22, 1000), older=7),
    Exclusion("MaxPool", NO_KERNEL, "float64", range(8)),
    Exclusion(
        "MaxUnpool", "ONNX Runtime counts indices in output_shape, the standard in the unpooled shape", when=_third
    ),
    Exclusion("Mish", NO_KERNEL, "float64", range(22, 1000)),
    Exclusion("OptionalGetElement OptionalHasElement", NO_KERNEL, opsets=range(28, 1000), older=18),
    Exclusion("SwiGLU", NO_KERNEL),
    Exclusion("Relu", NO_KERNEL, "int64"),
)


def exclusion(case: Case) -> Exclusion | None:
    return next((e for e in EXCLUSIONS if e.concerns(case)), None)
