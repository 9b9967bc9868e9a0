"""What stands in the way of compiling a program: all of it at once, where `compile` stops at the first."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import padtypes
from atl.checks.safety import unsafe_accesses
from atl.checks.stack import beyond_the_registers, beyond_the_stack
from atl.checks.targets import MarkedBinder, check_names, marked_binders, unsupported_marks
from atl.checks.wellformed import without_meaning
from atl.core.program import Program
from atl.errors import ATLError, UnsupportedMark

_ASKED: Final[Mapping[str, str]] = {
    "c": "s.check(also=lowering.lower)",
    "cuda": 's.check(target="cuda", also=lowering.compile)',
}
"""What tells whether loops may run as marked: of a GPU also what the threads of a block share, and their registers."""


@dataclass(frozen=True, slots=True)
class Report:
    """Whether a program compiles: the obstacles, each the error that `compile` would raise if it were the only one.

    A report is true where there are none, and prints them with their places. `untold` are the marked loops of which
    only the loop nest tells whether they may run so; where nobody has asked it, the report is not true either.
    """

    name: str
    target: str
    obstacles: tuple[ATLError, ...]
    untold: tuple[MarkedBinder, ...] = ()

    @property
    def compiles(self) -> bool:
        """Whether nothing stands in the way."""
        return not self.obstacles and not self.untold

    def __bool__(self) -> bool:
        return self.compiles

    def __str__(self) -> str:
        if not self.obstacles:
            found = f"nothing stands in the way of compiling {self.name} for target={self.target!r}"
            if not self.untold:
                return found
            loops = ", ".join(f"{binder.name} as {binder.mark.value}" for binder in self.untold)
            return f"{found}, if its loops may run as marked ({loops}): {_ASKED[self.target]} tells"
        many = len(self.obstacles)
        head = f"{many} thing{'s stand' if many > 1 else ' stands'} in the way of compiling {self.name}"
        parts = [f"{number}. {type(error).__name__}: {error}" for number, error in enumerate(self.obstacles, 1)]
        return "\n".join([f"{head} for target={self.target!r}:", *parts])

    __repr__ = __str__


def report(program: Program, target: str = "c", also: Callable[..., object] | None = None) -> Report:
    """All that is known to stand in the way of compiling a program; `also` may raise what else there is.

    It is told the target if it takes one.
    """
    found = list(obstacles(program, target))
    if also is not None and not found:
        try:
            also(program, **({"target": target} if _takes_a_target(also) else {}))
        except ATLError as error:
            found.append(error)
    loops = [] if also is not None else [binder for binder in marked_binders(program) if binder.kind == "loop"]
    return Report(program.name, target, tuple(found), tuple(loops))


def _takes_a_target(function: Callable[..., object]) -> bool:
    try:
        return "target" in inspect.signature(function).parameters
    except ValueError:
        return False  # of what is written in C nothing is known


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
        found += beyond_the_registers(program)
        found += beyond_the_stack(program)
    meaningless = next(without_meaning(program), None)
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
