"""GPU kernels on this machine: building with nvcc, CUDA memory and streams, and arrays that are already on a GPU."""
