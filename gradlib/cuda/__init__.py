"""CUDA: where the kernels lie and how they are launched."""
