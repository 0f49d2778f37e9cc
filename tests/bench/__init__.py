"""Tests of the benchmarks: what does not depend on how fast anything is."""
