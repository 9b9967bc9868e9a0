"""`python -m bench.gpu` checks the GPU schedules on a GPU, and compares them with its roofline and cuBLAS."""
