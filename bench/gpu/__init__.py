"""`python -m bench.gpu`: the schedules that ship for a GPU, checked on one and timed beside its limits and cuBLAS."""
