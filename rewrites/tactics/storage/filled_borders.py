"""Borders with other values than zero: copying the elements that an operand is read as, beyond its ends too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from atl.core.index import ZERO, Bound, Extremum, Index, Leaf, atoms, bound, factor_of, index, shift
from atl.core.substitution import free_positions, shift_term, transform
from atl.core.terms import Access, Expr, Gen, Select
from atl.core.traversal import Path
from rewrites.cursors.cursor import Cursor
from rewrites.derivation import Derivation
from rewrites.rule_arguments import Argument, Function
from rewrites.tactics.regions import Extent, Use, hull_of, note_growth
from rewrites.tactics.storage.binding import bind, binders_between
from rewrites.tactics.storage.staging import loops_between

_DIMENSIONS = "ijkl"


@dataclass(frozen=True, slots=True)
class _BorderedRead:
    """An element of an operand with what it is replaced by beyond the ends, as a function of positions.

    `positions` are the indices along the dimensions that vary between the buffer and the read, before they are clamped.
    `variables` are the indices of loops that are solved for them: each position is a variable plus `rest`, or the
    negated variable plus `rest`.
    """

    path: Path
    positions: tuple[Index, ...]
    variables: tuple[tuple[Bound, int], ...]

    def at(self, term: Expr, extents: Sequence[Extent], first: int) -> Expr:
        """Return the element with a generation's index for each position from number `first` on.

        It is the body of the first of these generations, and contains the others. The extents are those at the read.
        """
        rank = len(self.positions)
        binders = rank - first
        solved: dict[int, Index] = {}
        for number in range(first, rank):
            variable, sign = self.variables[number]
            rest = self.positions[number] - index(variable) * sign
            position = shift(extents[number].base, binders) + bound(rank - 1 - number)
            solved[variable.position] = (position - shift(rest, binders)) * sign

        def leaf(at: Leaf, depth: int) -> Index:
            if isinstance(at, Bound) and at.position >= depth:
                found = solved.get(at.position - depth - binders)
                if found is not None:
                    return shift(found, depth)
            return index(at)

        made = transform(shift_term(term, binders), leaf)
        for number in range(rank - 1, first, -1):
            made = Gen(ZERO, shift(extents[number].count, number - first), made, _DIMENSIONS[number % len(_DIMENSIONS)])
        return made


def fill_borders(work: Derivation, reads: Sequence[Cursor], above: Path, name: str) -> bool:
    """Copy at `above` the elements as the operand is read: clamped indices, or selections of a value beyond its ends.

    ⊞[i < n] max[r < 3] x[min(i + r, n - 1)]  →
    let xp := ⊞[i < n + 2] x[min(i, n - 1)] in ⊞[i < n] max[r < 3] xp[i + r]

    Returns whether all reads are the same function of positions, such as the clamped element in the example.
    """
    found = [_bordered(work, read, above) for read in reads]
    bordered = [read for read in found if read is not None]
    if not bordered or len(bordered) < len(found):
        return False
    terms = [work.term(read.path) for read in bordered]
    uses = [Use(read.path, read.positions) for read in bordered]
    rank = len(bordered[0].positions)
    if any(len(read.positions) != rank for read in bordered):
        return False
    extents = [hull_of(work, above, uses, dimension) for dimension in range(rank)]
    elements = set[Expr]()
    for read, term in zip(bordered, terms, strict=True):
        by, _ = binders_between(work.term(above), read.path[len(above) :])
        here = [Extent(shift(extent.base, by), shift(extent.count, by)) for extent in extents]
        element = read.at(term, here, 0)
        if free_positions(element)[0] & set(range(1, by + 1)):
            return False
        elements.add(shift_term(Gen(ZERO, here[0].count, element), -by))
        _read_from_generations(work, read, term, here)
    if len(elements) > 1:
        return False
    bind(work, above, (*bordered[0].path[len(above) :], *(0,) * rank), name)
    note_growth(work, above)
    return True


def _bordered(work: Derivation, read: Cursor, above: Path) -> _BorderedRead | None:
    """Return a read with the selections around it; None if it is not solved for its positions, or has no border."""
    inner = {position for position, _, _ in loops_between(work, read.path, above)}
    path, selected = read.path, False
    while len(path) > len(above) and isinstance(around := work.term(path[:-1]), Select):
        other = around.right if path[-1] == 0 else around.left
        if free_positions(other)[0] & inner:
            break
        path, selected = path[:-1], True
    indices: list[Index] = []
    term = read.term
    while isinstance(term, Access):
        indices.append(term.index)
        term = term.tensor
    varying = [at for at in reversed(indices) if _used(at) & inner]
    positions = [_without_clamps(at, inner) for at in varying]
    if not positions or not (selected or positions != varying):
        return None
    variables = list[tuple[Bound, int]]()
    for number, position in enumerate(positions):
        others = {used for other, each in enumerate(positions) if other != number for used in _used(each)}
        solved = _solved(position, inner - others)
        if solved is None:
            return None
        variables.append(solved)
    return _BorderedRead(path, tuple(positions), tuple(variables))


def _used(position: Index) -> set[int]:
    return {atom.position for atom in atoms(position) if isinstance(atom, Bound)}


def _without_clamps(position: Index, inner: set[int]) -> Index:
    """Return an index without its minima and maxima of a varying and a fixed index: min(i + r, n - 1) → i + r."""
    for monomial, coefficient in position.terms:
        (atom, *others) = monomial or (None,)
        if isinstance(atom, Extremum) and not others:
            varying = [choice for choice in atom.choices if _used(choice) & inner]
            if len(varying) == 1:
                return _without_clamps(position + (varying[0] - index(atom)) * coefficient, inner)
    return position


def _solved(position: Index, candidates: set[int]) -> tuple[Bound, int] | None:
    """Return an index that occurs in a position with the factor 1 or -1, and that factor."""
    for candidate in sorted(candidates & _used(position)):
        factor = factor_of(position, Bound(candidate))
        if factor is not None and factor.constant in (1, -1):
            return Bound(candidate), factor.constant
    return None


def _read_from_generations(work: Derivation, read: _BorderedRead, term: Expr, extents: Sequence[Extent]) -> None:
    """Read an element through generations: e(a, b) → (⊞[i < n] ⊞[j < m] e(p + i, q + j))[a - p, b - q]."""
    rank = len(extents)
    for number in range(rank - 1, -1, -1):
        path = (*read.path, *(0,) * (rank - 1 - number))
        arguments: dict[str, Argument] = {
            "lo": ZERO,
            "hi": extents[number].count,
            "e": Function(("index",), read.at(term, extents, number)),
            "k": read.positions[number] - extents[number].base,
        }
        work.apply(work.rule("get_gen"), path, arguments, reverse=True)
        work.rename((*path, 0), _DIMENSIONS[number % len(_DIMENSIONS)])
