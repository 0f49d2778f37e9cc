"""What `jitopt demo` computes: what this machine can do, a digits network, ResNet-50, and GELU in three forms.

Every part is a function that computes its numbers in this run and returns plain data; `jitopt.cli.demo` prints them.
"""
