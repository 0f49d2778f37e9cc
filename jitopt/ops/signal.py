"""Spectra and windows: DFT, STFT, the window functions, MelWeightMatrix."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jitopt.errors import ModelError
from jitopt.ir.dims import Dim, Shape, floor_div
from jitopt.ir.dtypes import BY_ONNX_CODE, DType
from jitopt.ir.graph import Node
from jitopt.ops.cases import floats, sample, scalar
from jitopt.ops.contents import axis_of, fresh, fresh_shape, known_dims, known_ints
from jitopt.ops.operator import INDICES, Array, Attribute, Attrs, Kind, Param
from jitopt.ops.rules import differ, require, shape_of, show
from jitopt.ops.signature import NUMERIC, REALS, declare, dtypes
from jitopt.ops.upgrades import attribute_to_input

INT64, FLAG = dtypes("int64"), (0, 1)
REAL = REALS - dtypes("bfloat16")
_OUTPUT_TYPE = Attribute("int", 1, check=lambda code: BY_ONNX_CODE.get(code) in NUMERIC - dtypes("bfloat16"))


def _complex(x: Array) -> Array:
    """The last axis, of 1 or 2, taken as real and imaginary part."""
    return x[..., 0] if x.shape[-1] == 1 else x[..., 0] + 1j * x[..., 1]


def _pairs(x: Array) -> Array:
    return np.stack([x.real, x.imag], axis=-1)


def _one(node: Node, index: int) -> Dim | None:
    """The one element of a scalar operand."""
    found = known_dims(node, index)
    return found[0] if found else None


# DFT ----------------------------------------------------------------------------------------------------------------
def _signal_axis(axis: int, rank: int) -> int:
    found = axis_of(axis, rank)
    if found == rank - 1:
        raise ModelError(f"axis {axis} holds the real and imaginary parts")
    return found


def _dft_shape(node: Node, attrs: Attrs) -> list[Shape | None]:
    shape = list(shape_of(node))
    parts = shape[-1] if shape else None
    require(not isinstance(parts, int) or parts in (1, 2), f"the last axis of {show(shape)} is not 1 or 2")
    shape[-1] = 1 if attrs.inverse and attrs.onesided else 2
    axes = [-2] if node.input(2) is None else known_ints(node.input(2))
    if axes is None:
        return [(*(fresh_shape(node, len(shape)) or ())[:-1], shape[-1])]
    axis = _signal_axis(axes[0], len(shape))
    if node.input(1) is not None:
        length = _one(node, 1)
        shape[axis] = fresh(node, axis) if length is None else length
    elif attrs.inverse and attrs.onesided:
        shape[axis] = (shape[axis] - 1) * 2
    if attrs.onesided and not attrs.inverse:
        shape[axis] = floor_div(shape[axis], 2) + 1
    return [tuple(shape)]


def _dft(attrs: Attrs, x: Array, length: Array | None = None, axis: Array | None = None) -> Array:
    at = _signal_axis(-2 if axis is None else int(np.ravel(axis)[0]), x.ndim)
    n = None if length is None else int(np.ravel(length)[0])
    values = _complex(x)
    if attrs.inverse:
        if attrs.onesided:
            return np.fft.irfft(values, n, at)[..., None]
        return _pairs(np.fft.ifft(values, n, at))
    if attrs.onesided:
        require(x.shape[-1] == 1, "a one-sided spectrum needs a real signal")
        return _pairs(np.fft.rfft(values, n, at))
    return _pairs(np.fft.fft(values, n, at))


declare(
    "DFT", Kind.OPAQUE,
    [
        Param("input", REAL, "T1"), Param("dft_length", INDICES, "T2", optional=True),
        Param("axis", INT64, "I", optional=True),
    ],
    [Param("output", REAL, "T1")], _dft_shape, _dft, since=(17, 20),
    upgrades=((20, attribute_to_input("axis", 2, default=1)),),
    attributes={"inverse": Attribute("int", 0, choices=FLAG), "onesided": Attribute("int", 0, choices=FLAG)},
    samples=lambda: [
        sample(floats(2, 10, 1), opset=17),
        sample(floats(2, 10, 1), opset=17, onesided=1),
        sample(floats(2, 9, 3, 2), scalar(6, "int64"), opset=17, axis=2),
        sample(floats(2, 10, 2), None, scalar(-2, "int64"), inverse=1),
        sample(floats(2, 7, 3, 1), scalar(12, "int64"), scalar(1, "int64"), onesided=1),
        sample(floats(4, 6, 1)),
    ],
)  # fmt: skip


# STFT ---------------------------------------------------------------------------------------------------------------
def _stft_shape(node: Node, attrs: Attrs) -> list[Shape | None]:
    signal = shape_of(node)
    require(len(signal) == 3, f"the signal must have rank 3, not {show(signal)}")
    window = None if node.input(2) is None else shape_of(node, 2)
    step, length = _one(node, 1), _one(node, 3)
    require(not isinstance(step, int) or step > 0, f"frames every {step} samples")
    if node.input(3) is None:
        length = signal[1] if window is None else window[0]
    elif window is not None and length is not None:
        require(not differ(window[0], length), f"a window of {window[0]} for frames of {length}")
    if length is None:
        return [(signal[0], fresh(node, 1), fresh(node, 2), 2)]
    frames = fresh(node, 1) if step is None else floor_div(signal[1] - length, step) + 1
    return [(signal[0], frames, floor_div(length, 2) + 1 if attrs.onesided else length, 2)]


def _stft(attrs: Attrs, x: Array, step: Array, window: Array | None = None, length: Array | None = None) -> Array:
    hop = int(np.ravel(step)[0])
    whole = x.shape[1] if window is None else len(window)
    n = whole if length is None else int(np.ravel(length)[0])
    require(hop > 0 and 0 < n <= x.shape[1], f"frames of {n} every {hop} do not fit a signal of {x.shape[1]}")
    frames = np.lib.stride_tricks.sliding_window_view(_complex(x), n, axis=1)[:, ::hop]
    weighted = frames if window is None else frames * window
    return _pairs(np.fft.rfft(weighted) if attrs.onesided else np.fft.fft(weighted))


declare(
    "STFT", Kind.OPAQUE,
    [
        Param("signal", REAL, "T1"), Param("frame_step", INDICES, "T2"), Param("window", REAL, "T1", optional=True),
        Param("frame_length", INDICES, "T2", optional=True),
    ],
    [Param("output", REAL, "T1")], _stft_shape, _stft, since=(17,),
    attributes={"onesided": Attribute("int", 1, choices=FLAG)},
    samples=lambda: [
        sample(floats(2, 50, 1), scalar(7, "int64"), floats(16)),
        sample(floats(1, 50, 1), scalar(5, "int64"), None, scalar(12, "int64")),
        sample(floats(2, 33, 1), scalar(8, "int64"), floats(9), scalar(9, "int64"), onesided=0),
    ],
)  # fmt: skip


# windows ------------------------------------------------------------------------------------------------------------
def _window_type(node: Node, attrs: Attrs) -> dict[str, DType]:
    return {"T2": BY_ONNX_CODE[attrs.output_datatype]}


def _window_shape(node: Node, attrs: Attrs) -> list[Shape | None]:
    size = _one(node, 0)
    return [(fresh(node, 0) if size is None else size,)]


def _window(name: str, terms: Sequence[float]) -> None:
    """The sum of terms[k] * cos(2 pi k i / N), N being the size, or one less for a symmetric window."""

    def reference(attrs: Attrs, size: Array) -> Array:
        count = int(np.ravel(size)[0])
        angle = 2 * np.pi * np.arange(count) / max(count if attrs.periodic else count - 1, 1)
        values = sum(term * np.cos(k * angle) for k, term in enumerate(terms))
        return np.asarray(values).astype(BY_ONNX_CODE[attrs.output_datatype].numpy)

    declare(
        name, Kind.OPAQUE, [Param("size", INDICES, "T1")], [Param("output", NUMERIC, "T2")], _window_shape, reference,
        dtype=_window_type, since=(17,),
        attributes={"periodic": Attribute("int", 1, choices=FLAG), "output_datatype": _OUTPUT_TYPE},
        samples=lambda: [
            sample(scalar(10, "int64")),
            sample(scalar(9, "int32"), periodic=0),
            sample(scalar(12, "int64"), output_datatype=11),
        ],
    )  # fmt: skip


_window("HannWindow", (0.5, -0.5))
_window("HammingWindow", (25 / 46, -21 / 46))
_window("BlackmanWindow", (0.42, -0.5, 0.08))


# MelWeightMatrix ----------------------------------------------------------------------------------------------------
def _mel_shape(node: Node, attrs: Attrs) -> list[Shape | None]:
    bins, length = _one(node, 0), _one(node, 1)
    return [
        (fresh(node, 0) if length is None else floor_div(length, 2) + 1, fresh(node, 1) if bins is None else bins),
    ]


def _mel(attrs: Attrs, bins: Array, length: Array, rate: Array, lower: Array, upper: Array) -> Array:
    """Triangles equally wide on the mel scale, one a column, over the bins of a one-sided spectrum."""
    count, n = int(np.ravel(bins)[0]), int(np.ravel(length)[0])
    low, high = (2595 * np.log10(1 + float(np.ravel(f)[0]) / 700) for f in (lower, upper))
    hertz = 700 * (10 ** ((np.arange(count + 2) * ((high - low) / (count + 2)) + low) / 2595) - 1)
    edges = np.floor((n + 1) * hertz / int(np.ravel(rate)[0])).astype(np.int64)
    out = np.zeros((n // 2 + 1, count))
    for column, (left, middle, right) in enumerate(zip(edges[:-2], edges[1:-1], edges[2:], strict=True)):
        if middle == left:
            out[middle, column] = 1
        else:
            out[left : middle + 1, column] = np.arange(middle - left + 1) / (middle - left)
        if right > middle:
            out[middle:right, column] = np.arange(right - middle, 0, -1) / (right - middle)
    return out.astype(BY_ONNX_CODE[attrs.output_datatype].numpy)


declare(
    "MelWeightMatrix", Kind.OPAQUE,
    [
        *(Param(name, INDICES, "T1") for name in ("num_mel_bins", "dft_length", "sample_rate")),
        *(Param(name, REALS, "R") for name in ("lower_edge_hertz", "upper_edge_hertz")),
    ],
    [Param("output", NUMERIC, "T3")], _mel_shape, _mel, since=(17,),
    dtype=lambda node, attrs: {"T3": BY_ONNX_CODE[attrs.output_datatype]}, attributes={"output_datatype": _OUTPUT_TYPE},
    samples=lambda: [
        sample(*(scalar(n, "int64") for n in (8, 16, 8192)), scalar(0.0), scalar(4096.0)),
        sample(*(scalar(n, "int64") for n in (20, 256, 16000)), scalar(20.0), scalar(7600.0)),
    ],
)  # fmt: skip
