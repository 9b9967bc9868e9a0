"""ATL: tensor computations written as mathematics, made fast by proved rewrites, and run as C.

>>> import atl
>>> n, m, k = atl.sizes("n m k")
>>> A, B = atl.tensor("A", n, k), atl.tensor("B", k, m)
>>> matmul = atl.program("matmul", [A, B], atl.gen(n, m, lambda i, j: atl.sum(k, lambda l: A[i, l] * B[l, j])))
"""

import sys as _sys

from atl.checks.safety import check_safe
from atl.core.node import print_with as _print_with
from atl.core.program import Program
from atl.errors import (
    ArgumentError,
    ArrayError,
    AssumptionError,
    ATLError,
    CheckoutNeeded,
    CompilerFailed,
    CompilerMissing,
    ContradictoryAssumptions,
    CudaError,
    DtypeError,
    EscapedIndex,
    ExtentError,
    ForkedProcess,
    GpuMissing,
    GridTooLarge,
    IllegalMark,
    ImageError,
    IndexOverflow,
    LibraryMissing,
    NoSuchAttribute,
    NotExact,
    OutOfMemory,
    ParseError,
    RaggedShape,
    RankError,
    RefusedMark,
    ShapeError,
    SymbolicValue,
    TooLarge,
    UnknownMark,
    UnsafeAccess,
    UnsafeGuard,
    UnsafeTruncation,
    UnsupportedMark,
    WrongArgument,
    WrongName,
)
from atl.meaning.interpret import evaluate
from atl.meaning.vectorised import evaluate_fast
from atl.parsing.parse import parse
from atl.surface.constants import constant
from atl.surface.einsum import einsum
from atl.surface.operators import (
    abs,
    cast,
    ceildiv,
    coiter,
    concat,
    exp,
    flatten,
    gen,
    guard,
    imax,
    imin,
    let,
    log,
    maximum,
    minimum,
    padl,
    padr,
    place,
    reduce,
    scatter,
    select,
    shear,
    sizes,
    split,
    sqrt,
    sum,
    tanh,
    transpose,
    truncl,
    truncr,
    unshear,
    value,
)
from atl.surface.program import SizeAnnotation as Size
from atl.surface.program import program, tensor
from atl.surface.results import Results, results
from atl.surface.values import Condition, IndexExpr, Tensor
from atl.text.latex import formula as _formula
from atl.text.printing import written as _written

# Core stands below the printers, and is given them here.
_print_with(_written, _formula)

# Terms may be 400 levels deep (atl.core.node.MAX_DEPTH), and a pass takes a few Python frames for each level.
_sys.setrecursionlimit(max(_sys.getrecursionlimit(), 6_000))

__version__ = "0.1.0"
__all__ = [
    "ATLError", "ArgumentError", "ArrayError", "AssumptionError", "CheckoutNeeded", "CompilerFailed",
    "CompilerMissing", "Condition", "ContradictoryAssumptions", "CudaError", "DtypeError", "EscapedIndex",
    "ExtentError", "ForkedProcess", "GpuMissing", "GridTooLarge", "IllegalMark", "ImageError", "IndexExpr",
    "IndexOverflow", "LibraryMissing", "NoSuchAttribute", "NotExact", "OutOfMemory", "ParseError", "Program",
    "RaggedShape", "RankError", "RefusedMark", "Results", "ShapeError", "Size", "SymbolicValue", "Tensor",
    "TooLarge", "UnknownMark", "UnsafeAccess", "UnsafeGuard", "UnsafeTruncation", "UnsupportedMark",
    "WrongArgument", "WrongName", "abs", "cast", "ceildiv", "check_safe", "coiter", "concat", "constant", "einsum",
    "evaluate", "evaluate_fast", "exp", "flatten", "gen", "guard", "imax", "imin", "let", "log", "maximum",
    "minimum", "padl", "padr", "parse", "place", "program", "reduce", "results", "scatter", "select", "shear",
    "sizes", "split", "sqrt", "sum", "tanh", "tensor", "transpose", "truncl", "truncr", "unshear", "value",
]  # fmt: skip
