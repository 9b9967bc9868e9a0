"""Losses of access safety and padding by rules, tested at small sizes: equal terms may differ in both.

A rule keeps access safety in a direction if the new side reads only what the old side reads. It must not use a function
at a new index, nor read a tensor out of range where the old side stays in range. It keeps padding if all padding of the
old side is padding of the new one, and the new side has no unsafe truncation where the old side has none.

A kernel computes the whole of a let-bound or truncated tensor, so all its elements count as read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from atl import guard
from atl.core.terms import Access, Expr, Let, Reshape, TruncateLeft, TruncateRight
from atl.meaning.interpret import PAD, Elements, Environment, Positions, _Interpreter
from atl.meaning.scalars import Scalars
from atl.surface.values import Tensor
from rewrites.metavariables import Kind
from rewrites.rule import Rule
from rewrites.rule_arguments import Argument, Function, abstracted, applied
from rewrites.rule_checking.exhaustion import domains_of, instance, is_low
from rewrites.rule_checking.generic_arguments import Generic
from rewrites.rule_checking.small_choices import choices
from rewrites.rule_statement import RuleStatement


@dataclass(frozen=True, slots=True)
class Labels:
    """Properties that a rule keeps from left to right and from right to left."""

    safety: bool = True
    safety_back: bool = True
    padding: bool = True
    padding_back: bool = True

    def __str__(self) -> str:
        return f"safety {_both(self.safety, self.safety_back)}  padding {_both(self.padding, self.padding_back)}"


def _both(there: bool, back: bool) -> str:
    match there, back:
        case True, True:
            return "kept  "
        case True, False:
            return "lost ←"
        case False, True:
            return "lost →"
        case _:
            return "lost ↔"


@dataclass(frozen=True, slots=True)
class Observed:
    """Reads of a side, out-of-range reads, unsafe truncations and padding."""

    reads: frozenset[tuple[str, Positions]]
    outside: bool
    cut: bool
    padding: frozenset[Positions]


class Recording(_Interpreter[Any]):
    """Interpreter that records reads, and computes let-bound tensors as a whole."""

    def __init__(self, arrays: Any, scalars: Scalars[Any]) -> None:
        super().__init__(arrays, scalars)
        self.outside = self.cut = False

    def _access(self, term: Access) -> Any:
        inner, n, position = super()._access(term), self.index(term.tensor.type.shape[0]), self.index(term.index)

        def element(env: Environment, at: Positions) -> Any:
            self.outside |= not 0 <= position(env) < n(env)
            return inner(env, at)

        return element

    def _meaning(self, term: Expr) -> Any:
        match term:
            case Let():
                return self._let(term)
            case Reshape(op=TruncateLeft() | TruncateRight() as op):
                return self._truncated(term, op)
            case _:
                return super()._meaning(term)

    def _truncated(self, term: Reshape, op: TruncateLeft | TruncateRight) -> Any:
        tensor, inner, by = self.shared(term.operand), super()._meaning(term), self.index(op.by)
        extents = [self.index(extent) for extent in term.operand.type.shape]

        def element(env: Environment, at: Positions) -> Any:
            whole: Elements[Any] = tensor(env)
            first, *rest = (max(0, extent(env)) for extent in extents)
            left = isinstance(op, TruncateLeft)
            for positions in np.ndindex(first, *rest):
                gone = positions[0] < by(env) if left else positions[0] >= first - by(env)
                self.cut |= whole.at(positions) is not PAD and gone
            return inner(env, at)

        return element

    def _let(self, term: Let) -> Any:
        tensor, inner = self.shared(term.value), self.meaning(term.body)
        extents = [self.index(extent) for extent in term.value.type.shape]

        def element(env: Environment, at: Positions) -> Any:
            bound: Elements[Any] = tensor(env)
            for positions in np.ndindex(*(max(0, extent(env)) for extent in extents)):
                bound.at(positions)
            return inner(env.with_tensor(bound), at)

        return element


class _RecordingArray:
    """Input array that records the first `kept` indices of each read."""

    def __init__(self, name: str, held: Any, kept: int, reads: set[tuple[str, Positions]]) -> None:
        self._name, self._held, self._kept, self._reads = name, held, kept, reads
        self.shape = held.shape

    def __getitem__(self, at: Positions) -> Any:
        self._reads.add((self._name, at[: self._kept]))
        return self._held[at]


def observed(term: Expr, generic: Generic, rule: Rule) -> Observed:
    """Evaluate all elements of a side and record its reads and padding."""
    reads: set[tuple[str, Positions]] = set()
    arrays = {
        name: _RecordingArray(name, held, _indices_of(rule, name), reads) for name, held in generic.arrays.items()
    }
    interpreter = Recording(arrays, next(domains_of(generic.stated)))
    outermost = Environment({}, (), ())
    shape = tuple(interpreter.index(extent)(outermost) for extent in term.type.shape)
    meaning = interpreter.meaning(term)
    padding = {at for at in np.ndindex(*shape) if meaning(outermost, at) is PAD}
    return Observed(frozenset(reads), interpreter.outside, interpreter.cut, frozenset(padding))


def _indices_of(rule: Rule, name: str) -> int:
    kind = rule.metavariables.get(name)
    return 0 if kind is None else sum(parameter.sort == "index" for parameter in kind.parameters)


class Padded(Generic):
    """Generic arguments in which every other element is padding."""

    def argument(self, name: str, kind: Kind) -> Argument:
        made = super().argument(name, kind)
        if kind.sort != "tensor":
            return made
        even = self.choice[f"{name}?"] == 0
        if not isinstance(made, Function):
            return guard(even, Tensor(made)).node  # type: ignore[arg-type]
        call: Callable[..., Any] = applied(made)

        def value(*given: Any) -> Tensor:
            indices = [one for one, parameter in zip(given, kind.parameters, strict=True) if parameter.sort == "index"]
            if not indices:
                return guard(even, call(*given))
            return guard((sum(indices[1:], indices[0]) + self.choice[f"{name}?"]) % 2 == 0, call(*given))

        return abstracted(made.parameters, value)


def labels(rule: Rule, cases: int = 60) -> Labels:
    """Return the properties that the rule keeps in a number of choices."""
    kept = [True] * 4
    for old, new in _sides(rule, cases):
        kept[0] &= new.reads <= old.reads and (old.outside or not new.outside)
        kept[1] &= old.reads <= new.reads and (new.outside or not old.outside)
        kept[2] &= old.padding <= new.padding and (old.cut or not new.cut)
        kept[3] &= new.padding <= old.padding and (new.cut or not old.cut)
    return Labels(*kept)


def _sides(rule: Rule, cases: int) -> Iterator[tuple[Observed, Observed]]:
    tensors = [name for name, kind in rule.metavariables.items() if kind.sort == "tensor"]
    for stated in filter(is_low, rule.statements.values()):
        yield from islice(_sides_of(stated, tensors, rule, cases), 2 * cases)


def _sides_of(
    stated: RuleStatement, tensors: Sequence[str], rule: Rule, cases: int
) -> Iterator[tuple[Observed, Observed]]:
    """Yield two observations of each choice that satisfies the premises, which one in eight may do."""
    for choice in choices(stated, 8 * cases, extra={f"{name}?": range(2) for name in tensors}):
        for make in (Generic, Padded):
            generic = make(stated, choice)
            made = instance(stated, generic)
            if made is not None:
                yield observed(made.lhs, generic, rule), observed(made.rhs, generic, rule)
