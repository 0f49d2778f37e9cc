"""The layers of a small convolutional network with their gradients, in NumPy.

Each has `forward(x, training)`, `backward(gradient)` -> gradient of its input (of the last forward), `parameters` and
`gradients` by name. Images are float32 [batch, channels, height, width].
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.special import erf

Array = npt.NDArray[np.float32]


class Layer:
    """A layer without parameters; subclasses fill `parameters` and keep in `saved` what `backward` needs."""

    def __init__(self) -> None:
        self.parameters: dict[str, Array] = {}
        self.gradients: dict[str, Array] = {}
        self.saved: tuple[Array, ...] = ()

    def forward(self, x: Array, training: bool) -> Array:
        """The layer's output."""
        raise NotImplementedError

    def backward(self, gradient: Array) -> Array:
        """The gradient of the loss by the input, from that by the output; sets `gradients`."""
        raise NotImplementedError


class Conv(Layer):
    """3x3 convolution with padding 1 and no bias, as a product with the patches."""

    def __init__(self, rng: np.random.Generator, inputs: int, outputs: int) -> None:
        super().__init__()
        weight = rng.standard_normal((outputs, inputs, 3, 3)) * math.sqrt(2 / (9 * inputs))
        self.parameters = {"weight": weight.astype(np.float32)}

    def forward(self, x: Array, training: bool) -> Array:
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
        patches = windows.transpose(0, 2, 3, 1, 4, 5).reshape(-1, 9 * x.shape[1])
        self.saved = (patches, x)
        batch, _, height, width = x.shape
        product = patches @ self._matrix().T
        return np.ascontiguousarray(product.reshape(batch, height, width, -1).transpose(0, 3, 1, 2))

    def backward(self, gradient: Array) -> Array:
        patches, x = self.saved
        batch, channels, height, width = x.shape
        rows = gradient.transpose(0, 2, 3, 1).reshape(len(patches), -1)
        self.gradients = {"weight": (rows.T @ patches).reshape(self.parameters["weight"].shape)}
        back = (rows @ self._matrix()).reshape(batch, height, width, channels, 3, 3)
        padded = np.zeros((batch, channels, height + 2, width + 2), np.float32)
        for i in range(3):
            for j in range(3):
                padded[:, :, i : i + height, j : j + width] += back[..., i, j].transpose(0, 3, 1, 2)
        return padded[:, :, 1:-1, 1:-1]

    def _matrix(self) -> Array:
        weight = self.parameters["weight"]
        return weight.reshape(len(weight), -1)


class BatchNorm(Layer):
    """Batch normalisation (Ioffe, Szegedy, ICML 2015), with running statistics for inference."""

    epsilon, momentum = 1e-5, 0.1

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.parameters = {"scale": np.ones(channels, np.float32), "shift": np.zeros(channels, np.float32)}
        self.mean, self.variance = np.zeros(channels, np.float32), np.ones(channels, np.float32)

    def forward(self, x: Array, training: bool) -> Array:
        mean, variance = (x.mean((0, 2, 3)), x.var((0, 2, 3))) if training else (self.mean, self.variance)
        if training:
            self.mean += self.momentum * (mean - self.mean)
            self.variance += self.momentum * (variance - self.variance)
        inverse = 1 / np.sqrt(variance + self.epsilon)
        normal = (x - mean[:, None, None]) * inverse[:, None, None]
        self.saved = (normal, inverse)
        return normal * self.parameters["scale"][:, None, None] + self.parameters["shift"][:, None, None]

    def backward(self, gradient: Array) -> Array:
        normal, inverse = self.saved
        axes, count = (0, 2, 3), gradient[:, 0].size
        scale, shift = (gradient * normal).sum(axes), gradient.sum(axes)
        self.gradients = {"scale": scale, "shift": shift}
        centred = gradient - (shift[:, None, None] + normal * scale[:, None, None]) / count
        return centred * (self.parameters["scale"] * inverse)[:, None, None]


class Relu(Layer):
    """max(x, 0)."""

    def forward(self, x: Array, training: bool) -> Array:
        self.saved = (x,)
        return np.maximum(x, 0)

    def backward(self, gradient: Array) -> Array:
        return gradient * (self.saved[0] > 0)


class Gelu(Layer):
    """x * Phi(x), Phi the normal distribution (Hendrycks, Gimpel, 2016)."""

    def forward(self, x: Array, training: bool) -> Array:
        share = 0.5 * (1 + erf(x / math.sqrt(2)))
        self.saved = (x, share)
        return x * share

    def backward(self, gradient: Array) -> Array:
        x, share = self.saved
        return gradient * (share + x * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi))


class MaxPool(Layer):
    """The largest of each 2x2 square; gradients are shared among equals."""

    def forward(self, x: Array, training: bool) -> Array:
        batch, channels, height, width = x.shape
        squares = x.reshape(batch, channels, height // 2, 2, width // 2, 2)
        best = squares.max((3, 5), keepdims=True)
        self.saved = (squares == best, x)
        return best[:, :, :, 0, :, 0]

    def backward(self, gradient: Array) -> Array:
        mask, x = self.saved
        return (mask * (gradient[:, :, :, None, :, None] / mask.sum((3, 5), keepdims=True))).reshape(x.shape)


class Flatten(Layer):
    """[batch, channels, height, width] to [batch, channels * height * width]."""

    def forward(self, x: Array, training: bool) -> Array:
        self.saved = (x,)
        return x.reshape(len(x), -1)

    def backward(self, gradient: Array) -> Array:
        return gradient.reshape(self.saved[0].shape)


class Gemm(Layer):
    """x @ weight.T + bias; weight [outputs, inputs]."""

    def __init__(self, rng: np.random.Generator, inputs: int, outputs: int) -> None:
        super().__init__()
        weight = rng.standard_normal((outputs, inputs)) * math.sqrt(1 / inputs)
        self.parameters = {"weight": weight.astype(np.float32), "bias": np.zeros(outputs, np.float32)}

    def forward(self, x: Array, training: bool) -> Array:
        self.saved = (x,)
        return x @ self.parameters["weight"].T + self.parameters["bias"]

    def backward(self, gradient: Array) -> Array:
        self.gradients = {"weight": gradient.T @ self.saved[0], "bias": gradient.sum(0)}
        return gradient @ self.parameters["weight"]


class Residual(Layer):
    """x + the layers inside applied to x."""

    def __init__(self, *layers: Layer) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, x: Array, training: bool) -> Array:
        y = x
        for layer in self.layers:
            y = layer.forward(y, training)
        return x + y

    def backward(self, gradient: Array) -> Array:
        inner = gradient
        for layer in reversed(self.layers):
            inner = layer.backward(inner)
        return gradient + inner
