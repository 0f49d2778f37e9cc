"""The kernel cases as data: what is timed, and the share of the machine's measured peak that is asked of it."""

from __future__ import annotations

from dataclasses import dataclass

from jitopt_kernels.targets import Target

from jitopt.cli.cases import Case, batched, conv, gemm

FULL = ("Residual", "Relu")  # after the bias


@dataclass(frozen=True)
class Asked:
    """A case and the share of measured FMA peak it should reach on one thread; None: none is asked."""

    group: str
    case: Case
    share: float | None
    disable: tuple[str, ...] = ()


def small(target: Target) -> list[Asked]:
    """Whole kernels on operands that the first two caches hold, with bias, residual, ReLU; `tiles` has floors."""
    rows, columns = 24 * target.gemm_heights[0], 4 * target.gemm_panel * target.lanes
    size, filters = 4 * target.conv_heights[0], 4 * target.conv_panel * target.lanes
    cases = [
        gemm((rows, 64, 2 * columns), then=FULL),
        gemm((rows, 576, columns), then=FULL),
        conv((1, 64, size, size), filters, 1, then=FULL),
        conv((1, 64, size + 2, size + 2), filters, 3, pad=0, then=FULL),
    ]
    return [Asked("small kernels", case, None) for case in cases]


def resnet50() -> list[Asked]:
    """The distinct 3x3 and 1x1 convolutions of ResNet-50 at 224x224, with ReLU, or residual and ReLU."""
    found = []
    for size, inner, outer in ((56, 64, 256), (28, 128, 512), (14, 256, 1024), (7, 512, 2048)):
        before = 64 if size == 56 else outer // 2
        stride = 1 if size == 56 else 2
        found += [
            conv((1, inner, size, size), inner, 3, then=("Relu",)),
            conv((1, outer, size, size), inner, 1, then=("Relu",)),
            conv((1, inner, size, size), outer, 1, then=FULL),
            conv((1, before, size * stride, size * stride), outer, 1, stride=stride, then=()),
            conv((1, before, size * stride, size * stride), inner, 1, stride=stride, then=("Relu",)),
        ]
    direct = [Asked("ResNet-50 convolutions, direct", case, 0.85, ("winograd",)) for case in found]
    # As a share of what direct convolution would compute, so above the peak.
    return [*direct, *(Asked("ResNet-50 convolutions, Winograd", case, None) for case in found[::5])]


def minilm() -> list[Asked]:
    """The matrix products of MiniLM at 128 tokens: projections, the two of attention (12 heads of 32), feed-forward."""
    found = [
        gemm((128, 384, 384)),
        gemm((128, 384, 384), then=("Residual",)),
        batched(12, (128, 32, 128)),
        batched(12, (128, 128, 32)),
        gemm((128, 384, 1536), then=("Gelu",)),
        gemm((128, 1536, 384), then=("Residual",)),
    ]
    return [Asked("MiniLM matrix products", case, 0.85) for case in found]
