"""Older instruction sets, to which all candidates of a run can be limited. This module imports nothing heavy."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from typing import Final

ISAS: Final[Mapping[str, Mapping[str, str]]] = {
    "x86-64-v3": {
        "OPENBLAS_CORETYPE": "Haswell",
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "NPY_DISABLE_CPU_FEATURES":
            "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR X86_V4",
        "NUMBA_CPU_NAME": "x86-64-v3",
        "NUMBA_CPU_FEATURES": "",
    },
}  # fmt: skip
"""Names for `-march=`, each with the environment variables that limit the libraries to it.

NumPy's lists the names of old and new versions. Halide needs none: its target has the features of the compiler's flags.
"""


def settings(isa: str | None) -> dict[str, str]:
    """Return the environment variables for an instruction set: those of the libraries, and CC with `-march=`."""
    if isa is None:
        return {}
    from lowering import find_compiler

    compiler = os.environ.get("CC", "").strip() or shlex.join(find_compiler().command)
    return {"CC": f"{compiler} -march={isa}", **ISAS[isa]}
