"""Known problems in compiling a program: all of them at once, where `compile` stops at the first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import padtypes
from atl.checks.safety import unsafe_accesses
from atl.checks.wellformed import meaning_errors
from atl.core.program import Program
from atl.errors import ATLError, UnsupportedMark
from lowering.targets.capabilities import check_names, marked_binders, register_errors, stack_errors, unsupported_marks


def diagnostics(program: Program, target: str = "c") -> list[ATLError]:
    """Return the errors for which a target is known to refuse a program.

    Accesses and truncations are checked only if the program is well-formed.

    >>> import atl
    >>> n = atl.sizes("n")
    >>> x = atl.tensor("x", n)
    >>> both = atl.gen(n, lambda i: x[i + 1]) + atl.truncr(1, atl.padl(1, x))
    >>> [type(error).__name__ for error in diagnostics(atl.program("both", [x], both))]
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
    ill_formed = next(meaning_errors(program), None)
    if ill_formed is not None:
        return [*found, ill_formed]
    found += (error for _, error in unsafe_accesses(program))
    found += (error for _, error in padtypes.unsafe_truncations(program))
    return found


def new_diagnostics(before: Iterable[ATLError], after: Iterable[ATLError]) -> list[ATLError]:
    """Return the errors of a later goal that an earlier goal did not have at any place.

    More occurrences of a mark that was already unsupported are not new: rewriting copies loops with their marks.

    >>> import atl
    >>> n = atl.sizes("n")
    >>> x = atl.tensor("x", n)
    >>> read = diagnostics(atl.program("read", [x], atl.gen(n, lambda i: x[i + 1])))
    >>> cut = diagnostics(atl.program("cut", [x], atl.truncr(1, atl.padl(1, x))))
    >>> len(new_diagnostics(read, read)), len(new_diagnostics(read, [])), len(new_diagnostics(read, cut))
    (0, 0, 1)
    """
    earlier = list(before)
    marks = {error.mark for error in earlier if isinstance(error, UnsupportedMark)}
    old = Counter(map(_without_place, earlier))
    new: list[ATLError] = []
    for error in after:
        if isinstance(error, UnsupportedMark) and error.mark in marks:
            continue
        if old[_without_place(error)]:
            old[_without_place(error)] -= 1
        else:
            new.append(error)
    return new


def _without_place(error: ATLError) -> tuple[type[ATLError], str]:
    return type(error), error.summary
