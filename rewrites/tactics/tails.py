"""Loops without tests: guards become bounds of loops, and loops are cut where a condition begins or ceases to hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias, get_args

from atl.core.index import ONE, Index, Var, atoms, bound, ceildiv, floordiv, imax, imin, index, shift
from atl.core.predicate import (
    All,
    Any,
    NonNegative,
    NonZero,
    Predicate,
    Zero,
    at_most,
    conjunction,
    conjuncts,
    expressions,
    less,
)
from atl.core.terms import OPERATOR_CALLED, Binary, Gen, Guard, Let, Reduce, Reshape, Select, Unary
from atl.core.traversal import Path
from atl.errors import ATLError, WrongArgument
from atl.prove import Facts, Proved, lower_bound, prove, simplify
from rewrites.derivation import Derivation
from rewrites.errors import NoSite
from rewrites.places.choosing import Chosen
from rewrites.places.site import Site, positions, walk
from rewrites.tactics.indices import closed
from rewrites.tactics.loops import loops, pieces
from rewrites.tactics.padding import apart, depends
from rewrites.tactics.simplification import linear_in, simplify_guards

Strategy: TypeAlias = Literal["min", "split"]
_WORD_OF: Final = {op: word for word, op in OPERATOR_CALLED.items()}
_KEEP_ZERO: Final = ("neg", "abs", "sqrt", "tanh")


def tails(work: Derivation, name: Chosen | None = None, *, strategy: Strategy | None = None) -> None:
    """Takes the tests out of a nest of loops, or of the whole goal: guards become bounds, by "min" or by "split".

    ⊞[io < ⌈n/k⌉] ⊞[ii < k] [io*k + ii < n] · e  →  ⊞[io < ⌈n/k⌉] padr (k - m) ⊞[ii < m] e, where m is min(k, n - io*k)

    Guards leave the loops on whose indices they do not depend. One that is all of a loop's body bounds the loop; a loop
    is cut where a condition within it, say of one addend, begins or ceases to hold. By "split", loops over tiles are
    first cut into full tiles and the last one: ⊞[io < n//k] ⊞[ii < k] e, without a bound to compute, and a tail.
    """
    chosen = "min" if strategy is None else strategy
    if chosen not in get_args(Strategy):
        raise WrongArgument(
            f"strategy={strategy!r}",
            required='"min", which bounds the loops of each tile, or "split", which cuts off the last tile',
        )
    before = work.taken
    below = () if name is None else loops(work, name)[0].path
    simplify_guards(work, below)
    lift_guards(work, below)
    _Tails(work, chosen).visit(below)
    if work.taken == before:
        raise NoSite(
            f"no guard {'in the goal' if name is None else f'in the loop {name}'} can become a bound of a loop",
            required="a guard within a loop, by conditions in which the loop's index is a multiple and a rest",
        )


# -- guards move outwards ---------------------------------------------------------------------------------------------


def lift_guards(work: Derivation, path: Path) -> None:
    """Moves guards outwards below a place, as far as they go: out of loops on whose indices they do not depend.

    ⊞[i < n] [p] · e → [p] · ⊞[i < n] e; a * [p] · b → [p] · a * b; transpose [p] · e → [p] · transpose e
    """
    for position in positions(work.term(path)):
        lift_guards(work, (*path, position))
    _out_of(work, path)


def _out_of(work: Derivation, path: Path) -> None:
    """Moves a guard out of the operator at a path."""
    match work.term(path):
        case Gen(body=Guard()) | Reduce("sum", body=Guard()) as loop:
            found = _conditions(work, (*path, 0))
            if apart(work, (*path, 0), [part for part in found if not depends(part)]):
                work.attempt("guard_gen" if isinstance(loop, Gen) else "sum_guard", path, reverse=True)
        case Guard(body=Guard()):
            work.rewrite("guard_guard", path)
        case Reshape(op, Guard()):
            work.attempt(f"{_WORD_OF[type(op)]}_of_guard", path)
        case Let(body=Guard()):
            work.attempt("ll_guard", path, reverse=True)
        case Unary(op, Guard()) if op in _KEEP_ZERO:
            work.attempt(f"guard_{op}", path, reverse=True)
        case Binary("mul"):
            if work.attempt("guard_mul_left", path):
                _out_of(work, (*path, 0))
                _out_of(work, path)
            else:
                work.attempt("guard_mul_right", path)
        case Binary("div", Guard()):
            work.attempt("guard_div_left", path)
        case Binary("add" | "sub" as op, Guard(), Guard()):
            common = [part for part in _conditions(work, (*path, 0)) if part in _conditions(work, (*path, 1))]
            if all(apart(work, (*path, position), common) for position in (0, 1)):
                work.attempt(f"guard_{op}", path, reverse=True)
        case _:
            pass  # a guard changes what any other operator computes


def _conditions(work: Derivation, path: Path) -> tuple[Predicate, ...]:
    term = work.term(path)
    assert isinstance(term, Guard)
    return conjuncts(term.predicate)


# -- bounds and cuts --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Limit:
    """A condition, solved for a loop's index: it holds from `at` on, or, if it `ends`, before it.

    Where it is not the loop's own, but that of loops inside, it holds there for all of their iterations.
    """

    at: Index
    ends: bool
    own: bool = True


@dataclass(frozen=True, slots=True)
class _Tails:
    """Visits the loops of a goal from the outside in. `tried` are indices at which the nearest loop has been cut."""

    work: Derivation
    strategy: Strategy
    tried: frozenset[Index] = frozenset()

    def visit(self, path: Path) -> None:
        """Bounds and cuts the loops below a place."""
        term = self.work.term(path)
        if not isinstance(term, Gen | Reduce):
            for position in positions(term):
                self.visit((*path, position))
            return
        path = bounded(self.work, path)
        for limit in self._limits(path):
            if self._cut(path, limit):
                return
        replace(self, tried=frozenset()).visit((*path, 0))

    def _cut(self, path: Path, limit: _Limit) -> bool:
        """Cuts a loop in two where a condition begins or ceases to hold, and goes on with both parts."""
        work, term = self.work, self.work.term(path)
        assert isinstance(term, Gen | Reduce)
        where = _within(work.site(path), limit.at)
        if where is None or where in self.tried:
            return False
        try:
            parts = pieces(work, path, [where])
        except ATLError:
            return False  # a fold of which one part may be empty
        for part in parts:
            work.rename(part, term.name)
            work.mark(part, term.mark)
        for position, part in enumerate(parts):
            full = limit.own or position != limit.ends
            rest = replace(self, strategy=self.strategy if full else "min", tried=self.tried | {where})
            simplify_guards(work, part)
            work.sweep(["nothing_add", "add_nothing"], part)
            lift_guards(work, part)
            rest.visit(part)
        return True

    def _limits(self, path: Path) -> list[_Limit]:
        """Where conditions within a loop begin or cease to hold: first those between which all tiles are full."""
        outer = self.work.site(path)
        found = [
            limit
            for site in walk(outer.child(0), top_down=True)
            if isinstance(site.term, Guard | Select)
            for part in _parts(site.scope.predicate(site.term.predicate))
            for limit in self._limits_of(part, outer, site)
        ]
        starts = [limit.at for limit in found if not limit.own and not limit.ends]
        ends = [limit.at for limit in found if not limit.own and limit.ends]
        full = [_Limit(imin(*ends), ends=True, own=False)] if ends else []
        full += [_Limit(imax(*starts), ends=False, own=False)] if starts else []
        return full + [limit for limit in found if limit.own]

    def _limits_of(self, part: Predicate, outer: Site, site: Site) -> Iterator[_Limit]:
        """The indices of the loop `outer` that matter for a condition at a place inside of it."""
        inner = outer.child(0)
        variable = inner.scope.indices[-1]
        between = [at for at in site.spine()[len(inner.spine()) - 1 : -1] if isinstance(at.term, Gen | Reduce)]
        ranges = [_range(at) for at in between]
        if not _mentions(part, variable):
            return
        if not any(_mentions(part, index(each)) for each, _, _ in ranges):
            if not _holds_loops(between[-1] if between else outer):
                yield from _solved(inner.scope.facts, part, variable)
        elif self.strategy == "split" and isinstance(part, NonNegative):
            worst = lower_bound(inner.scope.facts, part.expression, ranges)
            if worst is not None:
                for limit in _solved(inner.scope.facts, NonNegative(worst), variable, steep=True):
                    yield replace(limit, own=False)


def bounded(work: Derivation, path: Path) -> Path:
    """Makes of a guard that is a loop's body bounds of the loop. The path of the loop afterwards.

    ⊞[i < n] [a <= i < b] · e → padl a (padr (n - b) ⊞[a <= i < b] e); Σ[i < n] [a <= i < b] · e → Σ[a <= i < b] e
    """
    site = work.site(path)
    term, inner = site.term, site.child(0)
    if not isinstance(inner.term, Guard) or not isinstance(term, Gen | Reduce):
        return path
    if isinstance(term, Reduce) and term.monoid != "sum":
        return path
    own, rest = list[_Limit](), list[Predicate]()
    for part in conjuncts(inner.term.predicate):
        opened = inner.scope.predicate(part)
        found = list(_solved(inner.scope.facts, opened, inner.scope.indices[-1])) if not _is_equation(part) else []
        own, rest = (own + found, rest) if found else (own, [*rest, part])
    if not own:
        return path
    low, high = _new_range(site, own)
    after = [] if low == term.low and isinstance(term, Gen) else [at_most(shift(low, 1), bound(0))]
    before = [] if high == term.high and isinstance(term, Gen) else [less(bound(0), shift(high, 1))]
    if not work.attempt("guard_equivalent", inner.path, q=conjunction([*before, *after, *rest])):
        return path
    if isinstance(term, Reduce):
        apart(work, inner.path, [*before, *after])
        work.rewrite("sum_restrict", path, lo=term.low, hi=term.high, a=low, b=high)
        return path
    if before:
        apart(work, inner.path, before)
        work.rewrite("padr_of_gen", path, reverse=True, k=term.high - high, lo=term.low, hi=high)
        path = (*path, 0)
    if after:
        apart(work, (*path, 0), after)
        work.rewrite("padl_of_gen", path, reverse=True, k=low - term.low, lo=low, hi=high)
        path = (*path, 0)
    return path


def _new_range(site: Site, limits: Sequence[_Limit]) -> tuple[Index, Index]:
    """The part of a loop's range that is within some limits, written as the loop's bounds are."""
    assert isinstance(site.term, Gen | Reduce)
    facts = site.scope.facts
    first, last = site.scope.index(site.term.low), site.scope.index(site.term.high)
    low = simplify(facts, imax(first, *(limit.at for limit in limits if not limit.ends)))
    high = simplify(facts, imin(last, *(limit.at for limit in limits if limit.ends)))
    if isinstance(site.term, Gen):
        low = low if _knows(facts, at_most(low, last)) else imin(low, last)
        high = high if _knows(facts, at_most(low, high)) else imax(low, high)
    return closed(low, site.scope), closed(high, site.scope)


def _within(site: Site, at: Index) -> Index | None:
    """An index at which a loop can be cut: within its range, and not known to be at one of its ends."""
    assert isinstance(site.term, Gen | Reduce)
    facts = site.scope.facts
    low, high = site.scope.index(site.term.low), site.scope.index(site.term.high)
    if _knows(facts, at_most(at, low)) or _knows(facts, at_most(high, at)):
        return None
    at = at if _knows(facts, at_most(low, at)) else imax(low, at)
    at = at if _knows(facts, at_most(at, high)) else imin(at, high)
    return closed(simplify(facts, at), site.scope)


def _solved(facts: Facts, part: Predicate, variable: Index, *, steep: bool = False) -> Iterator[_Limit]:
    """A condition as limits of a variable; if they are to be `steep`, only where its factor is more than one."""
    for factor, remainder in linear_in(part, variable):
        if not _knows(facts, at_most(ONE, factor)) or (steep and factor == ONE):
            continue
        match part:
            case Zero() | NonZero() if factor == ONE:
                yield _Limit(-remainder, ends=False)
                yield _Limit(1 - remainder, ends=False)
                return
            case NonNegative(expression) if expression == factor * variable + remainder:
                yield _Limit(simplify(facts, ceildiv(-remainder, factor, positive=True)), ends=False)
            case NonNegative():
                # remainder stands for minus the rest: the condition is 0 <= -(factor * variable + remainder).
                yield _Limit(simplify(facts, floordiv(-remainder, factor, positive=True) + 1), ends=True)
            case _:
                pass


def _range(loop: Site) -> tuple[Var, Index, Index]:
    """The variable of a loop and its range, as they are seen inside."""
    assert isinstance(loop.term, Gen | Reduce)
    variable = loop.child(0).scope.indices[-1].atom
    assert isinstance(variable, Var)
    return variable, loop.scope.index(loop.term.low), loop.scope.index(loop.term.high)


def _parts(predicate: Predicate) -> Iterator[Predicate]:
    """The conditions on single expressions that a condition is made of."""
    if isinstance(predicate, All | Any):
        for part in predicate.parts:
            yield from _parts(part)
    else:
        yield predicate


def _is_equation(part: Predicate) -> bool:
    return not isinstance(part, NonNegative)


def _mentions(part: Predicate, variable: Index) -> bool:
    return any(variable.atom == atom for expression in expressions(part) for atom in atoms(expression))


def _holds_loops(loop: Site) -> bool:
    """Whether other loops stand inside of a loop."""
    return any(isinstance(site.term, Gen | Reduce) for site in walk(loop.child(0)))


def _knows(facts: Facts, fact: Predicate) -> bool:
    return isinstance(prove(facts, fact), Proved)
