"""Changes of element type: Cast, CastLike, BitCast."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from jitopt.errors import ModelError
from jitopt.ir.dtypes import BY_NAME, BY_ONNX_CODE, DType
from jitopt.ir.graph import Node
from jitopt.ops import cases
from jitopt.ops.operator import ANY, Array, Attribute, Attrs, Kind, Param, Sample
from jitopt.ops.rules import same_as_first
from jitopt.ops.signature import declare, dtypes

_CASTABLE = ANY - dtypes("complex64 complex128")
_FLOAT_WORDS = {"inf": np.inf, "+inf": np.inf, "-inf": -np.inf, "nan": np.nan}


def convert(x: Array, dtype: np.dtype[Any]) -> Array:
    """`x` as `dtype`: floats towards zero and saturating into integers (NaN gives 0), integers wrapping."""
    if x.dtype.kind in "OUS":
        return _from_text(x, dtype)
    if dtype.kind == "O":
        return _to_text(x)
    if x.dtype.kind == "f" and dtype.kind in "iu":
        return _saturated(x, dtype)
    return x.astype(dtype)


def _saturated(x: Array, dtype: np.dtype[Any]) -> Array:
    info = np.iinfo(dtype)
    wide = np.trunc(x.astype(np.float64))
    safe = np.where(np.isnan(wide), 0.0, wide)
    high, low = safe >= float(info.max), safe <= float(info.min)
    inside = np.where(high | low, 0.0, safe).astype(dtype)
    return np.where(high, np.asarray(info.max, dtype), np.where(low, np.asarray(info.min, dtype), inside))


def _from_text(x: Array, dtype: np.dtype[Any]) -> Array:
    if dtype.kind == "O":
        return x
    out = np.empty(x.shape, np.float64 if dtype.kind == "f" else dtype)
    for index, text in np.ndenumerate(x):
        word = text.decode() if isinstance(text, bytes) else str(text)
        if dtype.kind == "f":
            out[index] = _FLOAT_WORDS.get(word.strip().lower()) or float(word)
        else:
            out[index] = int(float(word)) if "." in word or "e" in word.lower() else int(word)
    return out.astype(dtype)


def _to_text(x: Array) -> Array:
    out = np.empty(x.shape, object)
    for index, value in np.ndenumerate(x):
        out[index] = _number_text(value)
    return out


def _number_text(value: Any) -> str:
    """What C's %.8g (float32) or %.17g (float64) prints, as ONNX Runtime does; infinities and NaN as INF, NaN."""
    if isinstance(value, np.floating):
        if np.isnan(value):
            return "NaN"
        if np.isinf(value):
            return "INF" if value > 0 else "-INF"
        return f"{float(value):.{17 if value.dtype == np.float64 else 8}g}"
    return str(int(value))


def _target(node: Node, attrs: Attrs) -> Mapping[str, DType]:
    found = BY_ONNX_CODE.get(int(attrs.to))
    if found is None:
        raise ModelError(f"attribute 'to' is {attrs.to}, which is no element type")
    return {"T2": found}


def _cast(attrs: Attrs, x: Array) -> Array:
    return convert(x, _computable(BY_ONNX_CODE[int(attrs.to)]))


def _computable(dtype: DType) -> np.dtype[Any]:
    if dtype.numpy is None:
        raise ModelError(f"values of type {dtype} cannot be computed here")
    return dtype.numpy


def _cast_content(attrs: Attrs, node: Node, x: Array | None, *rest: Any) -> Array | None:
    """Exact integers stay what they are in every numeric type; bool only where the element is known."""
    if x is None:
        return None
    if node.output.tensor.dtype.kind != "bool":
        return x if node.output.tensor.dtype.kind in ("int", "uint", "float") else None
    if not all(isinstance(d, int) for d in x.flat):
        return None
    return x.astype(bool).astype(np.int64).astype(object)


def _cast_samples() -> list[Sample]:
    code = {name: BY_NAME[name].onnx_code for name in ("float32", "float64", "int32", "int64", "uint8", "int8", "bool")}
    x = cases.floats(3, 5, low=-100, high=100)
    out = [cases.sample(x, to=code[name]) for name in ("float64", "int32", "int64", "int8", "bool")]
    out += [cases.sample(cases.ints(3, 5, low=-300, high=300), to=code[name]) for name in code]
    out += [cases.sample(cases.bools(3, 5), to=code[name]) for name in ("float32", "int64", "uint8")]
    out += [cases.sample(cases.floats(4, low=0, high=255), to=code["uint8"])]
    out += [cases.sample(cases.floats(5, dtype="float16"), to=code["float32"])]
    out += [cases.sample(cases.floats(5), to=BY_NAME["float16"].onnx_code)]
    out += [cases.sample(np.array(["1.5", "-2", "INF", "nan"], object), to=code["float32"])]
    out += [cases.sample(np.array([1.5, -2, 1e10, 1 / 3], np.float32), to=BY_NAME["string"].onnx_code)]
    return [*out, cases.sample(cases.floats(), to=code["int64"]), cases.sample(cases.floats(2, 0), to=code["int64"])]


_ROUNDING = {
    "saturate": Attribute("int", 1, choices=(0, 1)),
    "round_mode": Attribute("string", "up", choices=("up", "down", "nearest")),
}
declare(
    "Cast", Kind.MAP, (Param("input", _CASTABLE, "T1"),), (Param("output", _CASTABLE, "T2"),), same_as_first, _cast,
    dtype=_target, since=(6, 9, 13, 19, 21, 23, 24, 25, 28), content=_cast_content, samples=_cast_samples,
    attributes={"to": Attribute("int", required=True), **_ROUNDING}, formula="jitopt_kernels.formulas.cast",
)  # fmt: skip


def _like(node: Node, attrs: Attrs) -> Mapping[str, DType]:
    return {"T2": node.arg(1).dtype}


def _like_samples() -> list[Sample]:
    x = cases.floats(3, 5, low=-9, high=9)
    likes = [cases.scalar(0, name) for name in ("float64", "int64", "int8", "bool")]
    return [cases.sample(x, like) for like in likes] + [cases.sample(cases.ints(4), cases.floats(2, 2))]


declare(
    "CastLike", Kind.MAP, (Param("input", _CASTABLE, "T1"), Param("target_type", _CASTABLE, "T2")),
    (Param("output", _CASTABLE, "T2"),), same_as_first, lambda attrs, x, like: convert(x, like.dtype),
    since=(15, 19, 21, 23, 24, 25), content=_cast_content, samples=_like_samples, attributes=_ROUNDING,
    formula="jitopt_kernels.formulas.cast",
)  # fmt: skip


def _same_width(node: Node, attrs: Attrs) -> Mapping[str, DType]:
    found = _target(node, attrs)
    if found["T2"].bits != node.arg(0).dtype.bits:
        raise ModelError(f"{node.arg(0).dtype} has another width than {found['T2']}")
    return found


declare(
    "BitCast", Kind.MAP, (Param("input", ANY - dtypes("string"), "T1"),), (Param("output", ANY, "T2"),), same_as_first,
    lambda attrs, x: np.ascontiguousarray(x).view(_computable(BY_ONNX_CODE[int(attrs.to)])).reshape(x.shape),
    dtype=_same_width, since=(26,), attributes={"to": Attribute("int", required=True)},
    samples=lambda: [cases.sample(cases.floats(3, 5), to=BY_NAME["int32"].onnx_code)],
)  # fmt: skip
