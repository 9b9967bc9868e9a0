"""One call of a session, and checks of what calls are given."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from atl.core.program import Program
from atl.errors import WrongArgument, brief
from rewrites.kernel import Step, Theorem


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One call in a session: its text, what had been proved when it was made, and the theorems that it went through.

    A call of n steps has n + 1 theorems. The first says what `before` says, perhaps with other names and marks:
    `s.mark("i", "parallel")` is a call of no step, whose one theorem is `before` with a mark on its right side.
    """

    text: str
    before: Theorem
    theorems: tuple[Theorem, ...]
    notes: tuple[str, ...] = ()
    """What a tactic has to say of what it made, such as that a buffer grows with a size."""

    @property
    def theorem(self) -> Theorem:
        """What was proved by it."""
        return self.theorems[-1]

    @property
    def steps(self) -> tuple[Step, ...]:
        """The kernel's steps of this call."""
        return self.theorem.steps_after(self.before)

    def traced(self) -> list[tuple[Step, Program, Program]]:
        """Each step with the programs before and after it."""
        pairs = zip(self.theorems, self.theorems[1:], strict=False)
        return [(step, a.rhs, b.rhs) for step, (a, b) in zip(self.steps, pairs, strict=True)]

    def __repr__(self) -> str:
        """One line: the text, the rules by which it was done if they are others, and what there is to say of it."""
        steps = self.steps
        if len(steps) == 1 and self.text.startswith("rw("):
            return self.text
        counted: dict[str, int] = {}
        for step in steps:
            name = f"{step.rule.name}{'⁻¹' if step.reverse else ''}"
            counted[name] = counted.get(name, 0) + 1
        by = ", ".join(f"{name} ×{times}" if times > 1 else name for name, times in counted.items())
        many = f"{len(steps)} step{'' if len(steps) == 1 else 's'}: {by}"
        return f"{self.text}   -- {'; '.join((many if by else 'no step', *self.notes))}"


def check_takes(tactic: Callable[..., object], arguments: Sequence[object], options: Mapping[str, object]) -> None:
    """Raises `WrongArgument` unless a tactic takes a derivation and these arguments."""
    try:
        inspect.signature(tactic).bind(None, *arguments, **options)
    except TypeError as error:
        raise WrongArgument(
            f"{getattr(tactic, '__name__', 'the tactic')} does not take what is given: {error}",
            required="a function of one argument more than are given, which comes first: def tactic(work, …)",
        ) from None
    except ValueError:
        pass  # of what is written in C nothing is known


def check_flags(**flags: object) -> None:
    """Raises `WrongArgument` for a flag that is neither true nor false."""
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise WrongArgument(f"{name}={brief(value)}", required=f"{name}=True or {name}=False")
