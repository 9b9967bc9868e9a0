"""Validation of C text: it is read and executed over polynomials, and compared with its program.

Nothing here imports the printer of C. The reader, the executor and the comparison know C, not how kernels are printed.
"""

from lowering.validation.errors import NotInSubset, TextDiffers, TextTrap
from lowering.validation.machine import Known
from lowering.validation.validate import Interface, Validation, executed, validate

__all__ = ["Interface", "Known", "NotInSubset", "TextDiffers", "TextTrap", "Validation", "executed", "validate"]
