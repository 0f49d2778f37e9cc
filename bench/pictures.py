"""Photographs and a printed page, as the image models take them.

The pictures are the ones scikit-image and scikit-learn carry: astronaut (NASA, public domain), chelsea (a cat),
coffee (an espresso), page (a photographed printed page), text (handwriting), china and flower.
"""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bench.models import NotFetched

if TYPE_CHECKING:
    from PIL.Image import Image

Array = npt.NDArray[np.float32]
FOLDERS = {"skimage": ("scikit-image", "data"), "sklearn": ("scikit-learn", "datasets/images")}
IMAGENET_MEAN, IMAGENET_DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

# Boxes (left, top, right, bottom) of single text lines on the page, in pixels.
LINES = {"title": (0, 8, 238, 42), "first line": (0, 48, 140, 68), "second line": (0, 66, 150, 87)}


@functools.cache
def picture(file: str) -> Image:
    """A picture in RGB, by its file name. Raises NotFetched when the package that carries it is not installed."""
    for module, (_package, folder) in FOLDERS.items():
        spec = importlib.util.find_spec(module)
        if spec is None or spec.origin is None:
            continue
        path = Path(spec.origin).parent / folder / file
        if path.is_file():
            from PIL import Image

            return Image.open(path).convert("RGB")
    packages = " and ".join(package for package, _ in FOLDERS.values())
    raise NotFetched(f"picture {file} is not here: it comes with {packages} (pip install '.[bench]')")


def square(file: str, size: int) -> npt.NDArray[np.uint8]:
    """The middle square of a picture, resized to [size, size, 3] (bicubic)."""
    image = picture(file)
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    return np.asarray(image.crop((left, top, left + side, top + side)).resize((size, size), 3))


def planes(pixels: npt.ArrayLike, mean: npt.ArrayLike, deviation: npt.ArrayLike) -> Array:
    """[height, width, 3] pixels 0-255 to normalised [1, 3, height, width]; mean and deviation on the scale 0-1."""
    scaled = (np.asarray(pixels, np.float32) / 255 - np.asarray(mean)) / np.asarray(deviation)
    return np.ascontiguousarray(scaled.transpose(2, 0, 1)[None], np.float32)


def imagenet(file: str, size: int = 224) -> Array:
    """The middle of a picture with ImageNet's mean and deviation, [1, 3, size, size]."""
    return planes(square(file, size), IMAGENET_MEAN, IMAGENET_DEVIATION)


def efficientnet_lite(file: str) -> Array:
    """(pixel - 127) / 128, the normalisation of EfficientNet-Lite, [1, 3, 224, 224]."""
    return planes(square(file, 224), 127 / 255, 128 / 255)


def caffe(file: str) -> Array:
    """As Caffe's ResNets take it: squeezed to 256x256, the middle 224x224, BGR minus its mean, [1, 224, 224, 3]."""
    image = picture(file).resize((256, 256), 2).crop((16, 16, 240, 240))
    bgr = np.asarray(image, np.float32)[:, :, ::-1]
    return np.ascontiguousarray((bgr - np.array([104, 117, 123], np.float32))[None])


def brightest_is_one(file: str, size: int) -> Array:
    """U2-Net's: divided by the largest pixel, then ImageNet's mean and deviation, [1, 3, size, size]."""
    pixels = np.asarray(picture(file).resize((size, size), 1), np.float32)
    return planes(pixels * (255 / max(pixels.max(), 1.0)), IMAGENET_MEAN, IMAGENET_DEVIATION)


def page(file: str, height: int, width: int) -> Array:
    """For text detection: squeezed to height x width (multiples of 32), BGR, -1 to 1, [1, 3, height, width]."""
    pixels = np.asarray(picture(file).resize((width, height), 2))
    return planes(pixels[:, :, ::-1], 0.5, 0.5)


def line(name: str, width: int, upside_down: bool = False) -> Array:
    """A line of the printed page for recognition: 48 high, BGR, -1 to 1, zeros at the right, [1, 3, 48, width]."""
    crop = picture("page.png").crop(LINES[name])
    if upside_down:
        crop = crop.rotate(180)
    wide = min(width, -(-48 * crop.width // crop.height))
    pixels = np.asarray(crop.resize((wide, 48), 2))
    padded = np.zeros((1, 3, 48, width), np.float32)
    padded[..., :wide] = planes(pixels[:, :, ::-1], 0.5, 0.5)
    return padded
