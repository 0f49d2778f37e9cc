"""Kernels of jitopt: SIMD values, formulas and kernel templates for Numba.

The package knows nothing of graphs or ONNX. Importing it loads neither Numba nor llvmlite;
`jitopt_kernels.simd` and the kernel modules do.
"""
