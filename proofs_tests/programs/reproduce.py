"""Scripts that run a case of a fuzzer again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from atl.core.program import Program


def as_python(program: Program) -> str:
    """Return statements that assign to `program` an equal program with the same names and marks.

    >>> import atl
    >>> from proofs_tests.programs.reproduce import as_python
    >>> n = atl.sizes("n")
    >>> x = atl.tensor("x", n)
    >>> print(as_python(atl.program("twice", [x], atl.gen(n, lambda i: 2 * x[i]))))
    import atl
    <BLANKLINE>
    program = atl.parse('''
    twice (x : float32[n]) : float32[n] :=
      ⊞[i < n] 2 * x[i]
    ''')
    """
    return f"import atl\n\nprogram = atl.parse('''\n{program}\n''')"


def as_script(program: Program, sizes: Mapping[str, int], arrays: Mapping[str, npt.NDArray[Any]]) -> str:
    """Return a script that builds the program, its sizes and arrays, and compares all ways to run it."""
    held = "".join(f'    "{name}": {_literal(array)},\n' for name, array in arrays.items())
    return (
        f"{as_python(program)}\n\n"
        f"import numpy as np\n"
        f"from proofs_tests.programs.agreement import compare\n\n"
        f"arrays = {{\n{held}}}\n"
        f"print(compare(program, {dict(sizes)}, arrays))\n"
    )


def _literal(array: npt.NDArray[Any]) -> str:
    shape = "" if array.ndim == 1 and array.size else f".reshape({array.shape})"
    return f'np.array({np.ravel(array).tolist()}, dtype="{array.dtype}"){shape}'
