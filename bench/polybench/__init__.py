"""The kernels of PolyBench/C against plain loops in C, of which `c` has a file for each kernel."""
