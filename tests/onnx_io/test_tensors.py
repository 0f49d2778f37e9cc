"""Every element type from every field that may hold it, bit for bit, and every way data and shape can disagree."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from jitopt.errors import MemoryLimitError, ModelError
from jitopt.ir.dtypes import BY_NAME, BY_ONNX_CODE, DType
from jitopt.ir.storage import element_type, holds, pack, packed_bytes, storage, unpack
from jitopt.onnx_io.external import Budget
from jitopt.onnx_io.tensors import TensorReader

CODES = sorted(code for code in TensorProto.DataType.values() if code in BY_ONNX_CODE and code != TensorProto.STRING)


def decode(proto: TensorProto, limit: int | None = None) -> np.ndarray:
    return TensorReader(None, Budget(limit)).tensor(proto, "tensor 't'")


def random_array(dtype: DType, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Arbitrary bit patterns of the type, as `storage` holds them."""
    rng = np.random.default_rng(seed)
    if dtype.kind == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.bits < 8:
        packed = rng.integers(0, 256, packed_bytes(int(np.prod(shape)), dtype), np.uint8)
        return unpack(packed, int(np.prod(shape)), dtype).reshape(shape)
    raw = rng.integers(0, 256, int(np.prod(shape)) * dtype.itemsize, np.uint8)
    return raw.view(storage(dtype)).reshape(shape)


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and a.dtype.itemsize == b.dtype.itemsize and a.tobytes() == b.tobytes()


def test_every_type_of_the_installed_onnx_is_known() -> None:
    assert set(TensorProto.DataType.values()) - {TensorProto.UNDEFINED} <= set(BY_ONNX_CODE)


@pytest.mark.parametrize("shape", [(3, 5), (), (0, 4), (8,), (1, 1, 7)])
@pytest.mark.parametrize("code", CODES)
def test_raw_data_of_every_type(code: int, shape: tuple[int, ...]) -> None:
    dtype = BY_ONNX_CODE[code]
    array = random_array(dtype, shape)
    raw = pack(array, dtype) if dtype.bits < 8 else array.tobytes()
    proto = TensorProto(dims=shape, data_type=code, raw_data=raw)
    found = decode(proto)
    assert same_bits(found, array)
    assert holds(found, dtype) and element_type(found) is dtype
    assert not found.flags.writeable and found.flags.c_contiguous and found.dtype.isnative


@pytest.mark.parametrize("code", CODES)
def test_typed_fields_agree_with_onnx(code: int) -> None:
    dtype = BY_ONNX_CODE[code]
    array = random_array(dtype, (3, 5), seed=1)
    if dtype.numpy is None:
        array = array.view(helper.tensor_dtype_to_np_dtype(code))
    if dtype.is_float or dtype.kind == "complex":  # NaN payloads are not kept by typed fields
        wide = np.complex128 if dtype.kind == "complex" else np.float64
        array = np.nan_to_num(array.astype(wide)).astype(array.dtype)
    proto = helper.make_tensor("t", code, (3, 5), array.ravel())
    found, expected = decode(proto), numpy_helper.to_array(proto)
    assert not proto.raw_data
    assert same_bits(found, expected.astype(np.int8) if dtype.kind == "int" and dtype.bits < 8 else expected)
    assert element_type(found) is dtype


def test_int4_is_sign_extended_and_uint4_is_not() -> None:
    raw = bytes([0x8F, 0x07])
    signed = decode(TensorProto(dims=[3], data_type=TensorProto.INT4, raw_data=raw))
    unsigned = decode(TensorProto(dims=[3], data_type=TensorProto.UINT4, raw_data=raw))
    assert signed.tolist() == [-1, -8, 7] and signed.dtype == np.int8
    assert unsigned.tolist() == [15, 8, 7] and unsigned.dtype == np.uint8


def test_strings() -> None:
    proto = helper.make_tensor("t", TensorProto.STRING, [2], [b"a\xc3\xa9", b""])
    assert decode(proto).tolist() == ["aé", ""]
    with pytest.raises(ModelError, match="element 1 of tensor 't' is not UTF-8"):
        decode(helper.make_tensor("t", TensorProto.STRING, [2], [b"a", b"\xff"]))


def test_raw_arrays_are_told_from_plain_ones_through_views_and_copies() -> None:
    array = random_array(BY_NAME["bfloat16"], (4, 4))
    assert element_type(array[1:, ::2].copy()) is BY_NAME["bfloat16"]
    assert element_type(np.zeros(2, np.uint16)) is BY_NAME["uint16"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"raw_data": b"\0" * 23}, r"tensor 't' has 23 bytes of data where shape \[2, 3\] of float32 needs 24"),
        ({"raw_data": b"\0" * 28}, "has 28 bytes"),
        ({}, "has 0 bytes"),
        ({"float_data": [1.0] * 5}, "has 5 entries in float_data where shape .* needs 6"),
        ({"int32_data": [1] * 6}, "of type float32 has its data in int32_data"),
        ({"float_data": [1.0] * 6, "raw_data": b"\0" * 24}, "several fields at once"),
        ({"dims": [2, -3], "raw_data": b""}, "negative extent -3"),
        ({"dims": [2**40, 2**40]}, "more than 64 bits can index"),
        ({"dims": [2**62, 2]}, "more than 64 bits can index"),
        ({"dims": [2**40]}, "0 bytes of data"),
        ({"data_type": 0}, "unknown element type 0"),
        ({"data_type": 99}, "unknown element type 99"),
        ({"data_type": TensorProto.STRING, "raw_data": b"abc"}, "holds strings"),
        ({"data_type": TensorProto.UINT8, "int32_data": [1, 2, 3, 4, 5, 256]}, "does not fit uint8"),
        ({"data_type": TensorProto.INT8, "int32_data": [1, 2, 3, 4, 5, -129]}, "does not fit int8"),
        ({"data_type": TensorProto.FLOAT16, "int32_data": [-1] * 6}, "does not fit float16"),
        ({"data_type": TensorProto.UINT32, "uint64_data": [2**32] * 6}, "does not fit uint32"),
        ({"segment": TensorProto.Segment(begin=0, end=3)}, "segments"),
    ],
)
def test_data_that_does_not_fit_is_refused(fields: dict, message: str) -> None:
    proto = TensorProto(**{"dims": [2, 3], "data_type": TensorProto.FLOAT, **fields})
    with pytest.raises(ModelError, match=message):
        decode(proto)


def test_the_budget_is_checked_before_memory_is_taken() -> None:
    proto = numpy_helper.from_array(np.zeros(100, np.float32))
    assert decode(proto, limit=400).shape == (100,)
    with pytest.raises(MemoryLimitError, match=r"tensor 't' takes 400 bytes.*more than the 399 allowed.*max_memory"):
        decode(proto, limit=399)


def sparse(dims: list[int], values: np.ndarray, indices: np.ndarray) -> onnx.SparseTensorProto:
    tensors = [numpy_helper.from_array(a, n) for a, n in ((values, "v"), (indices, "i"))]
    return helper.make_sparse_tensor(tensors[0], tensors[1], dims)


@pytest.mark.parametrize("indices", [[1, 5], [[0, 1], [1, 2]]])
def test_sparse_tensors_become_dense(indices: list) -> None:
    proto = sparse([2, 3], np.array([5.0, 7.0], np.float32), np.array(indices, np.int64))
    found = TensorReader(None, Budget(None)).sparse(proto, "s")
    assert found.tolist() == [[0, 5, 0], [0, 0, 7]] and not found.flags.writeable


@pytest.mark.parametrize(
    ("dims", "values", "indices", "message"),
    [
        ([2, 3], [1.0], [6], "outside its shape"),
        ([2, 3], [1.0], [-1], "outside its shape"),
        ([2, 3], [1.0], [[0, 3]], "outside its shape"),
        ([2, 3], [1.0], [[0]], "1 values and indices of shape"),
        ([2, 3], [1.0, 2.0], [1], "2 values and indices"),
        ([2**40, 2**40], [1.0], [1], "64 bits"),
    ],
)
def test_malformed_sparse_tensors(dims: list[int], values: list, indices: list, message: str) -> None:
    proto = sparse(dims, np.array(values, np.float32), np.array(indices, np.int64))
    with pytest.raises(ModelError, match=message):
        TensorReader(None, Budget(None)).sparse(proto, "s")


def test_a_sparse_tensor_cannot_exhaust_memory() -> None:
    proto = sparse([2**40], np.array([1.0], np.float32), np.array([1], np.int64))
    for limit in (None, 10**9):
        with pytest.raises(MemoryLimitError, match="max_memory"):
            TensorReader(None, Budget(limit)).sparse(proto, "s")
