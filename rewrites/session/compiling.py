"""Session methods that compile the goal: checks, kernels, timing.

These methods import `lowering` lazily, so that a session that never compiles does not load it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, overload

import numpy as np

from atl.core.program import Program
from atl.errors import ATLError, InvalidArgument, brief
from rewrites.diagnostics import diagnostics
from rewrites.kernel import Theorem

if TYPE_CHECKING:
    import lowering
    import lowering.ranks


@dataclass(frozen=True, slots=True)
class Report:
    """A report of the problems in compiling a program, each as the error that `compile` would raise for it alone.

    A report is true if there are none. It prints the problems with their places.
    """

    name: str
    target: str
    diagnostics: tuple[ATLError, ...]

    @property
    def compiles(self) -> bool:
        """True if no problem was found."""
        return not self.diagnostics

    def __bool__(self) -> bool:
        return self.compiles

    def __str__(self) -> str:
        if not self.diagnostics:
            return f"no problems found in compiling {self.name} for target={self.target!r}"
        many = len(self.diagnostics)
        head = f"{many} problem{'s' if many > 1 else ''} in compiling {self.name} for target={self.target!r}:"
        parts = [f"{number}. {type(error).__name__}: {error}" for number, error in enumerate(self.diagnostics, 1)]
        return "\n".join([head, *parts])

    __repr__ = __str__


class HasGoal(Protocol):
    """An object with a program to compile, such as a session."""

    @property
    def goal(self) -> Program: ...

    @property
    def theorem(self) -> Theorem: ...


_last_without_problems: Final[list[tuple[Program, str]]] = []
"""The program and target of the last check, if it found no problem. `optimize` checks a goal again after a recipe."""


def check(self: HasGoal, *, target: str = "c") -> Report:
    """Check that the goal compiles and list all problems: unsafe accesses and truncations, illegal marks, bad names.

    The goal is lowered to a loop nest to check that marked loops may run as marked. For target="cuda" the check
    includes shared memory and registers. No compiler runs. A rewrite may leave such a problem; a later one may
    remove it.

    >>> import atl
    >>> x = atl.tensor("x", atl.sizes("n"))
    >>> s = atl.reschedule(atl.program("twice", [x], 2 * x)).rw("mul_comm")
    >>> s.check()
    no problems found in compiling twice for target='c'
    """
    goal = self.goal
    # Compared by identity, because equal programs may have other marks and names.
    if any(last is goal and checked == target for last, checked in _last_without_problems):
        return Report(goal.name, target, ())
    found = diagnostics(goal, target)
    if not found:
        import lowering

        try:
            lowering.check(goal, target=target)
        except ATLError as error:
            found.append(error)
    _last_without_problems[:] = [] if found else [(goal, target)]
    return Report(goal.name, target, tuple(found))


def storage_reasons(self: HasGoal, name: str) -> str:
    """Return each decision on the storage of a recurrence or ring in the goal, and why. Raises `InvalidArgument`."""
    import lowering

    reasons = lowering.lower(self.goal).storage_reasons
    found = [str(reason) for reason in reasons if reason.name == name]
    if not found:
        names = ", ".join(dict.fromkeys(reason.name for reason in reasons))
        raise InvalidArgument(
            f"the goal has no local recurrence or ring {brief(name)}",
            required=f"one of {names}" if names else "the number of a call; all rows of the result are stored",
        )
    return "\n".join(found)


@overload
def compile(  # noqa: A001 (as in lowering)
    self: HasGoal,
    *,
    target: Literal["c"] = ...,
    sizes: Mapping[str, int] | None = ...,
    fast_math: bool = ...,
    strict: bool | None = ...,
) -> lowering.Kernel: ...


@overload
def compile(  # noqa: A001
    self: HasGoal,
    *,
    target: Literal["cuda"],
    sizes: Mapping[str, int] | None = ...,
    fast_math: bool = ...,
    strict: bool | None = ...,
) -> lowering.GpuKernel: ...


@overload
def compile(  # noqa: A001
    self: HasGoal,
    *,
    strict: Literal[False] | None = ...,
    mesh: lowering.ranks.Mesh,
) -> lowering.ranks.DistributedKernel: ...


@overload
def compile(  # noqa: A001
    self: HasGoal,
    *,
    target: str,
    sizes: Mapping[str, int] | None = ...,
    fast_math: bool = ...,
    strict: bool | None = ...,
) -> lowering.Kernel | lowering.GpuKernel | lowering.CoreKernel: ...


def compile(  # noqa: A001
    self: HasGoal,
    *,
    target: str = "c",
    sizes: Mapping[str, int] | None = None,
    fast_math: bool = False,
    strict: bool | None = None,
    mesh: lowering.ranks.Mesh | None = None,
) -> lowering.Kernel | lowering.GpuKernel | lowering.CoreKernel | lowering.ranks.DistributedKernel:
    """Compile the goal to a kernel, like `atl.compile(s.goal)`, with the same options and errors.

    `strict` is by default that of the session. A `mesh` cannot be combined with other options. Ranks do not compile
    strictly, so a strict session also needs `strict=False`. Raises `InvalidArgument` for other combinations.

    >>> import atl, numpy as np
    >>> x = atl.tensor("x", atl.sizes("n"))
    >>> kernel = atl.reschedule(atl.program("twice", [x], 2 * x)).vectorize("i", 8).compile()
    >>> kernel(np.arange(3, dtype=np.float32))
    array([0., 2., 4.], dtype=float32)
    """
    import lowering

    strict = self.theorem.strict if strict is None else strict
    if mesh is not None:
        if strict:
            raise InvalidArgument(
                "mesh= with strict=True",
                required="strict=False besides mesh=: a reduction over ranks has its own order",
                suggestions=("s.compile(mesh=…, strict=False)",),
            )
        if target != "c" or sizes is not None or fast_math:
            raise InvalidArgument("mesh= with another option", required="mesh= alone: ranks compile for any sizes")
        from lowering.ranks import compile_for_mesh

        return compile_for_mesh(self.goal, mesh)
    return lowering.compile(self.goal, target=target, sizes=sizes, fast_math=fast_math, strict=strict)


def compare_errors(
    self: HasGoal, other: HasGoal | Program, /, *arrays: object, **named: object
) -> lowering.ErrorComparison:
    """Compare the bounds on the rounding errors of the goal and of another schedule, for the same arguments.

    The arguments are those of the kernels. Raises `NoErrorBound`, `InvalidArgument`, and the errors of `compile`.

    >>> import atl, numpy as np
    >>> x = atl.tensor("x", atl.sizes("n"))
    >>> total = atl.program("total", [x], atl.sum(x.shape[0], lambda i: x[i]))
    >>> blocked = atl.program("blocked", [x], atl.blocked_sum(x.shape[0], lambda i: x[i], block=100))
    >>> print(atl.reschedule(total).compare_errors(blocked, np.ones(10_000, np.float32)))
    total: at most 5.96
    blocked: at most 0.119
    median ratio of the bounds: 0.02
    """
    import lowering

    program = other if isinstance(other, Program) else getattr(other, "goal", None)
    if not isinstance(program, Program):
        raise InvalidArgument(
            f"{brief(other)} is not a schedule", required="a session or a program: s.compare_errors(other, …)"
        )
    kernels = [compile(self), lowering.compile(program) if isinstance(other, Program) else compile(other)]
    first, second = (_elements(kernel.error_bound(*arrays, **named)) for kernel in kernels)
    return lowering.ErrorComparison((self.goal.name, program.name), (first, second))


def _elements(bounds: Any) -> Any:
    """Return the array of the bounds of all results."""
    return np.concatenate([np.ravel(each) for each in bounds]) if isinstance(bounds, tuple) else np.asarray(bounds)


def traffic(self: HasGoal) -> lowering.ranks.Traffic:
    """Return the words and messages that each rank receives when the goal runs on a mesh, as formulas.

    Raises what `atl.compile(goal, mesh=…)` raises for goals that cannot run on ranks.

    >>> import atl
    >>> s = atl.reschedule(atl.parse(
    ...     "f (x : float32[P | device.x, b]) : float32[P, b] := ⊞[p < P] ⊞[i < b] 2 * x[p, i]"))
    >>> s.traffic()
    exchange        words received  messages received
    all-gather out  P*b - b         P - 1
    """
    from lowering.ranks import traffic_of
    from lowering.ranks.forming import form

    return traffic_of(form(self.goal))


def time(self: HasGoal, /, *arrays: object, seconds: object = 0.5, **named: object) -> lowering.KernelTime:
    """Compile the goal to C and time a call with these arguments, like `s.compile().time(…)`.

    >>> import atl, numpy as np
    >>> x = atl.tensor("x", atl.sizes("n"))
    >>> taken = atl.reschedule(atl.program("twice", [x], 2 * x)).time(np.ones(1000, np.float32), seconds=0.01)
    >>> 0 < taken.low <= taken.median <= taken.high
    True
    """
    return compile(self).time(*arrays, seconds=seconds, **named)
