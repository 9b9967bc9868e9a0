"""Counts of arithmetic operations: a C text is compiled as C++, with a class that counts in place of its elements."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path
from shutil import which
from typing import Any, Final

import numpy as np

COMPILER: Final = which("g++")
FLAGS: Final = ("-std=c++17", "-O1", "-w", "-fpermissive", "-fwrapv", "-D__STDC_VERSION__=201112L", "-shared", "-fPIC")
"""Flags that accept C's conversions of pointers, and the C version that the texts ask for."""
HEADER: Final = Path(__file__).parent / "counted.h"
ELEMENTS: Final = {"float64": "double", "int32": "int32_t"}


class Counter:
    """A C function whose operations on elements of type `dtype` are counted. Its library is built in `folder`."""

    def __init__(self, source: str, function: str, dtype: str, folder: Path) -> None:
        assert COMPILER is not None
        text = re.sub(rf"\b{ELEMENTS[dtype]}\b", f"Counted<{ELEMENTS[dtype]}>", source)
        text = re.sub(rf"^(void|int) {function}\(", r'extern "C" \g<0>', text, flags=re.MULTILINE)
        path = folder / f"lib{len(list(folder.iterdir()))}.so"
        command = [COMPILER, *FLAGS, "-include", str(HEADER), "-x", "c++", "-", "-o", str(path)]
        subprocess.run(command, input=text, text=True, check=True)
        library = ctypes.CDLL(str(path))
        self._function = getattr(library, function)
        self._count = library.operation_count
        self._count.restype = ctypes.c_int64

    def call(self, *values: Any) -> None:
        """Call the function with arrays, sizes and numbers."""
        self._function(*map(_argument, values))

    @property
    def operations(self) -> int:
        """The number of operations of all calls."""
        return int(self._count())


def _argument(value: Any) -> Any:
    match value:
        case np.ndarray():
            return ctypes.c_void_p(value.ctypes.data)
        case float():
            return ctypes.c_double(value)
        case int():
            return ctypes.c_int64(value)
        case _:
            raise TypeError(type(value))
