"""Places in a term from which one goes up, down and aside, and where another term may be put: Huet's zipper.

What is put somewhere is built into the terms above as one goes up, and only so far: a change and a step to a place
nearby cost the same in a large program as in a small one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from atl.checks.scope import Scope, scope_of_child
from atl.checks.wellformed import inspects_subterms
from atl.core.node import MAX_DEPTH, MAX_SIZE
from atl.core.substitution import with_child
from atl.core.terms import Expr
from atl.core.traversal import Path, children


@dataclass(frozen=True, slots=True, eq=False)
class Zipper:
    """A place in a term, and the term that stands there. To go elsewhere, or to put another term there, is another one.

    The place `above` holds the term around as it was when one came down from there: of its parts all but this one are
    as they are now. `indices` and `tensors` are how many are bound around the place; `size` is that of the whole term.
    `is_inspected` is whether the obligations of some term above depend on more than the types of its parts. What is
    known here is worked out when it is asked for.
    """

    term: Expr
    above: Zipper | None
    path: Path
    size: int
    indices: int = 0
    tensors: int = 0
    is_inspected: bool = False
    known: Scope | None = None

    @property
    def scope(self) -> Scope:
        """What is known here. It depends on the fields of the terms above, and on none of their parts."""
        waiting: list[tuple[Zipper, Zipper]] = []
        at = self
        while at.known is None:
            assert at.above is not None
            waiting.append((at.above, at))
            at = at.above
        scope = at.known
        for above, at in reversed(waiting):
            scope = scope_of_child(above.term, at.path[-1], scope)
            object.__setattr__(at, "known", scope)
        return scope

    @property
    def whole(self) -> Expr:
        """The whole term, for a place whose places above hold the terms as they are now (`up_to_date`)."""
        at = self
        while at.above is not None:
            at = at.above
        return at.term

    @property
    def up_to_date(self) -> Zipper:
        """This place, with places above that hold the terms as they are now: what changed here is built into them."""
        changed = [self]
        while (above := changed[-1].above) is not None:
            changed.append(changed[-1].up(above))
        at = changed.pop()
        for below in reversed(changed):
            at = below if below.above is at else below.with_parent(at)
        return at

    def with_parent(self, above: Zipper) -> Zipper:
        """This place with the place above as it is now."""
        return Zipper(
            self.term, above, self.path, above.size, self.indices, self.tensors, self.is_inspected, self.known
        )

    def up(self, above: Zipper) -> Zipper:
        """The place above, with the term that stands here now as a part of the one there."""
        made = with_child(above.term, self.path[-1], self.term)
        return above if made is above.term else above.with_term(made)

    def down(self, position: int) -> Zipper:
        """The place of a direct part."""
        child = children(self.term)[position]
        return Zipper(
            child.expr,
            self,
            (*self.path, position),
            self.size,
            self.indices + child.indices,
            self.tensors + child.tensors,
            self.is_inspected or inspects_subterms(self.term),
        )

    def to(self, path: Path) -> Zipper | None:
        """The place at the end of a path from the whole term; None if there is none."""
        common = 0
        for mine, other in zip(self.path, path, strict=False):
            if mine != other:
                break
            common += 1
        at = self
        while len(at.path) > common and at.above is not None:
            at = at.up(at.above)
        for position in path[common:]:
            if position >= len(children(at.term)):
                return None
            at = at.down(position)
        return at

    def with_term(self, term: Expr) -> Zipper:
        """This place with another term there."""
        size = self.size - self.term.size + term.size
        return Zipper(term, self.above, self.path, size, self.indices, self.tensors, self.is_inspected, self.known)

    @property
    def fits(self) -> bool:
        """Whether the whole term is within its limits, as far as it depends on the term here."""
        return len(self.path) + self.term.depth <= MAX_DEPTH and self.size <= MAX_SIZE

    def around(self, tensors: int) -> Sequence[tuple[Expr, int]]:
        """The terms above from the outside in, each with the position that leads here: those that bind so many
        tensors, if there are so many.
        """
        found: list[tuple[Expr, int]] = []
        at = self
        while at.above is not None and self.tensors - at.tensors < tensors:
            found.append((at.above.term, at.path[-1]))
            at = at.above
        return found[::-1]


def whole(term: Expr, scope: Scope) -> Zipper:
    """The place of a whole term, where this is known."""
    return Zipper(term, None, (), term.size, known=scope)
