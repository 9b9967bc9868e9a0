"""Calls of kernels: argument binding, caches of validation, and arrays and operators of other libraries."""
