"""Speech for the audio models: a recording where it was fetched, else a synthetic voice; and DeepFilterNet's features.

Features: Schroeter et al., DeepFilterNet: a low complexity speech enhancement framework, ICASSP 2022, section 2
(complex spectrogram, ERB bands, exponential normalisation); band edges after Moore, Glasberg, 1983.
"""

from __future__ import annotations

import functools
import wave

import numpy as np
import numpy.typing as npt

from bench.models import NotFetched, load

Array = npt.NDArray[np.float32]
RATE = 16000
FORMANTS = ((730, 1090, 2440), (270, 2290, 3010), (300, 870, 2240), (530, 1840, 2480), (660, 1720, 2410))  # a i u e ae
FFT, HOP, ERB_BANDS, DF_BINS = 960, 480, 32, 96


@functools.cache
def speech() -> tuple[Array, str]:
    """One minute of speech at 16 kHz, -1 to 1, and what it is: "recorded" or "synthetic"."""
    try:
        with wave.open(str(load("speech"))) as file:
            samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    except NotFetched:
        return voice(60.0), "synthetic"
    return samples.astype(np.float32) / 32768, "recorded"


def voice(seconds: float, rate: int = RATE, seed: int = 0) -> Array:
    """A synthetic voice: harmonics of a gliding pitch under formants of changing vowels, in syllables with pauses."""
    rng = np.random.default_rng(seed)
    time = np.arange(int(seconds * rate)) / rate
    syllable = np.minimum((time / 0.25).astype(int), int(seconds / 0.25))
    vowels = np.array(FORMANTS, float)[rng.integers(0, len(FORMANTS), syllable[-1] + 2)]
    loud = rng.uniform(0.3, 1.0, syllable[-1] + 2) * (rng.random(syllable[-1] + 2) > 0.2)
    share = (time / 0.25 - syllable)[:, None]
    formants = vowels[syllable] * (1 - share) + vowels[syllable + 1] * share
    pitch = 125 + 20 * np.sin(2 * np.pi * 0.7 * time) + 8 * np.sin(2 * np.pi * 3.1 * time)
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    sound = np.zeros_like(time)
    for harmonic in range(1, 24):
        frequency = harmonic * pitch
        gain = sum(1 / (1 + ((frequency - formants[:, i]) / (60 + 40 * i)) ** 2) / (1 + i) for i in range(3))
        sound += gain * np.sin(harmonic * phase) / harmonic**0.5
    sound *= loud[syllable] * np.sin(np.pi * share[:, 0]) ** 0.5
    sound += 0.01 * rng.standard_normal(len(time))
    return (0.5 * sound / np.abs(sound).max()).astype(np.float32)


def noise(seconds: float, rate: int = RATE, seed: int = 1) -> Array:
    """Quiet white noise with a hum of 50 Hz."""
    time = np.arange(int(seconds * rate)) / rate
    hiss = np.random.default_rng(seed).standard_normal(len(time))
    return (0.02 * hiss + 0.01 * np.sin(2 * np.pi * 50 * time)).astype(np.float32)


def frames(sound: Array, first: int, count: int) -> Array:
    """`count` frames of 512 samples at 16 kHz, each with the 64 samples before it, [count, 576], from frame `first`."""
    padded = np.concatenate([np.zeros(64, np.float32), sound])
    starts = np.arange(first, first + count) * 512
    return padded[starts[:, None] + np.arange(576)]


def resample(sound: Array, factor: int) -> Array:
    """The sound at `factor` times its rate: zeros between the samples of its spectrum's upper end."""
    spectrum = np.fft.rfft(sound.astype(np.float64))
    return (np.fft.irfft(spectrum, len(sound) * factor) * factor).astype(np.float32)


def erb_widths(bands: int = ERB_BANDS, rate: int = 48000, least: int = 2) -> list[int]:
    """How many of the FFT/2+1 bins each band on the equivalent-rectangular-bandwidth scale has, at least `least`."""
    q = 9.265
    edges = 24.7 * q * np.expm1(np.linspace(0, q * np.log1p(rate / 2 / (24.7 * q)), bands + 1)[1:] / q)
    widths, before, over = [], 0, 0
    for edge in np.rint(edges / (rate / FFT)).astype(int):
        width = int(edge) - before - over
        over = max(least - width, 0)
        widths.append(max(width, least))
        before = int(edge)
    widths[-1] += FFT // 2 + 1 - sum(widths)
    return widths


def deepfilternet_features(sound: Array) -> dict[str, Array]:
    """The encoder's inputs for sound at 48 kHz, 100 steps a second: feat_erb [1, 1, S, 32], feat_spec [1, 2, S, 96]."""
    half = np.sin(np.pi / 2 * np.sin(np.pi * (np.arange(FFT) + 0.5) / FFT) ** 2)  # Vorbis window
    steps = len(sound) // HOP
    padded = np.concatenate([np.zeros(FFT - HOP), sound.astype(np.float64)])
    blocks = padded[np.arange(steps)[:, None] * HOP + np.arange(FFT)]
    spectrum = np.fft.rfft(blocks * half) * (2 * HOP / FFT**2)
    starts = np.cumsum([0, *erb_widths()[:-1]])
    power = np.add.reduceat(np.abs(spectrum) ** 2, starts, axis=1) / np.array(erb_widths())
    decibels, low = 10 * np.log10(power + 1e-10), spectrum[:, :DF_BINS]
    mean, scale = np.linspace(-60, -90, ERB_BANDS), np.linspace(1e-3, 1e-4, DF_BINS)
    keep = 0.99  # exp(-hop / rate / 1 s), as the model was trained
    erb, spec = np.empty_like(decibels), np.empty_like(low)
    for step in range(steps):
        mean = mean * keep + decibels[step] * (1 - keep)
        scale = scale * keep + np.abs(low[step]) * (1 - keep)
        erb[step], spec[step] = (decibels[step] - mean) / 40, low[step] / np.sqrt(scale)
    parts = np.stack([spec.real, spec.imag])[None]
    return {"feat_erb": erb[None, None].astype(np.float32), "feat_spec": parts.astype(np.float32)}
