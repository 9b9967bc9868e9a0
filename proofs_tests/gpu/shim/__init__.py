"""Printed kernels run without a GPU: their text under a C++ compiler, with a header before it."""
