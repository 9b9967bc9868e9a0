"""GPU kernels: outlining from a marked loop nest, barrier insertion, race checks, and an interpreter."""
