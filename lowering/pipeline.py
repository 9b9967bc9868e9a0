"""Lowering of a program with its checks, followed by the passes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import padtypes
from atl.checks.safety import check_safe
from atl.core import terms
from atl.core.dtypes import STORED
from atl.core.program import Program, is_joined_exactly
from atl.errors import InvalidArgument, brief
from lowering.calls.strides import UnitStrides
from lowering.lower import lowered_by
from lowering.nest import loopnest as ln
from lowering.nest.assembly import check_assembly, check_parallel_rows
from lowering.passes import PASSES_OF, after_passes
from lowering.results import OF_ONE_TYPE, have_different_dtypes, not_separated, with_result_buffers
from lowering.strided import NOT_STRIDED, NOTHING_STRIDED, check_strides, with_strides
from lowering.targets.capabilities import support_of
from lowering.targets.legality import check_legal, check_lowered, check_merges


def lower(
    program: Program,
    *,
    registers: bool = True,
    vector_bytes: int = ln.VECTOR_BYTES,
    target: str = "c",
    origins: bool = False,
    strict: bool = False,
    strided: Mapping[str | None, UnitStrides] = NOTHING_STRIDED,
    own_buffers: bool = False,
) -> ln.LoopNest:
    """Return the loop nest of a program, after proving that accesses are safe and that truncations cut only padding.

    With `registers=False` the nest is exactly that of Fig. 4.1. A sum adds to its element of the buffer, and arithmetic
    is done element by element. The cells stored are exactly those of the elements that are not padding (Theorem 2).

    With registers, the output has the same values, but the set of stored cells may differ from Theorem 2:

    - A sum runs in a scalar variable, which is stored at the end. An empty sum, which is padding, stores a zero.
    - Zeros are stored to pads and to rows with false guards, if this makes the output completely stored.
    - A sum of two tensor sums becomes two statements with one destination. An element to which neither stores is not
      padding, but keeps the zero of the cleared buffer.

    With and without registers, a loop marked `runs` stores the sum of each run, even if a condition skips all terms.

    All passes (`lowering.passes`) run over either nest. They keep the stored cells of the output and their values, and
    may drop stores to buffers and variables that the output does not depend on.

    `vector_bytes` is the size of a vector register: 16, 32 or 64. Buffers marked `registers` consist of such vectors.
    Marked loops are proved legal for every target (`lowering.targets.legality`). A target may still reject a nesting of
    loops when its text is printed, such as a `parallel` loop within a `vector` loop in C. For the target "cuda", the
    passes for registers, storage and loops of CPUs are skipped, and `lowering.gpu` makes kernels of the nest. With
    `origins`, the nest records the binder of the program that each loop came from (`LoopNest.origins`).

    With `strict`, floats are computed by the operations of the program in its order: each sum has a variable or buffer
    that starts at zero and takes its terms in the order of their index, also where it is a term of another sum.

    If the program has an `assembly`, the stored cells are the entries of the result. Then no zeros are stored to the
    output for pads, false guards or empty sums, and no buffer shares its storage. Entries of a type that is only
    stored, such as float16, are computed in a wider type; the caller converts them.

    The inputs named in `strided` have strides as parameters, and so has the output if it contains None
    (`lowering.strided`).

    With `own_buffers`, each of several results of different element types has a buffer, if its stores are proved to be
    disjoint from those of the others (`lowering.results`). Results of int64 together with floats always have one.

    Raises `InvalidArgument`, also for results of int64 together with floats that are not proved disjoint;
    `UnsafeAccess`, `UnsafeTruncation`, `IllegalMark`; `NotAssembled` for a result whose entries cannot be assembled.
    """
    if not isinstance(vector_bytes, int) or vector_bytes not in (16, 32, 64):
        raise InvalidArgument(f"vector_bytes={brief(vector_bytes)}", required="16, 32 or 64")
    if not isinstance(registers, bool):
        raise InvalidArgument(f"registers={brief(registers)}", required="registers=True or registers=False")
    if not isinstance(origins, bool):
        raise InvalidArgument(f"origins={brief(origins)}", required="origins=True or origins=False")
    if not isinstance(strict, bool):
        raise InvalidArgument(f"strict={brief(strict)}", required="strict=True or strict=False")
    support_of(target)
    check_safe(program)
    padtypes.check(program)
    check_merges(program)
    program = added_up(program)
    by = partial(lowered_by, program, registers=registers, origins=origins, strict=strict)
    passes = PASSES_OF[target]
    is_exact = is_joined_exactly(program)
    separate = (own_buffers and have_different_dtypes(program)) or not is_exact
    found = with_result_buffers(*by(own_buffers=True), program) if separate and target == "c" else None
    if found is None and not is_exact:
        raise not_separated(program)
    if found is not None:
        passes = tuple(run for run in passes if run not in OF_ONE_TYPE)
    lowered, met = found or by()
    check_lowered(program, lowered, met)
    if program.assembly is not None:
        check_assembly(lowered, target)
    lowered = replace(lowered, vector_bytes=vector_bytes)
    if strided:
        lowered, passes = with_strides(lowered, strided), tuple(run for run in passes if run not in NOT_STRIDED)
    nest = after_passes(lowered, passes)
    if strided:
        check_strides(nest)
    if program.assembly is not None:
        check_parallel_rows(nest)
    check_legal(nest)
    return nest


def added_up(program: Program) -> Program:
    """Return a program without the conversion of an assembled result to a type in which entries cannot be added."""
    body = program.body
    if program.assembly is not None and isinstance(body, terms.Cast) and body.dtype in STORED:
        return replace(program, body=body.operand)
    return program
