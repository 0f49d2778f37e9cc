"""What `jitopt demo` computes: a digits network, ResNet-50, GELU, and what this machine can do."""
