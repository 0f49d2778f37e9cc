"""Benchmarks and the real models they run on. Not part of the wheel; run from a checkout."""
