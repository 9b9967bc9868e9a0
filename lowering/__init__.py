"""From a program to code that runs: reindexers, loop nests, C and CUDA, building and calling kernels."""
