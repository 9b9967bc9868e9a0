"""Schedules as data: the calls of a session, saved to a file and applied to other programs."""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path as FilePath
from typing import Any, Final, Protocol, TypeVar

from atl.core.program import Program
from atl.core.terms import Gen, Let, Reduce
from atl.core.traversal import Path
from atl.errors import ATLError, InvalidArgument, brief
from atl.files.atomic import write_text
from atl.text.printing import text_at
from rewrites.cursors.cursor import binders, cursor_at
from rewrites.cursors.targets import every
from rewrites.errors import DoesNotApply
from rewrites.session.call import Call
from rewrites.session.diagnosis import attach_call_site
from rewrites.session.display import call_text
from rewrites.tactics import TACTICS

FORMAT: Final = {"schedule": "atl", "version": 1}
_ARITHMETIC: Final = (
    ast.Name, ast.Load, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Constant,
)  # fmt: skip
"""The parts of an index expression that a call shows as source: it is passed as text."""


@dataclass(frozen=True, slots=True, repr=False)
class ScheduledCall:
    """A call of a schedule: the name of a method of sessions, and arguments that are literals."""

    name: str
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]

    def __repr__(self) -> str:
        return call_text(self.name, self.arguments, self.options)


class Applies(Protocol):
    """A session, as far as schedules use it."""

    @property
    def goal(self) -> Program: ...

    @property
    def steps(self) -> Sequence[Call]: ...

    def branch(self) -> Any: ...

    def continue_as(self, branch: Any) -> Any: ...


S = TypeVar("S", bound=Applies)


@dataclass(frozen=True, slots=True, repr=False)
class Schedule:
    """The calls of a session as data, which print as a numbered list. Places are names and patterns, not paths.

    `s.schedule()` returns that of a session, `schedule.apply(t)` makes the calls in another one, and `save` and `load`
    write and read a file. Each call asks the kernel for its steps, so a schedule from any source proves what it does.

    >>> import atl
    >>> rows = atl.parse("rows (A : float32[n, m]) : float32[n] := ⊞[i < n] Σ[j < m] A[i, j]")
    >>> schedule = atl.reschedule(rows).tile("i", 8).interchange("ii").schedule()
    >>> schedule
      0  tile('i', 8)
      1  interchange('ii')
    >>> norms = atl.parse("norms (B : float32[k, k]) : float32[k] := ⊞[i < k] Σ[l < k] B[i, l] * B[i, l]")
    >>> schedule.apply(atl.reschedule(norms))
    norms (B : float32[k, k]) : float32[k] :=
      truncr (8*⌈k / 8⌉ - k) flatten ⊞[io < ⌈k / 8⌉] Σ[l < k] ⊞[ii < 8] [8*io + ii < k] ·
        B[8*io + ii, l] * B[8*io + ii, l]
    >>> flat = atl.parse("flat (x : float32[n]) : float32[n] := ⊞[i < n] 2 * x[i]")
    >>> schedule.apply(atl.reschedule(flat))
    Traceback (most recent call last):
    rewrites.errors.DoesNotApply: call 1 of the schedule, interchange('ii'), does not fit flat: ...
    """

    calls: tuple[ScheduledCall, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.calls, tuple) or not all(isinstance(call, ScheduledCall) for call in self.calls):
            raise InvalidArgument(
                f"Schedule({brief(self.calls)})",
                required="calls",
                suggestions=("s.schedule(), or Schedule.load(file)",),
            )

    def __repr__(self) -> str:
        width = len(str(len(self.calls) - 1))
        return "\n".join(f"  {number:>{width}}  {call!r}" for number, call in enumerate(self.calls)) or "(no calls)"

    def apply(self, session: S) -> S:
        """Make the calls in a session, and return it. Raises `DoesNotApply` with the first call that does not fit.

        The session is then unchanged.
        """
        with attach_call_site():
            if not all(hasattr(session, name) for name in ("branch", "continue_as", "goal")):
                raise InvalidArgument(
                    f"a schedule applied to {brief(session)}", required="a session: schedule.apply(reschedule(program))"
                )
            trial = session.branch()
            for number, call in enumerate(self.calls):
                try:
                    getattr(trial, call.name)(*call.arguments, **call.options)
                except ATLError as error:
                    raise DoesNotApply(
                        f"call {number} of the schedule, {call!r}, does not fit {session.goal.name}: {error.summary}",
                        place=error.place,
                        required=error.required,
                        numbers=error.numbers,
                        suggestions=error.suggestions,
                    ) from error
            continued: S = session.continue_as(trial)
            return continued

    def save(self, path: str | PathLike[str]) -> None:
        """Write the schedule to a JSON file, completely or not at all.

        Raises `InvalidArgument` if it cannot be written.
        """
        calls = [[call.name, _encoded(call.arguments), _encoded(dict(call.options))] for call in self.calls]
        text = json.dumps({**FORMAT, "calls": calls}, ensure_ascii=False, indent=1)
        write_text(path, text + "\n", required='a path that can be written: "tiles.json"')

    @staticmethod
    def load(path: str | PathLike[str]) -> Schedule:
        """Read a schedule from a file. Raises `InvalidArgument` if it is not one."""
        try:
            held = json.loads(FilePath(path).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise InvalidArgument(
                f"{brief(path)} cannot be read: {error}", required="a file of Schedule.save"
            ) from None
        calls = held.get("calls") if isinstance(held, dict) and held == {**FORMAT, "calls": held.get("calls")} else None
        if not isinstance(calls, list):
            raise InvalidArgument(
                f"{brief(path)} is not a schedule", required=f"a file of Schedule.save, with {FORMAT}"
            )
        return Schedule(tuple(_checked(number, each) for number, each in enumerate(calls)))


def schedule(self: Applies) -> Schedule:
    """Return the calls of this session as data, to be saved and applied to other programs (`Schedule`).

    A place that was selected by a path is written as a name. Raises `InvalidArgument` for a call that is not a method
    with literal arguments, such as a search, a call of a function, or a sparse format.
    """
    with attach_call_site():
        return Schedule(tuple(_scheduled(number, call) for number, call in enumerate(self.steps)))


def _scheduled(number: int, call: Call) -> ScheduledCall:
    """Return a call as data."""
    try:
        written = ast.parse(call.text, mode="eval").body
    except SyntaxError:
        written = None
    if not isinstance(written, ast.Call) or not isinstance(written.func, ast.Name) or written.func.id not in _METHODS:
        raise _not_data(number, call, "it is not a method with literal arguments")
    name = written.func.id
    places = _places(name)
    arguments = tuple(
        _literal(number, call, value, is_place=at < len(places) and places[at][1])
        for at, value in enumerate(written.args)
    )
    of_places = {each for each, is_place in places if is_place}
    options = {
        each.arg: _literal(number, call, each.value, is_place=each.arg in of_places)
        for each in written.keywords
        if each.arg is not None
    }
    return ScheduledCall(name, arguments, options)


_METHODS: Final = frozenset({"rw", *TACTICS})
_DEPTH: Final = 4
"""Maximum number of nested loops and lets in a pattern that replaces a path."""
_HEAD: Final = re.compile(r"(\S+\[[^\]|]*)(?: \| [^\]]*)?\] ")
"""The text of a loop before its body, without its mark."""
_PLACES: Final = frozenset({
    "Term", "Scalar", "Element", "Tensor", "Operand", "Loop", "Loops", "Recurrence", "Sum", "Let", "LetOrOperator",
    "Binder", "Around", "Above", "Inside",
})  # fmt: skip
"""The kinds of arguments in `rewrites.tactics.arg` that select places."""


def _places(name: str) -> list[tuple[str, bool]]:
    """Return the parameters of a method, with whether they select a place."""
    if name == "rw":
        return [("name", False), ("at", True), ("around", True)]
    parameters = [*inspect.signature(TACTICS[name].function).parameters.values()][1:]
    return [
        (each.name, not _PLACES.isdisjoint(re.findall(r"\barg\.(\w+)", str(each.annotation)))) for each in parameters
    ]


def _literal(number: int, call: Call, value: ast.expr, *, is_place: bool) -> Any:
    try:
        held = ast.literal_eval(value)
    except ValueError:
        if all(isinstance(node, _ARITHMETIC) for node in ast.walk(value)):
            return ast.unparse(value)  # an index expression, which methods accept as text
        raise _not_data(number, call, f"{ast.unparse(value)} is not a literal") from None
    if is_place and _is_path(held):
        return _name_of(number, call, held)
    if is_place and isinstance(held, list):
        return [_name_of(number, call, each) if _is_path(each) else each for each in held]
    return held


def _is_path(value: object) -> bool:
    return isinstance(value, tuple) and all(type(each) is int for each in value)


def _name_of(number: int, call: Call, path: Path) -> str:
    """Return a name or a pattern that selects the place of a path first, in the program before the call."""
    program: Program = call.before.rhs
    names = {cursor.path: cursor.called for cursor in binders(program)}
    patterns = (_pattern(program, names, path, depth) for depth in range(1, _DEPTH + 1))
    for target in (*names.get(path, ()), *patterns, text_at(program, path)):
        try:
            if every(program, target)[0].path == path:
                return str(target)
        except ATLError:
            pass  # such as a text that is shortened, which is not a pattern
    raise _not_data(number, call, f"no name or pattern selects its place {list(path)}")


def _pattern(program: Program, names: Mapping[Path, Sequence[str]], path: Path, depth: int) -> str:
    """Return a pattern of the loops and lets at a place, which are nested to a depth; the rest is arbitrary."""
    term = cursor_at(program, path).term
    if depth and isinstance(term, Let):
        return f"let {names[path][0]} := _ in {_pattern(program, names, (*path, 1), depth - 1)}"
    head = _HEAD.match(text_at(program, path)) if depth and isinstance(term, Gen | Reduce) else None
    return "_" if head is None else f"{head[1]}] {_pattern(program, names, (*path, 0), depth - 1)}"


def _not_data(number: int, call: Call, why: str) -> InvalidArgument:
    return InvalidArgument(
        f"call {number}, {call.text}, cannot be stored in a schedule: {why}",
        required="methods of sessions with numbers, strings and lists of them, and places with names or patterns",
        suggestions=("s.script() writes any call as Python",),
    )


# -- files ------------------------------------------------------------------------------------------------------------


def _encoded(value: Any) -> Any:
    """Return a literal as JSON; a tuple is an object, since methods distinguish it from a list."""
    if isinstance(value, tuple | list):
        held = [_encoded(each) for each in value]
        return {"tuple": held} if isinstance(value, tuple) else held
    if isinstance(value, dict):
        return {"options": {key: _encoded(each) for key, each in value.items()}}
    return value


def _checked(number: int, held: Any) -> ScheduledCall:
    """Decode a call from a file. Raises `InvalidArgument`."""
    try:
        name, arguments, options = held
        given, named = _decoded(arguments), _decoded(options)
        if isinstance(given, tuple) and isinstance(named, dict) and name in _METHODS:
            return ScheduledCall(name, given, named)
    except (ValueError, TypeError, RecursionError):
        pass  # not what `save` writes
    raise InvalidArgument(
        f"call {number} of the schedule is {brief(held)}", required="the name of a tactic, and literal arguments"
    )


def _decoded(value: Any) -> Any:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case list():
            return [_decoded(each) for each in value]
        case {"tuple": list(held), **rest} if not rest:
            return tuple(_decoded(each) for each in held)
        case {"options": dict(held), **rest} if not rest:
            return {key: _decoded(each) for key, each in held.items()}
        case _:
            raise ValueError(value)
