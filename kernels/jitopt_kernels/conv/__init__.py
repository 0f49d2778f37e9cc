"""Convolution kernels. Each module is one algorithm; weights are packed by `jitopt_kernels.packing`."""
