"""The inputs are what the models were made for: the reference recognises, reads and hears what they show."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from bench import audio, inputs, models

from .reference import reference

MODELS = [name for name, entry in models.manifest().items() if entry.role == "model"]


@pytest.mark.parametrize("name", MODELS)
def test_every_model_has_three_inputs_that_fit_it_and_one_is_real(name: str) -> None:
    samples = inputs.samples(name)
    entry = models.entry(name)
    path = models.source(entry) if entry.package.registry == "onnx" else models.load(name)
    graph = onnx.load(path, load_external_data=False).graph
    constants = {initializer.name for initializer in graph.initializer}
    wanted = {value.name: value.type.tensor_type for value in graph.input if value.name not in constants}
    assert len(samples) >= 3
    assert samples[0].real or "synthetic" in samples[0].label
    assert len({sample.label for sample in samples}) == len(samples)
    for sample in samples:
        assert sample.feeds.keys() == wanted.keys()
        for feed, array in sample.feeds.items():
            assert array.dtype == onnx.helper.tensor_dtype_to_np_dtype(wanted[feed].elem_type)
            dims = wanted[feed].shape.dim
            assert len(dims) == array.ndim
            assert all(dim.dim_value <= 0 or dim.dim_value == size for dim, size in zip(dims, array.shape, strict=True))
            assert array.size == 1 or array.std() > 0 or feed in ("attention_mask", "token_type_ids", "state")
            assert not array.flags.writeable


def test_inputs_are_fresh_dictionaries() -> None:
    first = inputs.inputs("minilm-l3")
    first[0].clear()
    assert inputs.inputs("minilm-l3")[0]


@pytest.mark.parametrize("name", ["efficientnet-lite0", "efficientnet-lite0-export"])
def test_the_classifier_sees_a_cat_and_an_espresso(name: str) -> None:
    feeds = dict(zip(inputs.PHOTOGRAPHS, inputs.inputs(name), strict=True))
    tops = {file: int(reference(models.load(name), feed)[0].argmax()) for file, feed in feeds.items()}
    assert tops["chelsea.png"] == 285  # Egyptian cat
    assert tops["coffee.png"] == 967  # espresso


def test_the_recogniser_reads_the_page() -> None:
    model = onnx.load(models.load("ocr-rec"))
    characters = next(entry.value for entry in model.metadata_props if entry.key == "character").split("\n")
    texts = []
    for feeds in inputs.inputs("ocr-rec")[:3]:
        best = reference(models.load("ocr-rec"), feeds)[0][0].argmax(axis=1)
        kept = [code for code, before in zip(best, [0, *best], strict=False) if code not in (0, before)]
        texts.append("".join([*characters, " "][code - 1] for code in kept))
    assert texts[0].startswith("Region-based seg")
    assert texts[1].startswith("Let us first")
    assert texts[2].startswith("background")


def test_the_detector_finds_text_on_the_page_and_little_on_the_coffee() -> None:
    answers = [reference(models.load("ocr-det"), feeds)[0] for feeds in inputs.inputs("ocr-det")]
    assert [answer.shape[2:] for answer in answers] == [(640, 640)] * 3 + [(320, 480)]
    shares = [float((answer > 0.3).mean()) for answer in answers]
    assert shares[0] > 0.08 and shares[3] > 0.08 and shares[2] < shares[0]


def test_the_orientation_of_a_line_is_seen() -> None:
    answers = [reference(models.load("ocr-cls"), feeds)[0][0] for feeds in inputs.inputs("ocr-cls")]
    assert [int(answer.argmax()) for answer in answers] == [0, 1, 0, 1]


def test_a_paraphrase_is_nearer_than_another_sentence() -> None:
    tomatoes, vegetables, bank = (
        reference(models.load("minilm-l3"), feeds, ["461"])[0][0] for feeds in inputs.inputs("minilm-l3")[1:4]
    )

    def cosine(a: np.ndarray, b: np.ndarray) -> float:
        return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))

    assert cosine(tomatoes, vegetables) > cosine(tomatoes, bank) + 0.2


def test_speech_is_told_from_noise() -> None:
    answers = {
        sample.label: float(reference(models.load("silero-vad"), sample.feeds, ["output"])[0].item())
        for sample in inputs.samples("silero-vad")
    }
    assert [value > 0.5 for label, value in answers.items() if not label.endswith("frame 0")] == [True, True, False]


def test_the_encoder_measures_more_signal_in_speech_than_in_noise() -> None:
    levels = [
        reference(models.load("deepfilternet-enc"), feeds, ["lsnr"])[0].max()
        for feeds in inputs.inputs("deepfilternet-enc")
    ]
    assert min(levels[:2]) > levels[2] + 3  # dB


def test_bands_cover_the_spectrum_once() -> None:
    widths = audio.erb_widths()
    assert len(widths) == audio.ERB_BANDS and sum(widths) == audio.FFT // 2 + 1
    assert min(widths) >= 2 and widths[-1] > widths[0]


def test_frames_carry_the_end_of_the_one_before() -> None:
    sound = np.arange(4096, dtype=np.float32)
    made = audio.frames(sound, 2, 3)
    assert made.shape == (3, 576)
    np.testing.assert_array_equal(made[0], sound[960:1536])
    np.testing.assert_array_equal(audio.frames(sound, 0, 1)[0, :64], 0)


def test_resampling_keeps_the_tone() -> None:
    time = np.arange(1600) / 16000
    tone = np.sin(2 * np.pi * 440 * time).astype(np.float32)
    there = audio.resample(tone, 3)
    np.testing.assert_allclose(there, np.sin(2 * np.pi * 440 * np.arange(4800) / 48000), atol=1e-6)


def test_the_synthetic_voice_varies_and_repeats() -> None:
    sound = audio.voice(2.0)
    assert sound.shape == (32000,) and 0.4 < np.abs(sound).max() <= 0.5
    np.testing.assert_array_equal(sound, audio.voice(2.0))
