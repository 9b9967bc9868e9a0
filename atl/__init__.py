"""ATL: tensor computations written as mathematics, optimised by proved rewrites, and compiled to C.

>>> import atl
>>> n, m, k = atl.sizes("n m k")
>>> A, B = atl.tensor("A", n, k), atl.tensor("B", k, m)
>>> matmul = atl.program("matmul", [A, B], atl.gen(n, m, lambda i, j: atl.sum(k, lambda l: A[i, l] * B[l, j])))
>>> kernel = atl.compile(atl.reschedule(matmul).tile(["i", "j"], 8).goal)

`import atl` loads only the language. The names in `LAZY` load their packages on first use.
"""

import sys as _sys
import typing as _typing
from collections.abc import Mapping as _Mapping
from difflib import get_close_matches as _get_close_matches
from importlib import import_module as _import_module

from atl.checks.safety import check_safe
from atl.core.program import Program
from atl.errors import (
    ArgumentError,
    ArrayError,
    AssumptionError,
    ATLError,
    CompilerFailed,
    CompilerMissing,
    ContradictoryAssumptions,
    CudaError,
    DistributedFailure,
    DtypeError,
    EscapedIndex,
    ExtentError,
    ForkedProcess,
    GpuMissing,
    GridTooLarge,
    IllegalExchange,
    IllegalMark,
    ImageError,
    IndexOverflow,
    InvalidArgument,
    InvalidName,
    KernelCrashed,
    LibraryMissing,
    MeshError,
    NoErrorBound,
    NoInstruction,
    NoSuchAttribute,
    NotAssembled,
    NotExact,
    NotInSubset,
    OutOfMemory,
    ParseError,
    RaggedShape,
    RankError,
    RefusedMark,
    ShapeError,
    SymbolicValue,
    TextDiffers,
    TooLarge,
    UnknownMark,
    UnsafeAccess,
    UnsafeGuard,
    UnsafeTruncation,
    UnsupportedMark,
)
from atl.meaning.interpret import evaluate
from atl.meaning.vectorised import evaluate_fast
from atl.parameters import check_calls as _check_calls
from atl.parsing.parse import parse
from atl.surface.constants import constant
from atl.surface.einsum import einsum
from atl.surface.operators import (
    abs,
    argmax,
    argmin,
    cast,
    ceil,
    ceildiv,
    clip,
    coiter,
    concat,
    cos,
    erf,
    exp,
    expm1,
    flatten,
    floor,
    gen,
    guard,
    imax,
    imin,
    isfinite,
    let,
    log,
    log1p,
    maximum,
    minimum,
    padl,
    padr,
    place,
    pow,
    reduce,
    round,
    scatter,
    select,
    shear,
    sign,
    sin,
    sizes,
    split,
    sqrt,
    stop,
    sum,
    tanh,
    transpose,
    truncl,
    truncr,
    unshear,
    value,
    where,
)
from atl.surface.program import SizeAnnotation as Size
from atl.surface.program import program, tensor
from atl.surface.recurrences import associative_scan, fold, iterate, rec, scan
from atl.surface.results import Results, results
from atl.surface.sums import blocked_sum, compensated_sum, pairwise_sum
from atl.surface.values import Condition, IndexExpr, Tensor

if _typing.TYPE_CHECKING:
    from atl.kernels import compile, kernel
    from gradients import Differentiable, Gradient, differentiable, gradient, tangent
    from layouts import (
        Layout,
        LinearLayout,
        Swizzle,
        antidiagonal,
        backwards,
        blocked,
        column_major,
        compact_antidiagonal,
        make_layout,
        morton,
        padded,
        row_major,
        shards,
        sheared,
        skewed,
        swizzled,
    )
    from lowering import (
        CoreKernel,
        Device,
        Gpu,
        GpuKernel,
        Instruction,
        Kernel,
        Machine,
        check_instruction,
        declare_instruction,
        instruction,
        machine,
        measure,
        print_c,
        print_nest,
        random_inputs,
        trace,
    )
    from lowering.pipeline import lower  # mypy confuses functions of `lowering` with its modules of the same name
    from lowering.ranks import DistributedKernel, Mesh
    from rewrites import (
        Derivation,
        DoesNotApply,
        Handle,
        NoMatch,
        ProofTrace,
        Rule,
        Schedule,
        Session,
        Theorem,
        Tuned,
        Undetermined,
        autotune,
        reschedule,
    )
    from rewrites.associativity import associative
    from rewrites.recipes import RECIPES, Recipe, recipe
    from rewrites.rules import RULES as rules  # noqa: N811
    from rewrites.session.proof_trace import proof_trace
    from sparse import (
        BCSR,
        BITMASK,
        COO,
        CSB,
        CSC,
        CSF,
        CSR,
        DCSC,
        DCSR,
        DIA,
        HASH,
        MODE_GENERIC,
        VECTOR,
        Format,
        FormatError,
        SparseTensor,
        compress,
        decompress,
        format_named,
        load,
        pack,
        to_scipy,
    )

# Terms may be 400 levels deep (atl.core.node.MAX_DEPTH), and a recursive pass uses several Python frames per level.
_sys.setrecursionlimit(max(_sys.getrecursionlimit(), 6_000))

LAZY: _typing.Final[_Mapping[str, str]] = {
    name: package
    for package, names in {
        "atl.kernels": "compile kernel",
        "gradients": "Differentiable Gradient differentiable gradient tangent",
        "layouts": """
            Layout LinearLayout Swizzle antidiagonal backwards blocked column_major compact_antidiagonal
            make_layout morton padded row_major shards sheared skewed swizzled
        """,
        "lowering": """
            CoreKernel Device Gpu GpuKernel Instruction Kernel Machine check_instruction declare_instruction
            instruction lower machine measure print_c print_nest random_inputs trace
        """,
        "lowering.ranks": "DistributedKernel Mesh",
        "rewrites": """
            Derivation DoesNotApply Handle NoMatch ProofTrace Rule Schedule Session Theorem Tuned Undetermined autotune
            proof_trace reschedule rules
        """,
        "rewrites.associativity": "associative",
        "rewrites.recipes": "RECIPES Recipe recipe",
        "sparse": """
            BCSR BITMASK COO CSB CSC CSF CSR DCSC DCSR DIA HASH MODE_GENERIC VECTOR Format FormatError
            SparseTensor compress decompress format_named load pack to_scipy
        """,
    }.items()
    for name in names.split()
}
"""Public names from higher-level packages, each with its package. The imports for type checkers list the same names."""

__version__ = "0.1.0"
__all__ = [
    "BCSR", "BITMASK", "COO", "CSB", "CSC", "CSF", "CSR", "DCSC", "DCSR", "DIA", "HASH", "MODE_GENERIC", "RECIPES",
    "VECTOR", "ATLError", "ArgumentError", "ArrayError", "AssumptionError", "CompilerFailed", "CompilerMissing",
    "Condition", "ContradictoryAssumptions", "CoreKernel", "CudaError", "Derivation", "Device", "Differentiable",
    "DistributedFailure", "DistributedKernel", "DoesNotApply", "DtypeError", "EscapedIndex", "ExtentError",
    "ForkedProcess", "Format", "FormatError", "Gpu", "GpuKernel", "GpuMissing", "Gradient", "GridTooLarge", "Handle",
    "IllegalExchange", "IllegalMark", "ImageError", "IndexExpr", "IndexOverflow", "Instruction", "InvalidArgument",
    "InvalidName", "Kernel", "KernelCrashed", "Layout", "LibraryMissing", "LinearLayout", "Machine", "Mesh",
    "MeshError", "NoErrorBound", "NoInstruction", "NoMatch", "NoSuchAttribute", "NotAssembled", "NotExact",
    "NotInSubset", "OutOfMemory", "ParseError", "Program", "ProofTrace", "RaggedShape", "RankError", "Recipe",
    "RefusedMark", "Results", "Rule", "Schedule", "Session", "ShapeError", "Size", "SparseTensor", "Swizzle",
    "SymbolicValue", "Tensor", "TextDiffers", "Theorem", "TooLarge", "Tuned", "Undetermined", "UnknownMark",
    "UnsafeAccess", "UnsafeGuard", "UnsafeTruncation", "UnsupportedMark", "abs", "antidiagonal", "argmax", "argmin",
    "associative", "associative_scan", "autotune", "backwards", "blocked", "blocked_sum", "cast", "ceil", "ceildiv",
    "check_instruction", "check_safe", "clip", "coiter", "column_major", "compact_antidiagonal", "compensated_sum",
    "compile", "compress", "concat", "constant", "cos", "declare_instruction", "decompress", "differentiable", "einsum",
    "erf", "evaluate", "evaluate_fast", "exp", "expm1", "flatten", "floor", "fold", "format_named", "gen", "gradient",
    "guard", "imax", "imin", "instruction", "isfinite", "iterate", "kernel", "let", "load", "log", "log1p", "lower",
    "machine", "make_layout", "maximum", "measure", "minimum", "morton", "pack", "padded", "padl", "padr",
    "pairwise_sum", "parse", "place", "pow", "print_c", "print_nest", "program", "proof_trace", "random_inputs", "rec",
    "recipe", "reduce", "reschedule", "results", "round", "row_major", "rules", "scan", "scatter", "select", "shards",
    "shear", "sheared", "sign", "sin", "sizes", "skewed", "split", "sqrt", "stop", "sum", "swizzled", "tangent",
    "tanh", "tensor", "to_scipy", "trace", "transpose", "truncl", "truncr", "unshear", "value", "where",
]  # fmt: skip
_check_calls(globals())


def _no_such_name(name: str) -> AttributeError:
    if name.startswith("_"):  # Python looks up such names itself
        return AttributeError(f"module 'atl' has no attribute {name!r}")
    known = {public.lower(): public for public in __all__}
    near = _get_close_matches(name.lower(), known, 1)
    return NoSuchAttribute(
        f"module 'atl' has no attribute {name!r}",
        suggestions=tuple(f"did you mean atl.{known[each]}?" for each in near),
    )


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


# Hidden from type checkers: with `__getattr__`, they would accept every name.
if not _typing.TYPE_CHECKING:

    def __getattr__(name: str) -> _typing.Any:
        """Load a name of `LAZY` from its package, or raise `NoSuchAttribute` with the nearest name."""
        if name not in LAZY:
            raise _no_such_name(name)
        package = _import_module(LAZY[name])
        if not hasattr(package, name):
            raise LibraryMissing(
                f"atl.{name} needs the package {LAZY[name]} of atl-tensor, but a different {LAZY[name]} was imported",
                required=f"a package other than {package.__file__}",
                suggestions=(f"pip uninstall {LAZY[name]}, then pip install --force-reinstall atl-tensor",),
            )
        globals()[name] = found = getattr(package, name)
        return found
