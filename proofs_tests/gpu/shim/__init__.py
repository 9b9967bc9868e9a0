"""A shim that runs printed kernels without a GPU: a C++ compiler and a header in place of CUDA."""
