"""List the known obstacles to compiling a program: all at once, where `compile` stops at the first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import padtypes
from atl.checks.safety import unsafe_accesses
from atl.checks.wellformed import meaning_errors
from atl.core.program import Program
from atl.errors import ATLError, UnsupportedMark
from lowering.targets.capabilities import check_names, marked_binders, unsupported_marks
from lowering.targets.stack import register_errors, stack_errors


def obstacles(program: Program, target: str = "c") -> list[ATLError]:
    """What a target is known to refuse a program for.

    Parts without a meaning come alone: of what is read, cut and marked there is nothing to say without one.

    >>> import atl
    >>> n = atl.sizes("n")
    >>> x = atl.tensor("x", n)
    >>> both = atl.gen(n, lambda i: x[i + 1]) + atl.truncr(1, atl.padl(1, x))
    >>> [type(error).__name__ for error in obstacles(atl.program("both", [x], both))]
    ['UnsafeAccess', 'UnsafeTruncation']
    """
    found: list[ATLError] = []
    try:
        check_names(program)
    except ATLError as error:
        found.append(error)
    found += unsupported_marks(marked_binders(program), target)
    if target == "c":
        found += register_errors(program)
        found += stack_errors(program)
    meaningless = next(meaning_errors(program), None)
    if meaningless is not None:
        return [*found, meaningless]
    found += (error for _, error in unsafe_accesses(program))
    found += (error for _, error in padtypes.unsafe_truncations(program))
    return found


def none_is_new(before: Iterable[ATLError], after: Iterable[ATLError]) -> bool:
    """Whether each obstacle of a later goal stood in the way of an earlier one too, wherever it stands now.

    >>> import atl
    >>> n = atl.sizes("n")
    >>> x = atl.tensor("x", n)
    >>> read = obstacles(atl.program("read", [x], atl.gen(n, lambda i: x[i + 1])))
    >>> cut = obstacles(atl.program("cut", [x], atl.truncr(1, atl.padl(1, x))))
    >>> none_is_new(read, read), none_is_new(read, []), none_is_new(read, cut)
    (True, True, False)
    """
    return not new_obstacles(before, after)


def new_obstacles(before: Iterable[ATLError], after: Iterable[ATLError]) -> list[ATLError]:
    """The obstacles of a later goal that did not stand in the way of an earlier one, wherever they stand.

    A mark that the target does not carry out may be there more often: loops are copied with their marks, and it may be
    another target that they are for.
    """
    earlier = list(before)
    marks = {error.mark for error in earlier if isinstance(error, UnsupportedMark)}
    old = Counter(map(_what, earlier))
    new: list[ATLError] = []
    for error in after:
        if isinstance(error, UnsupportedMark) and error.mark in marks:
            continue
        if old[_what(error)]:
            old[_what(error)] -= 1
        else:
            new.append(error)
    return new


def _what(error: ATLError) -> tuple[type[ATLError], str]:
    """What stands in the way, without its place."""
    return type(error), error.summary
