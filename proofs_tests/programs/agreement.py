"""Comparison of all ways to compute a program: for one case, and for many cases that share a C file.

    program ──▶ reference interpreter      its meaning
       │
    loop nest ──▶ its interpreter          a heap of partial maps, which traps what C does silently
       │
       C ──▶ -O0 under sanitizers, each array in a block of exactly its size
         ──▶ -O3, as users run it, also with a poisoned output

Elements that round alike in every legal order of evaluation must be equal. The others must be within the bound that
`proofs_tests.programs.exactness` derives. Runs where C and the reference may differ are discarded: x / 0, undefined
casts, and values near overflow or a discontinuity.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from atl.core.dtypes import is_integer
from atl.core.program import Program
from atl.errors import AssumptionError, NotInSubset, TooLarge, UnsafeAccess, UnsafeTruncation
from atl.meaning.arguments import bind
from atl.meaning.interpret import Pad, denote
from lowering.c.printer import function_names, print_c
from lowering.kernel import Kernel
from lowering.kernel_text import interface
from lowering.lower import lower_unchecked
from lowering.nest.execution import Trap
from lowering.nest.interpreter import Outcome, execute
from lowering.nest.loopnest import LoopNest
from lowering.passes import after_passes
from lowering.pipeline import lower
from lowering.validation.validate import executed, validate
from proofs_tests.programs.batch import Call, Sanitized, compile_many
from proofs_tests.programs.batch import Report as Stopped
from proofs_tests.programs.exactness import UNIT, Bounded, Bounds
from proofs_tests.programs.generate import Case

AnyArray: TypeAlias = npt.NDArray[Any]
Stage: TypeAlias = Literal["language", "lowering", "reference", "loop nest", "text", "compiler", "sanitizer", "kernel"]

NEAR: Final = 1.01
"""Factor for the higher-order terms that the bounds of exp, log and sqrt omit."""
STEPS: Final = 20_000
"""Largest number of statements in a run of a loop nest."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault, with the stage of the computation at which it was found."""

    stage: Stage
    message: str
    is_report: bool = False
    """True if a sanitizer reported the fault, and not a comparison."""


@dataclass(frozen=True, slots=True)
class Discarded:
    """A run without a verdict, and the reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected result of a case: values, error bounds (0: exact), and padding."""

    case: Case
    nest: LoopNest
    values: AnyArray
    slack: npt.NDArray[np.float64]
    padding: npt.NDArray[np.bool_]

    @property
    def exact(self) -> bool:
        return not self.slack.any()


def expected(tried: Case, nest: LoopNest | None = None) -> Expected | Discarded | Fault:
    """Lower the program, if necessary, and return the reference's result."""
    try:
        nest = nest or lower(tried.program)
    except (UnsafeAccess, UnsafeTruncation, TooLarge) as error:
        return Discarded(type(error).__name__)
    except Exception as error:  # noqa: BLE001 (any other exception is a finding)
        return Fault("lowering", f"{type(error).__name__}: {error}")
    try:
        return _meaning(tried, nest)
    except AssumptionError:
        return Discarded("AssumptionError")
    except Exception as error:  # noqa: BLE001
        return Fault("reference", f"{type(error).__name__}: {error}")


def _meaning(tried: Case, nest: LoopNest) -> Expected | Discarded:
    call = bind(tried.program, (), {**tried.arrays, **tried.sizes})
    bounds = Bounds()
    meaning = denote(tried.program, call.sizes, call.arrays, bounds)
    values = np.zeros(meaning.shape, tried.program.dtype)
    slack = np.zeros(meaning.shape)
    padding = np.zeros(meaning.shape, np.bool_)
    unit = UNIT[tried.program.dtype]
    for at in np.ndindex(meaning.shape):
        match meaning.at(at):
            case Pad():
                padding[at] = True
            case Bounded() as element:
                values[at] = element.value
                slack[at] = 2 * NEAR * element.error(unit)
    if bounds.divisions_by_zero:
        return Discarded("x / 0")
    if bounds.undefined:
        return Discarded("an undefined cast")
    if bounds.doubtful:
        return Discarded("ill-conditioned")
    if not np.isfinite(values).all():
        return Discarded("not finite")
    return Expected(tried, nest, values, slack, padding)


def interpreted(wanted: Expected) -> Fault | Discarded | None:
    """Return the fault of the loop nest in its interpreter, with registers and without, as in Fig. 4.1."""
    try:
        outcome = execute(wanted.nest, wanted.case.sizes, wanted.case.arrays, steps=STEPS)
        if difference := disagreement(outcome.to_numpy(), wanted):
            return Fault("loop nest", difference)
        letter = after_passes(lower_unchecked(wanted.case.program, registers=False))
        if letter.body != wanted.nest.body:
            # The mark is legal for a reduction into a scalar, but not for a sum that adds to its cell.
            outcome = execute(letter, wanted.case.sizes, wanted.case.arrays, steps=STEPS, order=None)
    except TooLarge:
        return Discarded("too long to interpret")
    except Trap as trap:
        return Fault("loop nest", str(trap))
    except Exception as error:  # noqa: BLE001
        return Fault("loop nest", f"{type(error).__name__}: {error}")
    if difference := disagreement(outcome.to_numpy(), wanted):
        return Fault("loop nest", f"{difference}, without registers")
    return _padding_stored(outcome, wanted)


def executed_text(wanted: Expected) -> Fault | None:
    """Return the fault of the C text in the executor: its numbers, and its polynomials in the elements."""
    tried, nest = wanted.case, wanted.nest
    text, (name,) = print_c(nest), function_names((nest,))
    try:
        of = interface(tried.program, nest, text, name)
        bound = bind(tried.program, (), {**tried.arrays, **tried.sizes})
        if difference := disagreement(executed(of, bound.sizes, bound.arrays), wanted):
            return Fault("text", difference)
        validate(of, [bound.sizes])
    except NotInSubset:
        return None
    except Exception as error:  # noqa: BLE001
        return Fault("text", f"{type(error).__name__}: {error}")
    return None


def _padding_stored(outcome: Outcome, wanted: Expected) -> Fault | None:
    """Check Theorem 2 as far as truncations need it: without registers, nothing is stored to padding."""
    padding = wanted.padding.ravel()
    for address in outcome.cells:
        if padding[address]:
            return Fault("loop nest", f"a value is stored at {address}, which is padding, without registers")
    return None


def disagreement(got: AnyArray, wanted: Expected) -> str | None:
    """Return the first wrong element."""
    values = wanted.values
    if got.shape != values.shape or got.dtype != values.dtype:
        return f"{got.dtype} of shape {got.shape} in place of {values.dtype} of shape {values.shape}"
    with np.errstate(all="ignore"):
        if is_integer(str(values.dtype)):
            wrong = got != values
        else:
            wrong = ~(np.abs(got.astype(np.float64) - values.astype(np.float64)) <= wanted.slack)
    for at in np.argwhere(wrong)[:1]:
        place = tuple(int(i) for i in at)
        allowed = f" (± {wanted.slack[place]:.2g})" if wanted.slack[place] else ""
        return f"{got[place]!r} in place of {values[place]!r}{allowed} at {place}"
    return None


def compiled(batch: Sequence[Expected]) -> list[Fault | None]:
    """Return the fault of each case in C. A kernel whose sanitized run fails is not run in this process."""
    programs, nests = [wanted.case.program for wanted in batch], [wanted.nest for wanted in batch]
    try:
        sanitized, kernels = Sanitized(programs, nests), compile_many(programs, nests=nests)
    except Exception as error:  # noqa: BLE001
        if len(batch) == 1:
            return [Fault("compiler", f"{type(error).__name__}: {error}")]
        return [fault for wanted in batch for fault in compiled([wanted])]
    calls = [Call(at, _arguments(wanted.case)) for at, wanted in enumerate(batch)]
    results = sanitized.run(calls)
    return [
        _sanitized(result, wanted) or _called(kernel, wanted)
        for result, kernel, wanted in zip(results, kernels, batch, strict=True)
    ]


def _arguments(tried: Case) -> dict[str, Any]:
    return {**tried.arrays, **tried.sizes}


def _sanitized(result: AnyArray | Stopped, wanted: Expected) -> Fault | None:
    match result:
        case Stopped(text):
            return Fault("sanitizer", text[:2000], is_report=True)
        case _:
            difference = disagreement(result, wanted)
            return Fault("sanitizer", difference) if difference else None


def _called(kernel: Kernel, wanted: Expected) -> Fault | None:
    """Call the kernel as users do, and again with a poisoned output."""
    try:
        first = kernel(**_arguments(wanted.case))
        poisoned = np.frombuffer(b"\x7f" * max(first.nbytes, 1), np.uint8)[: first.nbytes].copy()
        again = kernel(**_arguments(wanted.case), out=poisoned.view(first.dtype).reshape(first.shape))
    except Exception as error:  # noqa: BLE001
        return Fault("kernel", f"{type(error).__name__}: {error}")
    if difference := disagreement(first, wanted):
        return Fault("kernel", difference)
    if first.tobytes() != again.tobytes():
        return Fault("kernel", "another result where the output held garbage before")
    return None


def compare(program: Program, sizes: Mapping[str, int], arrays: Mapping[str, AnyArray]) -> str:
    """Describe one program and call in a line: a fault, a reason to discard the run, or agreement."""
    with own_cache():
        wanted = expected(Case(program, sizes, arrays, frozenset()))
        verdict = wanted
        if isinstance(wanted, Expected):
            verdict = interpreted(wanted) or compiled([wanted])[0] or wanted
    match verdict:
        case Fault(stage, message):
            return f"{stage}: {message}"
        case Discarded(reason):
            return f"discarded: {reason}"
        case Expected():
            return "all ways agree exactly" if verdict.exact else "all ways agree within the bounds"


@contextmanager
def own_cache() -> Iterator[None]:
    """Use a temporary cache for builds."""
    before = os.environ.get("ATL_CACHE")
    with tempfile.TemporaryDirectory(prefix="atl-fuzz-") as directory:
        os.environ["ATL_CACHE"] = directory
        try:
            yield
        finally:
            os.environ.pop("ATL_CACHE")
            if before is not None:
                os.environ["ATL_CACHE"] = before
