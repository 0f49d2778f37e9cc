"""Real inputs for every model of the manifest: photographs, a printed page, sentences, speech.

`inputs(name)` gives at least three feeds; `samples(name)` says of each what it is and whether it is real. What a
feed needs (scikit-image, a fetched model, ONNX Runtime to carry a state forward) may be absent: then NotFetched.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bench import audio, pictures
from bench.models import NotFetched, entry, load

Feeds = dict[str, npt.NDArray[np.generic]]
PHOTOGRAPHS = ("astronaut.png", "chelsea.png", "coffee.png")
SENTENCES = Path(__file__).with_name("sentences.json")


@dataclass(frozen=True)
class Sample:
    """One set of feeds; `real` says that it is a picture, text or sound of the world, not made by a formula."""

    label: str
    feeds: Feeds
    real: bool = True


def inputs(name: str) -> list[Feeds]:
    """The feeds of `samples(name)`, fresh dictionaries around shared, read-only arrays."""
    return [dict(sample.feeds) for sample in samples(name)]


@functools.cache
def samples(name: str) -> list[Sample]:
    """At least three samples for a model, the first of the shape the benchmarks use.

    Raises KeyError for a name the manifest does not have and NotFetched where something they need is absent.
    """
    found = entry(name)
    maker = _light if found.package.registry == "onnx" else MAKERS[name]
    made = maker(name)
    for sample in made:
        for array in sample.feeds.values():
            array.flags.writeable = False
    return made


def _photographs(feed: str, convert: Callable[[str], npt.NDArray[np.float32]]) -> list[Sample]:
    return [Sample(file, {feed: convert(file)}) for file in PHOTOGRAPHS]


def _light(name: str) -> list[Sample]:
    feed = entry(name).inputs.split()[0]
    return _photographs(feed, pictures.imagenet)


def _efficientnet(_name: str) -> list[Sample]:
    return _photographs("input", pictures.efficientnet_lite)


def _open_nsfw(_name: str) -> list[Sample]:
    return _photographs("input:0", pictures.caffe)


def _u2netp(_name: str) -> list[Sample]:
    return _photographs("input.1", lambda file: pictures.brightest_is_one(file, 320))


def _ocr_det(_name: str) -> list[Sample]:
    wide = [(file, 640, 640) for file in ("page.png", "text.png", "coffee.png")]
    every = [*wide, ("page.png", 320, 480)]
    return [Sample(f"{file} {high}x{across}", {"x": pictures.page(file, high, across)}) for file, high, across in every]


def _ocr_rec(_name: str) -> list[Sample]:
    every = [("title", 320), ("first line", 320), ("second line", 320), ("title", 480)]
    return [Sample(f"page.png, {line}, {width} wide", {"x": pictures.line(line, width)}) for line, width in every]


def _ocr_cls(_name: str) -> list[Sample]:
    every = [("title", False), ("title", True), ("first line", False), ("second line", True)]
    return [
        Sample(f"page.png, {line}{', upside down' * turned}", {"x": pictures.line(line, 192, turned)})
        for line, turned in every
    ]


def _sentences(name: str) -> list[Sample]:
    """Sentences padded to 128 tokens, the last one without padding."""
    made = []
    stored = json.loads(SENTENCES.read_text("utf-8"))["sentences"]
    for number, sentence in enumerate(stored[:4]):
        ids = sentence["ids"]
        length = 128 if number < 3 else len(ids)
        feeds: Feeds = {key: np.zeros((1, length), np.int64) for key in ("input_ids", "attention_mask")}
        feeds["input_ids"][0, : len(ids)] = ids
        feeds["attention_mask"][0, : len(ids)] = 1
        if name == "minilm-l6-int8":
            feeds["token_type_ids"] = np.zeros((1, length), np.int64)
        made.append(Sample(f"{len(ids)} tokens in {length}: {sentence['text']}", feeds))
    return made


def _run(name: str, feeds: Feeds) -> Feeds:
    """All outputs of a model by name, from ONNX Runtime: states and features that other inputs are made of."""
    session = _session(name)
    names = [output.name for output in session.get_outputs()]  # type: ignore[attr-defined]
    return dict(zip(names, session.run(names, feeds), strict=True))  # type: ignore[attr-defined]


@functools.lru_cache(maxsize=2)
def _session(name: str) -> object:
    try:
        import onnxruntime
    except ImportError:
        raise NotFetched("these inputs are made with ONNX Runtime: pip install '.[bench]'") from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    return onnxruntime.InferenceSession(str(load(name)), options, providers=["CPUExecutionProvider"])


def _silero(name: str) -> list[Sample]:
    """A frame at the start of a sound and frames inside it, with the state that 30 frames before them leave."""
    made = []
    recorded, kind = audio.speech()
    every = [(recorded, kind, 130), (recorded, kind, 400), (audio.noise(4.0), "noise", 100), (recorded, kind, 0)]
    for sound, what, first in every:
        state = np.zeros((2, 1, 128), np.float32)
        rate = np.array(16000, np.int64)
        for frame in range(max(first - 30, 0), first):
            feeds: Feeds = {"input": audio.frames(sound, frame, 1), "state": state, "sr": rate}
            state = _run(name, feeds)["stateN"]
        final: Feeds = {"input": audio.frames(sound, first, 1), "state": state.copy(), "sr": rate}
        made.append(Sample(f"{what}, frame {first}", final, what == "recorded"))
    return made


def _silero_sequence(name: str) -> list[Sample]:
    made = []
    recorded, kind = audio.speech()
    for sound, what, first in ((recorded, kind, 100), (recorded, kind, 400), (audio.noise(4.0), "noise", 50)):
        start = {key: np.zeros((1, 1, 128), np.float32) for key in ("h", "c")}
        before = _run(name, {"input": audio.frames(sound, first - 32, 32), **start})
        feeds: Feeds = {"input": audio.frames(sound, first, 32), "h": before["hn"], "c": before["cn"]}
        made.append(Sample(f"{what}, 32 frames from {first}", feeds, what == "recorded"))
    return made


def _features(_name: str) -> list[Sample]:
    made = []
    recorded, kind = audio.speech()
    for sound, what, second in ((recorded, kind, 4), (recorded, kind, 20), (audio.noise(4.0), "noise", 2)):
        piece = sound[(second - 1) * audio.RATE : (second + 1) * audio.RATE]
        features = audio.deepfilternet_features(audio.resample(piece, 3))
        feeds: Feeds = {key: np.ascontiguousarray(value[:, :, -100:]) for key, value in features.items()}
        made.append(Sample(f"{what}, 1 s from {second} s", feeds, what == "recorded"))
    return made


def _decoder(name: str) -> list[Sample]:
    """What the encoder makes of the same sounds."""
    wanted = ("emb", "e3", "e2", "e1", "e0") if name == "deepfilternet-erb-dec" else ("emb", "c0")
    made = []
    for sample in samples("deepfilternet-enc"):
        encoded = _run("deepfilternet-enc", sample.feeds)
        made.append(Sample(f"{sample.label}, encoded", {key: encoded[key] for key in wanted}, sample.real))
    return made


MAKERS: dict[str, Callable[[str], list[Sample]]] = {
    "ocr-det": _ocr_det,
    "ocr-rec": _ocr_rec,
    "ocr-cls": _ocr_cls,
    "efficientnet-lite0": _efficientnet,
    "efficientnet-lite0-export": _efficientnet,
    "open-nsfw": _open_nsfw,
    "u2netp": _u2netp,
    "minilm-l3": _sentences,
    "minilm-l6-int8": _sentences,
    "silero-vad": _silero,
    "silero-vad-sequence": _silero_sequence,
    "deepfilternet-enc": _features,
    "deepfilternet-erb-dec": _decoder,
    "deepfilternet-df-dec": _decoder,
}
