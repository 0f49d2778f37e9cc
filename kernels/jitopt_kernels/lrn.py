"""Local response normalisation across channels (Krizhevsky et al., 2012, section 3.3), on row-major [N, C, P]."""

from __future__ import annotations

from collections.abc import Callable

from numba import njit

from .abi import share
from .formulas import pow
from .simd import fma, load, load_masked, splat, store, store_masked, tail_mask


def make_lrn(*, lanes: int) -> Callable[..., None]:
    """y[n, c, p] = x[n, c, p] / (bias + scale * sum of x[n, i, p]**2 for i in [c - before, c + after])**beta.

    Arguments: x, y, images, channels, pixels, before, after, then scale, bias, beta (float32), tid, nthreads.
    """

    @njit
    def lrn(x, y, images, channels, pixels, before, after, scale, bias, beta, tid, nthreads):
        low, high = share(images * channels, 1, tid, nthreads)
        plane = pixels * 4
        exponent = splat(beta, "float32", lanes)
        for unit in range(low, high):
            channel = unit % channels
            first, last = max(channel - before, 0), min(channel + after, channels - 1)
            image = x + (unit - channel) * plane
            source, target = x + unit * plane, y + unit * plane
            for p in range(0, pixels, lanes):
                total = splat(0.0, "float32", lanes)
                if pixels - p >= lanes:
                    for i in range(first, last + 1):
                        v = load(image + i * plane + p * 4, "float32", lanes)
                        total = fma(v, v, total)
                    spread = pow(total * scale + bias, exponent)
                    store(target + p * 4, load(source + p * 4, "float32", lanes) / spread)
                else:
                    mask = tail_mask(pixels - p, lanes)
                    for i in range(first, last + 1):
                        v = load_masked(image + i * plane + p * 4, mask, "float32")
                        total = fma(v, v, total)
                    spread = pow(total * scale + bias, exponent)
                    store_masked(target + p * 4, load_masked(source + p * 4, mask, "float32") / spread, mask)

    return lrn
