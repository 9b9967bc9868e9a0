"""Kernels of a GPU: made of a marked loop nest, with barriers where threads would meet, and run by an interpreter."""
