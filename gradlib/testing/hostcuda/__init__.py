"""A CUDA driver on the CPU, beneath the unmodified CuPy wheel: programs for GPUs are tested where there is none."""
