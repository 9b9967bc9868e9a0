"""Zippers (Huet): places in a term with navigation and local replacement.

A replacement is propagated to the terms above only when the zipper moves up. The cost of a change and a move to a
nearby place does not depend on the size of the program.
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
    """An immutable place in a term, with the subterm at this place.

    `above` is the zipper of the enclosing term, which may contain an outdated version of this subterm. `indices` and
    `tensors` are the numbers of enclosing binders; `size` is the size of the whole term. `is_inspected` is true if the
    obligations of some enclosing term depend on more than the types of its parts. `known` caches the scope.
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
        """The scope of this place, which depends only on the fields of the terms above, not on their parts."""
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
        """The whole term. The enclosing zippers must be up to date (`up_to_date`)."""
        at = self
        while at.above is not None:
            at = at.above
        return at.term

    @property
    def up_to_date(self) -> Zipper:
        """This place, with replacements propagated to all enclosing terms."""
        changed = [self]
        while (above := changed[-1].above) is not None:
            changed.append(changed[-1].up(above))
        at = changed.pop()
        for below in reversed(changed):
            at = below if below.above is at else below.with_parent(at)
        return at

    def with_parent(self, above: Zipper) -> Zipper:
        """Return this place below another enclosing zipper."""
        return Zipper(
            self.term, above, self.path, above.size, self.indices, self.tensors, self.is_inspected, self.known
        )

    def up(self, above: Zipper) -> Zipper:
        """Return the enclosing place, with the current subterm built into its term."""
        made = with_child(above.term, self.path[-1], self.term)
        return above if made is above.term else above.with_term(made)

    def down(self, position: int) -> Zipper:
        """Return the place of a direct part."""
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
        """Return the place at the end of a path from the whole term; None if it does not exist."""
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
        """Return this place with another subterm."""
        size = self.size - self.term.size + term.size
        return Zipper(term, self.above, self.path, size, self.indices, self.tensors, self.is_inspected, self.known)

    @property
    def fits(self) -> bool:
        """True if the depth and the size at this place are within the limits of terms."""
        return len(self.path) + self.term.depth <= MAX_DEPTH and self.size <= MAX_SIZE

    def around(self, tensors: int) -> Sequence[tuple[Expr, int]]:
        """Return the innermost enclosing terms that bind `tensors` tensors, from the outside in.

        Each term comes with the position of the part that contains this place. The list contains all enclosing terms
        if they bind fewer tensors.
        """
        found: list[tuple[Expr, int]] = []
        at = self
        while at.above is not None and self.tensors - at.tensors < tensors:
            found.append((at.above.term, at.path[-1]))
            at = at.above
        return found[::-1]


def whole(term: Expr, scope: Scope) -> Zipper:
    """Return the zipper of a whole term with this scope."""
    return Zipper(term, None, (), term.size, known=scope)
