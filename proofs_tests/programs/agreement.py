"""Whether all ways to compute a program agree: on one case, and on many that share a C file.

    program ──▶ reference interpreter      what it means
       │
    loop nest ──▶ its interpreter          a heap of partial maps, which traps what C would do silently
       │
       C ──▶ -O0 under sanitizers, every array in a block of exactly its size
         ──▶ -O3, as users run it, and once more into an output that holds garbage

Elements that no legal order of evaluation can round differently must be equal; the others must lie within the bound
that `proofs_tests.programs.exactness` derives. Runs to which C and the reference may give different meanings (x / 0,
undefined casts, values near overflow or near a discontinuity) are discarded.
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
from atl.errors import AssumptionError, TooLarge, UnsafeAccess, UnsafeTruncation
from atl.meaning.arguments import bind
from atl.meaning.interpret import Pad, denote
from lowering.compiled import Kernel
from lowering.lower import lower, lower_unchecked
from lowering.nest.interpreter import Outcome, execute
from lowering.nest.loopnest import LoopNest
from lowering.nest.traps import Trap
from lowering.passes import after_passes
from proofs_tests.programs.batch import Call, Sanitized, compile_many
from proofs_tests.programs.batch import Report as Stopped
from proofs_tests.programs.exactness import UNIT, Bounded, Bounds
from proofs_tests.programs.generate import Case

AnyArray: TypeAlias = npt.NDArray[Any]
Stage: TypeAlias = Literal["language", "lowering", "reference", "loop nest", "compiler", "sanitizer", "kernel"]

NEAR: Final = 1.01
"""The bounds of exp, log and sqrt are of first order; this covers the rest."""
STEPS: Final = 20_000
"""A loop nest that takes more statements than this is left out."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is wrong, and in which of the ways to compute it."""

    stage: Stage
    message: str
    is_report: bool = False
    """Whether a sanitizer has reported it, rather than a comparison."""


@dataclass(frozen=True, slots=True)
class Discarded:
    """A run that says nothing, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Expected:
    """What a case must give: values, how far off each may be (0: not at all), and which elements are padding."""

    case: Case
    nest: LoopNest
    values: AnyArray
    slack: npt.NDArray[np.float64]
    padding: npt.NDArray[np.bool_]

    @property
    def exact(self) -> bool:
        return not self.slack.any()


# -- one case ---------------------------------------------------------------------------------------------------------


def expected(tried: Case, nest: LoopNest | None = None) -> Expected | Discarded | Fault:
    """The reference's answer, once the program is lowered, if it was not before."""
    try:
        nest = nest or lower(tried.program)
    except (UnsafeAccess, UnsafeTruncation, TooLarge) as error:
        return Discarded(type(error).__name__)
    except Exception as error:  # noqa: BLE001 (any other exception is what is looked for)
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
    """What is wrong with the loop nest, as its interpreter sees it; and with that of Fig. 4.1 to the letter."""
    try:
        outcome = execute(wanted.nest, wanted.case.sizes, wanted.case.arrays, steps=STEPS)
        if difference := disagreement(outcome.to_numpy(), wanted):
            return Fault("loop nest", difference)
        letter = after_passes(lower_unchecked(wanted.case.program, registers=False))
        if letter.body != wanted.nest.body:
            # A sum that adds to its cell is no reduction into a scalar, which is what its mark was found legal for.
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


def _padding_stored(outcome: Outcome, wanted: Expected) -> Fault | None:
    """Theorem 2, as far as it keeps truncations safe: without registers, nothing is stored where there is padding."""
    padding = wanted.padding.ravel()
    for address in outcome.cells:
        if padding[address]:
            return Fault("loop nest", f"a value is stored at {address}, which is padding, without registers")
    return None


def disagreement(got: AnyArray, wanted: Expected) -> str | None:
    """The first element that is not what it must be."""
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


# -- many cases in C --------------------------------------------------------------------------------------------------


def compiled(batch: Sequence[Expected]) -> list[Fault | None]:
    """What is wrong with the C of each case. A kernel whose sanitized run is at fault is not run in this process."""
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
    """The kernel as users call it, and again with an output full of garbage."""
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
    """What there is to say of one program and call, in a line: a fault, a reason to discard it, or agreement."""
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
    """What is built here is not kept."""
    before = os.environ.get("ATL_CACHE")
    with tempfile.TemporaryDirectory(prefix="atl-fuzz-") as directory:
        os.environ["ATL_CACHE"] = directory
        try:
            yield
        finally:
            os.environ.pop("ATL_CACHE")
            if before is not None:
                os.environ["ATL_CACHE"] = before
