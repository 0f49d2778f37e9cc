"""The models whose answers must be right, as one table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """A model of bench/manifest.toml and what is asked of jitopt on it.

    host_steps  operators may run in NumPy between segments
    every       every intermediate tensor is compared, because zeroed channels need not move the answer
    float64     answers are held against float64, because ONNX Runtime's own rounding is nearly a tolerance
    kernels     at most so many kernels run, reorders apart; None: no figure asked for
    """

    name: str
    host_steps: bool = False
    every: bool = False
    float64: bool = False
    kernels: int | None = None


CASES = (
    Case("ocr-det", kernels=160),
    Case("ocr-rec"),
    Case("ocr-cls", kernels=90),
    Case("efficientnet-lite0", kernels=53),
    Case("efficientnet-lite0-export", kernels=53),
    Case("open-nsfw", kernels=60),
    Case("u2netp", float64=True, kernels=250),
    Case("minilm-l3", kernels=75),
    Case("minilm-l6-int8"),
    Case("squeezenet", kernels=40),
    Case("shufflenet"),
    Case("resnet50", kernels=58),
    Case("inception-v1"),
    Case("inception-v2"),
    Case("densenet121"),
    Case("alexnet"),
    Case("zfnet512"),
    Case("vgg19"),
    Case("silero-vad", host_steps=True),
    Case("silero-vad-sequence", host_steps=True),
    Case("deepfilternet-enc", host_steps=True),
    Case("deepfilternet-erb-dec", host_steps=True),
    Case("deepfilternet-df-dec", host_steps=True, every=True),
)
