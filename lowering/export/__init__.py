"""Export of kernels as standalone C or CUDA projects, with a contract, a self-check on random data and a Makefile."""
