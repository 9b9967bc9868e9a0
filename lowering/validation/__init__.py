"""Validation of C text: it is read and executed over polynomials, and compared with its program.

Nothing here imports the printer of C. The reader, the executor and the comparison know C, not how kernels are printed.
"""
