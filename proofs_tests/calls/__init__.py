"""What people call kernels with: arrays of other libraries, other systems' operators, files that are taken away."""
