"""Convolution test cases: what a case is, its data, the blocked layout, and the answer in float64."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Case(NamedTuple):
    """One 2-D convolution; pads are (top, left, bottom, right)."""

    n: int
    c: int
    oc: int
    size: tuple[int, int]
    kernel: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilations: tuple[int, int] = (1, 1)
    groups: int = 1

    def __str__(self) -> str:
        parts = [f"{self.n}x{self.c}-{self.oc}", "x".join(map(str, self.size)), "k" + "x".join(map(str, self.kernel))]
        parts += [f"s{''.join(map(str, self.strides))}", f"p{''.join(map(str, self.pads))}"]
        return "_".join([*parts, f"d{''.join(map(str, self.dilations))}", f"g{self.groups}"])

    @property
    def output(self) -> tuple[int, int]:
        h, w = (
            (self.size[i] + self.pads[i] + self.pads[i + 2] - self.dilations[i] * (self.kernel[i] - 1) - 1)
            // self.strides[i]
            + 1
            for i in (0, 1)
        )
        return h, w


def data(case: Case, seed: int = 0) -> tuple[Any, Any, Any]:
    """Input, weights and bias."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((case.n, case.c, *case.size))
    w = rng.standard_normal((case.oc, case.c // case.groups, *case.kernel))
    return x.astype("f4"), w.astype("f4"), rng.standard_normal(case.oc).astype("f4")


def blocked(x: Any, lanes: int) -> Any:
    """[N, C, H, W] as [N, ceil(C / lanes), H, W, lanes], zeros beyond C."""
    n, c, h, w = x.shape
    blocks = -(-c // lanes)
    padded = np.zeros((n, blocks * lanes, h, w), x.dtype)
    padded[:, :c] = x
    return np.ascontiguousarray(padded.reshape(n, blocks, lanes, h, w).transpose(0, 1, 3, 4, 2))


def unblocked(y: Any, c: int) -> Any:
    """The inverse; fails where a lane beyond C is not zero."""
    n, blocks, h, w, lanes = y.shape
    flat = y.transpose(0, 1, 4, 2, 3).reshape(n, blocks * lanes, h, w)
    assert not flat[:, c:].any(), "lanes beyond C are not zero"
    return flat[:, :c].copy()


def conv_reference(case: Case, x: Any, w: Any, bias: Any) -> tuple[Any, Any]:
    """(convolution + bias in float64, the sum of the sizes of its terms)."""
    return _conv(case, x, w, bias), _conv(case, np.abs(x), np.abs(w), np.abs(bias))


def _conv(case: Case, x: Any, w: Any, bias: Any) -> Any:
    top, left, bottom, right = case.pads
    padded = np.pad(x.astype("f8"), ((0, 0), (0, 0), (top, bottom), (left, right)))
    oh, ow = case.output
    x_groups = padded.reshape(case.n, case.groups, case.c // case.groups, *padded.shape[2:])
    w_groups = w.astype("f8").reshape(case.groups, case.oc // case.groups, *w.shape[1:])
    out = np.zeros((case.n, case.groups, case.oc // case.groups, oh, ow))
    for i in range(case.kernel[0]):
        for j in range(case.kernel[1]):
            rows = slice(i * case.dilations[0], i * case.dilations[0] + case.strides[0] * (oh - 1) + 1, case.strides[0])
            cols = slice(j * case.dilations[1], j * case.dilations[1] + case.strides[1] * (ow - 1) + 1, case.strides[1])
            out += np.einsum("ngchw,goc->ngohw", x_groups[:, :, :, rows, cols], w_groups[:, :, :, i, j])
    return out.reshape(case.n, case.oc, oh, ow) + bias[:, None, None]
