"""The kernels of PolyBench/C as plain C, which overwrite their arrays as PolyBench's do."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from bench.baselines.c import built
from bench.comparison import Array
from lowering.c_compiler import Compiler

FOLDER: Final = Path(__file__).parent / "c"
HEADERS: Final = "#include <math.h>\n#include <stdint.h>\n#include <stdlib.h>\n\n"

Kind: TypeAlias = Literal["size", "number", "array"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a C function: a size, a number, or an array of doubles or of int32."""

    name: str
    kind: Kind
    dtype: str


@dataclass(frozen=True)
class Reference:
    """A kernel in C.

    Its parameters are named like the sizes and inputs of the program. `results` are the arrays in which it leaves its
    results. `buffers` has the arrays that are not inputs: their extents, or the input of which they are a copy.
    """

    name: str
    results: tuple[str, ...]
    buffers: Mapping[str, tuple[str, ...] | str] = field(default_factory=dict)

    @cached_property
    def source(self) -> str:
        """The C text."""
        return HEADERS + (FOLDER / f"{self.name}.c").read_text(encoding="utf-8")

    @cached_property
    def _declaration(self) -> re.Match[str]:
        *_, last = re.finditer(r"^void (\w+)\(([^)]*)\)", self.source, re.MULTILINE)
        return last

    @property
    def function(self) -> str:
        """The name of the C function."""
        return self._declaration[1]

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters of the C function, in order."""
        return tuple(map(_parameter, self._declaration[2].split(",")))

    def values(self, arguments: Mapping[str, Any], sizes: Mapping[str, int]) -> dict[str, Any]:
        """Return an argument for each parameter, with copies of the arrays in `arguments`."""
        return {each.name: self._value(each, arguments, sizes) for each in self.parameters}

    def _value(self, wanted: Parameter, arguments: Mapping[str, Any], sizes: Mapping[str, int]) -> Any:
        if wanted.kind == "size":
            return sizes[wanted.name]
        if wanted.kind == "number":
            return np.asarray(arguments[wanted.name]).item()
        extents = self.buffers.get(wanted.name, wanted.name)
        if isinstance(extents, str):
            return np.array(arguments[extents], dtype=wanted.dtype, order="C")
        return np.zeros([sizes[extent] for extent in extents], wanted.dtype)

    def bound(self, values: Mapping[str, Any], compiler: Compiler | None = None) -> Callable[[], Any]:
        """Return a function that runs the kernel on these values, compiled with the flags of our kernels.

        For another compiler than that of our kernels, the sizes are constants, without which Polly changes no loop.
        """
        declared = f"void {self.function}({self._declaration[2].replace('restrict', '')});"
        source = self.source if compiler is None else self.with_constants(values)
        function = built(source, self.function, declared, threads=1, compiler=compiler)
        return function(*(values[each.name] for each in self.parameters))

    def with_constants(self, values: Mapping[str, Any]) -> str:
        """Return the C text with assignments of these values to the sizes at its beginning."""
        start = self.source.index("{", self._declaration.end()) + 1
        sizes = "".join(f" {each.name} = {values[each.name]};" for each in self.parameters if each.kind == "size")
        return f"{self.source[:start]}\n   {sizes}{self.source[start:]}"

    def run(self, arguments: Mapping[str, Any], sizes: Mapping[str, int]) -> tuple[Array, ...]:
        """Run the kernel on copies of the arguments, and return its results."""
        values = self.values(arguments, sizes)
        self.bound(values)()
        return tuple(values[name] for name in self.results)


def _parameter(text: str) -> Parameter:
    words = re.findall(r"\w+|\*", text)
    dtype = "int32" if "int32_t" in words else "float64"
    kind: Kind = "array" if "*" in words else "size" if "int64_t" in words else "number"
    return Parameter(words[-1], kind, dtype)


REFERENCES: Final = {
    each.name: each
    for each in (
        Reference("correlation", ("corr",), {"mean": ("m",), "deviation": ("m",), "corr": ("m", "m")}),
        Reference("covariance", ("cov",), {"mean": ("m",), "cov": ("m", "m")}),
        Reference("gemm", ("C",)),
        Reference("gemver", ("w",), {"x": ("n",), "w": ("n",)}),
        Reference("gesummv", ("y",), {"y": ("n",)}),
        Reference("symm", ("C",)),
        Reference("syr2k", ("C",)),
        Reference("syrk", ("C",)),
        Reference("trmm", ("B",)),
        Reference("2mm", ("D",), {"AB": ("ni", "nj")}),
        Reference("3mm", ("G",), {"E": ("ni", "nj"), "F": ("nj", "nl"), "G": ("ni", "nl")}),
        Reference("atax", ("y",), {"y": ("n",)}),
        Reference("bicg", ("s", "q"), {"s": ("m",), "q": ("n",)}),
        Reference("doitgen", ("A",), {"row": ("np",)}),
        Reference("mvt", ("x1", "x2")),
        Reference("cholesky", ("A",)),
        Reference("durbin", ("y",), {"y": ("n",), "z": ("n",)}),
        Reference("gramschmidt", ("R", "Q"), {"R": ("n", "n"), "Q": ("m", "n")}),
        Reference("lu", ("A",)),
        Reference("ludcmp", ("x",), {"y": ("n",), "x": ("n",)}),
        Reference("trisolv", ("x",), {"x": ("n",)}),
        Reference("deriche", ("smooth",), {"smooth": ("w", "h"), "y1": ("w", "h"), "y2": ("w", "h")}),
        Reference("floyd-warshall", ("path",)),
        Reference("nussinov", ("score",), {"score": ("n", "n")}),
        Reference("adi", ("u",), {"v": ("n", "n"), "p": ("n", "n"), "q": ("n", "n")}),
        Reference("fdtd-2d", ("ex", "ey", "hz")),
        Reference("heat-3d", ("A",), {"B": "A"}),
        Reference("jacobi-1d", ("A",)),
        Reference("jacobi-2d", ("A",)),
        Reference("seidel-2d", ("A",)),
    )
}
