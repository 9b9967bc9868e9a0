"""Packing: an operand copied in the order in which loops read it, padded where their last tiles stick out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import assert_never

from atl.core.predicate import Predicate, conjunction, conjuncts, substitute
from atl.core.substitution import free_positions
from atl.core.terms import (
    Access,
    Binary,
    Cast,
    Concat,
    Constant,
    Expr,
    Gen,
    Guard,
    Input,
    Let,
    Local,
    Metavariable,
    Padding,
    Place,
    Reduce,
    Reshape,
    Select,
    TensorVar,
    Unary,
    Value,
)
from atl.core.traversal import Path
from atl.errors import ATLError, WrongArgument, brief
from atl.text.printing import place_of
from rewrites.derivation import Derivation
from rewrites.errors import NoSite
from rewrites.obstacles import none_is_new, obstacles
from rewrites.places.choosing import Chosen, chosen, nothing_chosen
from rewrites.places.site import Site
from rewrites.tactics.binding import binders_between, check_name, check_nth, nth_of
from rewrites.tactics.loops import first_possible, loops
from rewrites.tactics.nests.guards import used_positions
from rewrites.tactics.staging import below_lets, loops_between, raised, stage_at


def pack(
    work: Derivation,
    what: Chosen,
    *,
    at: Chosen | None = None,
    name: str | None = None,
    order: Sequence[Chosen] | None = None,
    nth: int | None = None,
) -> None:
    """Copies what is read of an operand in the order of the loops that read it: within the loop `at`, or before all.

    ⊞jo ⊞i Σ[p < k] ⊞[ji < 8] [8*jo + ji < m] · a(i, p) * B[p, 8*jo + ji]  →
    let Bp := ⊞jo ⊞[p < k] ⊞[ji < 8] [8*jo + ji < m] · B[p, 8*jo + ji] in ⊞jo ⊞i Σp ⊞[ji < 8] a(i, p) * Bp[jo, p, ji]

    The operand is an input or a let, or a pattern of what is read; of several reads it is the first one that computes
    something, or the one with the number `nth`. `order` names the loops in another order, from the outside in.

    Conditions of the guards between that speak of loops of the operand only become padding of the blocks. They go from
    the product where the goal compiles without them: where other operands are read safely, and no truncation cuts it.

    >>> s = reschedule(atl.parse(
    ...     "f (A : float32[n, m], x : float32[m]) : float32[n] "
    ...     ":= ⊞[i < n] Σ[j < m] A[i, j] * x[j]")).tile("i", 8).interchange("ii")
    >>> s.pack("A")
    f (A : float32[n, m], x : float32[m]) : float32[n] :=
      let Ap := ⊞[io < ⌈n / 8⌉] ⊞[j < m] ⊞[ii < 8] [8*io + ii < n] · A[8*io + ii, j] in
      truncr (8*⌈n / 8⌉ - n) flatten ⊞[io < ⌈n / 8⌉] Σ[j < m] ⊞[ii < 8] [8*io + ii < n] ·
        Ap[io, j, ii] * x[j]
    -- Ap holds ⌈n / 8⌉ x m x 8 elements: it grows with m and n
    """
    check_name(name)
    check_nth(nth)
    if order is not None and not isinstance(order, list | tuple):
        raise WrongArgument(f"order={brief(order)}", required='a list of loops: order=["ko", "ii"]')
    if at is None:
        _pack_below(work, what, (), name, order, nth)
    else:
        first_possible(work, at, lambda site: _pack_below(work, what, (*site.path, 0), name, order, nth))


def _pack_below(
    work: Derivation, what: Chosen, above: Path, name: str | None, order: Sequence[Chosen] | None, nth: int | None
) -> None:
    reads = nth_of(_reads(work, what, above), nth, what)

    def packed(read: Site) -> None:
        place = below_lets(work, read.path, above)
        positions = None if order is None else _positions(work, read.path, place, order)

        def staged(at: Path) -> None:
            use = stage_at(work, at, place, name or f"{_called(read)}p", order=positions)
            work.sweep(["guard_guard"], (*use[: len(place)], 0))

        _padded(work, read.path, place, staged)

    work.first_of(reads, packed)


# -- what is read -----------------------------------------------------------------------------------------------------


def _reads(work: Derivation, what: Chosen, below: Path) -> list[Site]:
    """The elements of the operand that are read below a place, but those that are copied to a buffer already."""
    meant = list(chosen(work.goal, what, top_down=True))
    if not meant:
        raise nothing_chosen(work.goal, what, operand=True)
    operands = [use for site in meant for use in (_uses(work, site) if isinstance(site.term, Let) else (site,))]
    elements = [_element(site) for site in operands]
    inside = [site for site in elements if site.path[: len(below)] == below]
    scalars = [site for site in inside if not site.term.type.rank and not _copied(site)]
    if not scalars:
        raise NoSite(
            f"{what} is not read there, one element at a time" + (", but for copying it" if inside else ""),
            place=place_of(work.goal, (inside or elements or meant)[0].path),
            required="an input, a let, or a pattern of an element of one, read inside of loops",
        )
    return scalars


def _uses(work: Derivation, let: Site) -> Iterator[Site]:
    """Where the tensor of a let is used."""
    body = (*let.path, 1)
    for site in work.sites(body, top_down=True):
        if isinstance(site.term, Local):
            _, tensors = binders_between(work.term(body), site.path[len(body) :])
            if site.term.position == tensors:
                yield site


def _element(site: Site) -> Site:
    """The access by which an element of a tensor is read, or what of it is read."""
    while site.above is not None and isinstance(site.above.term, Access) and site.path[-1] == 0:
        site = site.above
    return site


def _copied(site: Site) -> bool:
    """Whether a value is all that an element of a let is."""
    while site.above is not None and isinstance(site.above.term, Gen | Guard):
        site = site.above
    return site.above is not None and isinstance(site.above.term, Let) and site.path[-1] == 0


def _called(read: Site) -> str:
    """The name of the operand."""
    term = read.term
    while isinstance(term, Access):
        term = term.tensor
    match term:
        case Input(array):
            return array.name
        case Local(position):
            return read.names.of_tensor(position)
        case _:
            return "operand"


def _positions(work: Derivation, read: Path, above: Path, order: Sequence[Chosen]) -> list[int]:
    """The de Bruijn positions of the loops of the operand, in the order that is wanted."""
    used = free_positions(work.term(read))[0]
    around = [site for site in work.site(read).spine()[:-1] if isinstance(site.term, Gen | Reduce)][::-1]
    between = [position for position, _, _ in loops_between(work, read, above) if position in used]
    found: list[int] = []
    for each in order:
        paths = {site.path for site in loops(work, each)}
        found += [position for position in between if around[position].path in paths][:1]
    if len(found) != len(order) or sorted(found) != sorted(between):
        names = ", ".join(around[position].called[0] for position in reversed(between))
        raise NoSite(
            f"order={brief(list(order))} does not name each loop of the operand once",
            place=place_of(work.goal, read),
            required=f"the loops {names}, in some order" if names else "no order: the operand depends on no loop there",
        )
    return found


# -- padding ----------------------------------------------------------------------------------------------------------


def _padded(work: Derivation, read: Path, above: Path, staged: Callable[[Path], None]) -> None:
    """[p ∧ q] · a * b → [p] · a * ([q] · b), where q speaks of loops of b only; then [q] · b is staged.

    Conditions stay around the product, too, where it would not compile without them.
    """
    before, in_the_way = work.point, obstacles(work.goal)

    def without(gone: Collection[Predicate]) -> bool:
        work.back_to(before)
        try:
            staged(_Inwards(work, read, above, gone).moved())
        except ATLError:
            return False
        return none_is_new(in_the_way, obstacles(work.goal))

    candidates = _Inwards(work, read, above, ()).own()
    if without(candidates):
        return
    gone: list[Predicate] = []
    for candidate in candidates:
        if without([*gone, candidate]):
            gone.append(candidate)
    if not gone or not without(gone):
        # The guards stay as they are: `stage_at` pads the buffer with what of them matters.
        work.back_to(before)
        staged(read)


class _Inwards:
    """Conditions on their way from the guards around a product to the operand; `gone` are to leave those guards.

    Conditions are told apart by how they are written where the operand stands.
    """

    def __init__(self, work: Derivation, read: Path, above: Path, gone: Collection[Predicate]) -> None:
        self.work = work
        self.read = read
        self.above = above
        self.gone = gone
        self.between = {position for position, _, _ in loops_between(work, read, above)}
        self.inside = free_positions(work.term(read))[0]
        self.below = [binders_between(work.term(read[:length]), read[length:])[0] for length in range(len(read) + 1)]

    def own(self) -> list[Predicate]:
        """The conditions around the product that speak of loops of the operand only."""
        found: list[Predicate] = []
        for length in range(len(self._top()), len(self.read)):
            term = self.work.term(self.read[:length])
            if isinstance(term, Guard):
                found += [
                    at for part in conjuncts(term.predicate) if self._is_own(at := self._at_operand(part, length))
                ]
        return list(dict.fromkeys(found))

    def moved(self) -> Path:
        """Moves them. The place of the guard in which they then stand, or of the operand if there are none."""
        at, rest, carried = self._top(), self.read[len(self._top()) :], False
        while rest:
            around = (*at, 0) if carried else at
            term = self.work.term(around)
            if isinstance(term, Guard):
                at, carried = self._divided(at, len(self.read) - len(rest), carried=carried)
            else:
                at = self._through(at, term, rest[0]) if carried else (*at, rest[0])
            rest = rest[1:]
        return at

    def _top(self) -> Path:
        """The highest place from which conditions may move to the operand."""
        path = self.read
        while len(path) > len(self.above) and _lets_through(self.work.term(path[:-1]), path[-1]):
            path = path[:-1]
        return path

    def _at_operand(self, part: Predicate, length: int) -> Predicate:
        """A condition of the guard at this length of the operand's path, as it is written at the operand."""
        return substitute(part, partial(raised, self.below[length]))

    def _is_own(self, part: Predicate) -> bool:
        used = used_positions(part) & self.between
        return bool(used) and used <= self.inside

    def _divided(self, at: Path, length: int, *, carried: bool) -> tuple[Path, bool]:
        """[p ∧ q] · e → [p] · [q] · e; what was carried to this guard goes on. Where the inner one stands, if any."""
        brought: tuple[Predicate, ...] = ()
        if carried:
            outer = self.work.term(at)
            assert isinstance(outer, Guard)
            brought = conjuncts(outer.predicate)
            self.work.rewrite("guard_guard", at)
        guard = self.work.term(at)
        assert isinstance(guard, Guard)
        parts = [part for part in conjuncts(guard.predicate) if part not in brought]
        stay = [part for part in parts if self._at_operand(part, length) not in self.gone]
        go = [*brought, *(part for part in parts if self._is_own(self._at_operand(part, length)))]
        if not go:
            return (*at, 0), False
        together = conjunction((*stay, *go))
        if together != guard.predicate:
            self.work.rewrite("guard_equivalent", at, q=together)
        if not stay:
            return at, True
        self.work.rewrite("guard_guard", at, reverse=True, p=conjunction(stay), q=conjunction(go))
        return (*at, 0), True

    def _through(self, at: Path, term: Expr, side: int) -> Path:
        """Moves the guard at a place into what stands there, towards one side. Where it stands then."""
        way = _way_in(term, side)
        assert way is not None
        self.work.rewrite(way.rule, at, reverse=way.reverse)
        return (*at, side)


def _lets_through(around: Expr, side: int) -> bool:
    """Whether a guard around a term may stand around this part of it instead, or joins it there."""
    return isinstance(around, Guard) or _way_in(around, side) is not None


@dataclass(frozen=True, slots=True)
class _Way:
    """The rule by which a guard goes from around a term to around a part of it."""

    rule: str
    reverse: bool = False


def _way_in(around: Expr, side: int) -> _Way | None:
    """How a guard around a term comes to stand around this part of it instead, if it may."""
    match around:
        case Gen():
            return _Way("guard_gen")
        case Reduce("sum"):
            return _Way("sum_guard")
        case Let() if side == 1:
            return _Way("ll_guard")
        case Binary("mul"):
            return _Way("guard_mul_left" if side == 0 else "guard_mul_right", reverse=True)
        case Binary("div") if side == 0:
            return _Way("guard_div_left", reverse=True)
        case Unary("neg"):
            return _Way("guard_neg")
        case Reduce() | Let() | Binary() | Unary() | Guard():
            return None
        case Access() | Cast() | Concat() | Place() | Reshape() | Select():
            return None
        case Constant() | Input() | Local() | Metavariable() | Padding() | TensorVar() | Value():
            return None
        case _:
            assert_never(around)
