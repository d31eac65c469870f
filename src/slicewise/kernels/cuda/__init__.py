"""CUDA kernels of our own, compiled at run time; and what serves where they cannot be."""
