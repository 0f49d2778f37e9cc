"""Seeded damage to ONNX models: bytes of the file, or fields of its messages (shapes, attributes, names, counts)."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import onnx

_NUMBERS = (0, 1, -1, 2, 3, 7, 64, 255, 2**31 - 1, -(2**31), 2**32, 2**40, 2**62, 2**63 - 1, -(2**63))
_TEXTS = ("", "x", "y", "w", "Relu", "Conv", "If", "axis", "pads", "NOTSET", "ai.onnx", "../w", "é\u0000", "a" * 300)
_FLOATS = (0.0, -0.0, 1.0, -1.0, 1e30, -1e-30, float("inf"), float("nan"))


def mutate_bytes(data: bytes, seed: int) -> bytes:
    """Flip, overwrite, cut, repeat or remove some bytes."""
    rng, out = random.Random(seed), bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 8))):
        if not out:
            break
        at = rng.randrange(len(out))
        kind = rng.randrange(5)
        if kind == 0:
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            out[at] = rng.randrange(256)
        elif kind == 2:
            del out[at:]
        elif kind == 3:
            out[at:at] = out[at : at + rng.randrange(1, 40)]
        else:
            del out[at : at + rng.randrange(1, 40)]
    return bytes(out)


def mutate_fields(model: onnx.ModelProto, seed: int) -> onnx.ModelProto:
    """A copy with one to three fields changed, cleared, repeated, removed or exchanged."""
    rng, copy = random.Random(seed), onnx.ModelProto()
    copy.CopyFrom(model)
    for _ in range(rng.choice((1, 1, 2, 3))):
        places = _messages(copy)
        weights = [
            1.0 if p.DESCRIPTOR.name in ("StringStringEntryProto", "OperatorSetIdProto") else 4.0 for p in places
        ]
        _damage(rng.choices(places, weights)[0], rng)
    return copy


def mutate(model: onnx.ModelProto, seed: int) -> bytes:
    """Even seeds damage bytes, odd ones fields; the result is the damaged file."""
    if seed % 2:
        return bytes(mutate_fields(model, seed).SerializeToString())
    return mutate_bytes(model.SerializeToString(), seed)


def _messages(root: Any) -> list[Any]:
    found, stack = [], [root]
    while stack:
        message = stack.pop()
        found.append(message)
        for field, value in message.ListFields():
            if field.message_type is not None:
                stack.extend(value if _repeated(message, field) else [value])
    return found


def _repeated(message: Any, field: Any) -> bool:
    return not hasattr(getattr(message, field.name), "DESCRIPTOR") and hasattr(getattr(message, field.name), "append")


def _damage(message: Any, rng: random.Random) -> None:
    fields = list(message.DESCRIPTOR.fields) if rng.random() < 0.2 else [f for f, _ in message.ListFields()]
    if not fields:
        return
    field = rng.choice(fields)
    value = getattr(message, field.name)
    if _is_list(value):
        _damage_list(value, field, rng)
    elif field.message_type is not None:
        if rng.random() < 0.3:
            message.ClearField(field.name)
        else:
            value.SetInParent()
    elif rng.random() < 0.15:
        message.ClearField(field.name)
    else:
        _assign(lambda v: setattr(message, field.name, v), field, value, rng)


def _is_list(value: Any) -> bool:
    return hasattr(value, "append") and hasattr(value, "__len__") and not isinstance(value, (str, bytes))


def _damage_list(values: Any, field: Any, rng: random.Random) -> None:
    if not len(values):
        if field.message_type is None:
            _assign(values.append, field, None, rng)
        return
    at, other = rng.randrange(len(values)), rng.randrange(len(values))
    kind = rng.randrange(4)
    if kind == 0:
        del values[at]
    elif kind == 1:
        values.append(values[at])
    elif field.message_type is not None:
        copy = type(values[at])()
        copy.CopyFrom(values[at])
        values[at].CopyFrom(values[other])
        values[other].CopyFrom(copy)
    elif kind == 2:
        values[at], values[other] = values[other], values[at]
    else:
        _assign(lambda v: values.__setitem__(at, v), field, values[at], rng)


def _assign(put: Callable[[Any], None], field: Any, old: Any, rng: random.Random) -> None:
    if field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        put(rng.choice(_FLOATS))
    elif field.cpp_type == field.CPPTYPE_STRING:
        text = rng.choice(_TEXTS)
        put(text.encode() if field.type == field.TYPE_BYTES else text)
    else:
        near = [old + 1, old - 1] if isinstance(old, int) else []
        try:
            put(rng.choice([*near, *_NUMBERS]))
        except (ValueError, TypeError, OverflowError):  # out of the field's range, or no value of the enum
            put(rng.choice([v.number for v in field.enum_type.values] if field.enum_type else [0, 1, 2]))
