"""Ground terms of a search: each term in its context has a number, a head, and the numbers of its parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from atl.core.forms import Role, slots_of
from atl.core.terms import Expr
from atl.core.traversal import children, static
from rewrites.egraph.contexts import Context, Contexts

Kind: TypeAlias = tuple[type, object]
"""The type of a node and its string attributes: the part of a node that a pattern determines."""

_NOT_IN_A_LABEL: Final = frozenset((Role.PART, Role.PARTS, Role.HINT, Role.MARK))


@dataclass(frozen=True, slots=True)
class Head:
    """The label of an e-node: its context and a sample term, whose parts are irrelevant."""

    context: Context
    sample: Expr


class Terms:
    """The ground terms of a search. Terms that differ only in their parts share a head."""

    def __init__(self, contexts: Contexts) -> None:
        self.contexts = contexts
        self.kinds: dict[Kind, int] = {}
        self.heads: list[Head] = []
        self.term: list[Expr] = []
        self.kind: list[int] = []
        self.head: list[int] = []
        self.parts: list[tuple[int, ...]] = []
        self._numbers: dict[tuple[int, Expr], int] = {}
        self._head_numbers: dict[object, int] = {}

    def __len__(self) -> int:
        return len(self.term)

    def kind_of(self, term: Expr) -> int:
        """Return the number of a term's kind."""
        return self.kinds.setdefault((type(term), static(term)), len(self.kinds))

    def add(self, context: Context, term: Expr) -> int:
        """Return the number of a term in a context, adding its parts first."""
        key = (self._context_key(context), term)
        found = self._numbers.get(key)
        if found is not None:
            return found
        below = self.contexts.below(context, term)
        parts = tuple(self.add(at, child.expr) for at, child in zip(below, children(term), strict=True))
        number = self._numbers[key] = len(self.term)
        self.term.append(term)
        self.kind.append(self.kind_of(term))
        self.head.append(self._head(context, term))
        self.parts.append(parts)
        return number

    def _context_key(self, context: Context) -> int:
        """Return a key that separates places where equal terms may be equal to different ones."""
        return context.number

    def _head(self, context: Context, term: Expr) -> int:
        key = (self._context_key(context), *label(term))
        found = self._head_numbers.get(key)
        if found is None:
            found = self._head_numbers[key] = len(self.heads)
            self.heads.append(Head(context, term))
        return found


def label(term: Expr) -> tuple[object, ...]:
    """Return the type, attributes, indices, conditions and amounts of a node, and the types of its parts."""
    said: list[object] = [type(term)]
    for slot in slots_of(type(term)):
        if slot.role not in _NOT_IN_A_LABEL:
            value = getattr(term, slot.name)
            said += (type(value), value) if slot.role is Role.LITERAL else (value,)
    said += ((child.expr.type.dtype, *child.expr.type.shape) for child in children(term))
    return tuple(said)
