"""Train the network of `jitopt demo` on scikit-learn's handwritten digits and write jitopt/data/digits.onnx and .npz.

    python tools/train_digits.py [--epochs 60] [--output jitopt/data]

Needs scikit-learn and onnx; a few minutes on one core. The last 360 images of the table are held out. That is harder
than a random sample, as neighbours in the table resemble one another (the same hand wrote them). Every sixth of the
360, whether it is recognised or not, is bundled with its label.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from layers import Array, BatchNorm, Conv, Flatten, Gelu, Gemm, Layer, MaxPool, Relu, Residual
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits

SEED = 7
HELD_OUT, EVERY = 360, 6
BATCH, RATE = 64, 3e-3


def network(rng: np.random.Generator) -> list[Layer]:
    """8x8 images [batch, 1, 8, 8] of values 0-1 to ten scores."""
    return [
        Conv(rng, 1, 16), BatchNorm(16), Relu(),
        Conv(rng, 16, 32), BatchNorm(32), Relu(), MaxPool(),
        Residual(Conv(rng, 32, 32), BatchNorm(32), Relu(), Conv(rng, 32, 32), BatchNorm(32)), Relu(),
        MaxPool(), Flatten(), Gemm(rng, 128, 64), Gelu(), Gemm(rng, 64, 10),
    ]  # fmt: skip


def flat(layers: list[Layer]) -> Iterator[Layer]:
    """All layers, those inside residual blocks too."""
    for layer in layers:
        yield from layer.layers if isinstance(layer, Residual) else (layer,)


def scores(layers: list[Layer], images: Array, training: bool = False) -> Array:
    """The network's output before the softmax, [batch, 10]."""
    for layer in layers:
        images = layer.forward(images, training)
    return images


def warped(images: Array, rng: np.random.Generator) -> Array:
    """Each image turned, sheared, scaled (by up to 0.15 each) and moved (by up to a pixel), bilinearly."""
    count, centre = len(images), 3.5
    matrices = np.eye(2) + rng.uniform(-0.15, 0.15, (count, 2, 2))
    grid = np.stack(np.meshgrid(np.arange(8), np.arange(8), indexing="ij")).reshape(2, 64) - centre
    places = matrices @ grid + centre + rng.uniform(-1, 1, (count, 2, 1)) + 1
    places = np.clip(places, 0, 8.999)
    low, share = places.astype(int), (places % 1).astype(np.float32)
    padded = np.pad(images[:, 0], ((0, 0), (1, 1), (1, 1)))
    rows = np.arange(count)[:, None]
    result = np.zeros((count, 64), np.float32)
    for i, j in ((0, 0), (0, 1), (1, 0), (1, 1)):
        weight = (share[:, 0] if i else 1 - share[:, 0]) * (share[:, 1] if j else 1 - share[:, 1])
        result += weight * padded[rows, low[:, 0] + i, low[:, 1] + j]
    return result.reshape(images.shape)


def train(layers: list[Layer], images: Array, labels: npt.NDArray[np.int64], epochs: int) -> None:
    """Cross entropy, Adam (Kingma, Ba, ICLR 2015) and a rate that falls along a cosine."""
    rng = np.random.default_rng(SEED)
    moments: dict[tuple[int, str], list[Array]] = {}
    step, total = 0, epochs * (len(images) // BATCH)
    for epoch in range(epochs):
        order = rng.permutation(len(images))
        loss = 0.0
        for start in range(0, len(images) - BATCH + 1, BATCH):
            chosen = order[start : start + BATCH]
            logits = scores(layers, warped(images[chosen], rng), training=True)
            shares = np.exp(logits - logits.max(1, keepdims=True))
            shares /= shares.sum(1, keepdims=True)
            loss -= float(np.log(shares[np.arange(BATCH), labels[chosen]]).mean())
            shares[np.arange(BATCH), labels[chosen]] -= 1
            gradient = shares / BATCH
            for layer in reversed(layers):
                gradient = layer.backward(gradient)
            step += 1
            rate = RATE * 0.5 * (1 + np.cos(np.pi * step / total))
            for index, layer in enumerate(flat(layers)):
                for name, value in layer.gradients.items():
                    mean, square = moments.setdefault((index, name), [np.zeros_like(value), np.zeros_like(value)])
                    mean += 0.1 * (value - mean)
                    square += 0.001 * (value * value - square)
                    adapted = (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
                    layer.parameters[name] -= np.float32(rate) * (adapted + 1e-3 * layer.parameters[name])
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1}: loss {loss / (len(images) // BATCH):.4f}")


class Exporter:
    """Writes layers as the ONNX nodes a framework's exporter writes."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []

    def node(self, op: str, inputs: list[str], name: str = "", **attributes: object) -> str:
        """Add a node; returns its output's name."""
        name = name or f"{op.lower()}_{sum(node.op_type == op for node in self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], f"node_{name}", **attributes))
        return name

    def constant(self, name: str, value: npt.ArrayLike) -> str:
        """Add a float32 initialiser; returns its name."""
        self.initializers.append(numpy_helper.from_array(np.asarray(value, np.float32), name))
        return name

    def layer(self, layer: Layer, x: str, name: str) -> str:
        """Add a layer; returns its output's name."""
        values = {key: self.constant(f"{name}.{key}", value) for key, value in layer.parameters.items()}
        match layer:
            case Conv():
                return self.node("Conv", [x, values["weight"]], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
            case BatchNorm():
                statistics = [
                    self.constant(f"{name}.mean", layer.mean),
                    self.constant(f"{name}.variance", layer.variance),
                ]
                return self.node("BatchNormalization", [x, *values.values(), *statistics], epsilon=layer.epsilon)
            case Relu():
                return self.node("Relu", [x])
            case MaxPool():
                return self.node("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2])
            case Flatten():
                return self.node("Flatten", [x])
            case Gemm():
                return self.node("Gemm", [x, *values.values()], transB=1)
            case Gelu():
                scaled = self.node("Div", [x, self.constant("root_two", np.sqrt(2))])
                one_more = self.node("Add", [self.node("Erf", [scaled]), self.constant("one", 1)])
                return self.node("Mul", [self.node("Mul", [x, one_more]), self.constant("half", 0.5)])
            case Residual():
                inner = x
                for index, each in enumerate(layer.layers):
                    inner = self.layer(each, inner, f"{name}.{index}")
                return self.node("Add", [x, inner])
        raise TypeError(f"no ONNX form of {type(layer).__name__}")


def to_onnx(layers: list[Layer]) -> onnx.ModelProto:
    """The network with a softmax: `image` float32 [batch, 1, 8, 8], values 0-1, to `probability` [batch, 10]."""
    exporter = Exporter()
    x = "image"
    for index, layer in enumerate(layers):
        x = exporter.layer(layer, x, f"layer{index}")
    exporter.node("Softmax", [x], "probability", axis=-1)
    graph = helper.make_graph(
        exporter.nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 8, 8])],
        [helper.make_tensor_value_info("probability", TensorProto.FLOAT, ["batch", 10])],
        exporter.initializers,
        doc_string="Handwritten digits; trained by tools/train_digits.py on scikit-learn's digits table.",
    )
    imports = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8, producer_name="tools/train_digits.py")
    onnx.checker.check_model(model, full_check=True)
    return model


def main() -> None:
    """Train, report the held-out accuracy, write both files."""
    parser = argparse.ArgumentParser(description="Train the demo's network.")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent.parent / "jitopt" / "data")
    options = parser.parse_args()
    table = load_digits()
    pixels, labels = table.images.astype(np.uint8), table.target.astype(np.int64)
    images = (pixels[:, None] / 16).astype(np.float32)
    layers = network(np.random.default_rng(SEED))
    train(layers, images[:-HELD_OUT], labels[:-HELD_OUT], options.epochs)
    right = scores(layers, images[-HELD_OUT:]).argmax(1) == labels[-HELD_OUT:]
    bundled = slice(len(images) - HELD_OUT, None, EVERY)
    print(f"accuracy on {HELD_OUT} held-out images: {right.mean():.4f}; on the bundled: {right[::EVERY].mean():.4f}")
    options.output.mkdir(parents=True, exist_ok=True)
    onnx.save_model(to_onnx(layers), options.output / "digits.onnx")
    np.savez_compressed(options.output / "digits.npz", images=pixels[bundled], labels=labels[bundled].astype(np.uint8))


if __name__ == "__main__":
    main()
