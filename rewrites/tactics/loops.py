"""Tactics on loops: split in pieces, interchanged, flattened, unrolled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from atl.core.index import (
    ONE,
    ZERO,
    Bound,
    Extremum,
    Index,
    Var,
    atoms,
    bound,
    ceildiv,
    floordiv,
    imax,
    imin,
    index,
    shift,
)
from atl.core.marks import LoopMark
from atl.core.predicate import NonNegative, NonZero, Predicate, Zero, at_most, conjunction, conjuncts, less
from atl.core.terms import (
    OPERATOR_CALLED,
    Expr,
    Flatten,
    Gen,
    Guard,
    Let,
    PadLeft,
    PadRight,
    Reduce,
    Reshape,
    Transpose,
    TruncateLeft,
    TruncateRight,
)
from atl.core.traversal import Path
from atl.errors import WrongArgument
from atl.prove import Facts, Proved, lower_bound, prove, simplify, upper_bound
from atl.surface.values import as_index
from atl.text.printing import place_of, show_index
from rewrites.derivation import Derivation, Text
from rewrites.errors import NoSite
from rewrites.places.choosing import Chosen, every
from rewrites.places.site import Site
from rewrites.tactics.indices import closed
from rewrites.tactics.padding import apart
from rewrites.tactics.simplification import linear_in, simplify_guards

WORD_OF: Final = {op: word for word, op in OPERATOR_CALLED.items()}
"""The word of a reshape operator, which the names of rules about it begin with."""
MOST_UNROLLED = 64


def loops(work: Derivation, what: Chosen) -> list[Site]:
    """The generations and reductions that are meant, from the outside in. Raises `NoSite` if there are none."""
    found = [site for site in every(work.goal, what) if isinstance(site.term, Gen | Reduce)]
    if not found:
        raise NoSite(f"{what} is no loop", required="the name of a gen or a sum, or a pattern of one")
    return found


def first_possible(work: Derivation, what: Chosen, act: Callable[[Site], object]) -> None:
    """Changes the first of these loops that can be changed so. If none can, raises what is wrong with the first one."""
    work.first_of(loops(work, what), act)


def as_bound(value: Any, site: Site) -> Index:
    """A bound or a factor as a person gives it, at a loop: the names in a text are indices around it, and sizes."""
    if value is None:
        raise WrongArgument("None is no index", required="a number, a size, or an index expression as text")
    if not isinstance(value, str):
        return value if isinstance(value, Index) else as_index(value)
    made = Text(value, condition=False).read(site)
    assert isinstance(made, Index)
    return made


# -- pieces -----------------------------------------------------------------------------------------------------------


def split_loop(work: Derivation, name: Chosen, *at: Any) -> None:
    """Splits a loop at one or more indices, for instance into prologue, main loop and epilogue; guards are simplified.

    ⊞[i < n] e  →  (⊞[i < a] e) ++ (⊞[a <= i < b] e) ++ (⊞[b <= i < n] e); of a sum the pieces are added.

    >>> s = reschedule(atl.parse("f (x : float32[n]) : float32[n] given 1 <= n := ⊞[i < n] [1 <= i] · x[i - 1]"))
    >>> s.split_loop("i", 1)
    f (x : float32[n]) : float32[n]
        given 1 <= n :=
      (⊞[i < 1] padding(float32)) ++ ⊞[1 <= i < n] x[i - 1]
    """
    if not at:
        raise WrongArgument("split_loop needs an index to split at", required=f"s.split_loop({name!r}, 1)")

    def split(site: Site) -> None:
        bounds = [as_bound(bound, site) for bound in at]
        _check_rising(work, site, bounds)
        try:
            paths = pieces(work, site.path, bounds)
        except NoSite as error:
            error.suggestions = (*error.suggestions, *_within(work, site, name, bounds))
            raise
        assert isinstance(site.term, Gen | Reduce)
        for path in paths:
            # Every piece keeps the loop's mark, and its name, by which all of them are found.
            work.rename(path, site.term.name)
            work.mark(path, site.term.mark)
        simplify_guards(work, site.path)

    first_possible(work, name, split)


def _check_rising(work: Derivation, site: Site, bounds: Sequence[Index]) -> None:
    for low, high in pairwise(bounds):
        if work.knows(site.path, at_most(high, low)) and not work.knows(site.path, at_most(low, high)):
            names = ", ".join(show_index(site.scope.index(bound)) for bound in bounds)
            raise WrongArgument(f"a loop is split at {names}, which do not rise", required="indices in rising order")


def _within(work: Derivation, site: Site, name: Chosen, bounds: Sequence[Index]) -> list[str]:
    """Says how to split at the end of the range where an index may lie beyond it."""
    assert isinstance(site.term, Gen | Reduce)
    low, high = site.term.low, site.term.high
    inside = [bound if work.knows(site.path, at_most(bound, high)) else imin(bound, high) for bound in bounds]
    chain = conjunction([at_most(a, b) for a, b in zip([low, *inside], [*inside, high], strict=True)])
    if inside == list(bounds) or not isinstance(name, str) or not work.knows(site.path, chain):
        return []
    texts = [show_index(site.scope.index(bound), ascii=True) for bound in inside]
    shown = ", ".join(text if text.isdigit() else repr(text) for text in texts)
    return [f"split where the range ends, if that comes first: s.split_loop({name!r}, {shown})"]


def pieces(work: Derivation, path: Path, bounds: Sequence[Index]) -> list[Path]:
    """Splits the loop at a path at each of these indices, in rising order. Returns the pieces' paths, in order."""
    term = work.term(path)
    rule = f"split_{term.monoid}" if isinstance(term, Reduce) else "split_gen"
    at, found = path, []
    for at_index in bounds[::-1]:
        # The last piece is cut off first, so that joining stays to the left.
        work.rewrite(rule, at, reverse=False, **{_where(work, rule): at_index})
        found.append((*at, 1))
        at = (*at, 0)
    return [at, *found[::-1]]


def _where(work: Derivation, rule: str) -> str:
    """The parameter of a splitting rule that says where to split."""
    return next(name for name in work.rule(rule).metavariables if name not in ("lo", "hi", "e"))


def unroll(work: Derivation, name: Chosen) -> None:
    """Writes out a loop: Σ[i < 2] e(i) → e(0) + e(1); ⊞[i < 2] e(i) → (⊞[i < 1] e(0)) ++ ⊞[i < 1] e(1).

    >>> s = reschedule(atl.parse("f (x : float32[n, 3]) : float32[n] := ⊞[i < n] Σ[p < 3] x[i, p]"))
    >>> s.unroll("p")
    f (x : float32[n, 3]) : float32[n] :=
      ⊞[i < n] x[i, 0] + x[i, 1] + x[i, 2]
    """
    first_possible(work, name, lambda site: _written_out(work, site, name))


def _written_out(work: Derivation, site: Site, name: Chosen) -> None:
    assert isinstance(site.term, Gen | Reduce)
    low, high = site.term.low, site.term.high
    count = (high - low).constant
    if count is None or not 1 <= count <= MOST_UNROLLED:
        raise NoSite(
            f"the loop {name} runs from {low} to {high}",
            required=f"a constant extent from 1 to {MOST_UNROLLED}",
            suggestions=(f"tile the loop first: s.tile({name!r}, 8), and unroll the inner one",),
        )
    single = f"{site.term.monoid}_one" if isinstance(site.term, Reduce) else "gen_one"
    for path in pieces(work, site.path, [low + k for k in range(1, count)]):
        work.attempt(single, path)
    simplify_guards(work, site.path)


# -- order ------------------------------------------------------------------------------------------------------------


def interchange(work: Derivation, name: Chosen) -> None:
    """Exchanges a loop with the one inside of it.

    ⊞i ⊞j e → transpose ⊞j ⊞i e; ⊞i Σj e → Σj ⊞i e; Σj ⊞i e → ⊞i Σj e; Σi Σj e → Σj Σi e.

    A guard that stands between the two moves inside. Reshape operators between them go into a sum, or out of one; past
    a transpose, a generation of tiles is stored the other way round: flatten ⊞io transpose flatten ⊞jo e → transpose
    flatten ⊞jo transpose flatten ⊞io transpose e. Where the range of the inner loop depends on the outer index, the
    other one does afterwards: Σ[i < n] Σ[j < i + 1] e → Σ[j < n] Σ[j <= i < n] e.

    >>> s = reschedule(atl.parse("sums (A : float32[n, m]) : float32[n] := ⊞[i < n] Σ[j < m] A[i, j]"))
    >>> s.interchange("i")
    sums (A : float32[n, m]) : float32[n] :=
      Σ[j < m] ⊞[i < n] A[i, j]
    """
    first_possible(work, name, lambda site: _interchanged(work, site.path))


def _interchanged(work: Derivation, path: Path) -> None:
    inner = _guards_inside(work, (*path, 0))
    narrow = False
    while isinstance(work.term(inner), Gen) and isinstance(around := work.term(inner[:-1]), Reshape):
        if len(inner) == len(path) + 1 or not isinstance(around.op, PadLeft | PadRight):
            break
        inner, narrow = inner[:-1], True
        work.rewrite(f"{WORD_OF[type(around.op)]}_of_gen", inner)
    path = _reshapes_away(work, path, inner)
    if isinstance(work.term(path), Gen) and isinstance(work.term((*path, 0)), Reshape):
        _past_reshapes(work, path)
        return
    narrow |= _widened(work, path)
    outside = swap(work, path)
    if narrow:
        simplify_guards(work, outside)
        bounded(work, (*outside, 0))
        simplify_guards(work, outside)


def _guards_inside(work: Derivation, at: Path) -> Path:
    """Moves guards at a place into the loop below them, past reshape operators. The path of the loop."""
    while True:
        match work.term(at):
            case Guard(body=Guard()):
                work.rewrite("guard_guard", at)
            case Guard(body=Gen()):
                work.rewrite("guard_gen", at)
            case Guard(body=Reduce("sum")):
                work.rewrite("sum_guard", at)
            case Guard(body=Reshape(op)) if work.attempt(f"{WORD_OF[type(op)]}_of_guard", at, reverse=True):
                pass
            case Reshape():
                at = (*at, 0)
            case _:
                return at


def _reshapes_away(work: Derivation, path: Path, inner: Path) -> Path:
    """Moves reshape operators between two loops into the inner sum, or out of the outer one. The outer one's path."""
    while len(inner) > len(path) + 1:
        if isinstance(work.term(inner), Reduce):
            around = work.term(inner[:-1])
            if not (isinstance(around, Reshape) and work.attempt(f"{WORD_OF[type(around.op)]}_of_sum", inner[:-1])):
                break
            inner = inner[:-1]
        else:
            below = work.term((*path, 0))
            if not (isinstance(work.term(path), Reduce) and isinstance(below, Reshape)):
                break
            if not work.attempt(f"{WORD_OF[type(below.op)]}_of_sum", path, reverse=True):
                break
            path = (*path, 0)
    return path


def _past_reshapes(work: Derivation, path: Path) -> None:
    """Exchanges two generations of which the inner one is cut, flattened, or transposed as well.

    flatten ⊞i transpose flatten ⊞j e → transpose flatten ⊞j transpose flatten ⊞i transpose e, and without the inner
    flatten; ⊞i flatten ⊞j e → transpose flatten ⊞j transpose ⊞i e. Truncations move outside, between two transposes.
    """
    outer = work.term(path)
    assert isinstance(outer, Gen)
    turned = isinstance(below := work.term((*path, 0)), Reshape) and isinstance(below.op, Transpose)
    if turned and not (path and isinstance(above := work.term(path[:-1]), Reshape) and isinstance(above.op, Flatten)):
        # Tiles of one element, so to say: what is not flattened is split again.
        work.rewrite("split_flatten", path, reverse=True, k=outer.body.type.shape[0])
        path = (*path, 0, 0)
    lead, whole = ((0,), path[:-1]) if turned else ((), path)
    first = whole
    while isinstance(cut := work.term((*path, 0, *lead)), Reshape) and isinstance(cut.op, TruncateLeft | TruncateRight):
        word = WORD_OF[type(cut.op)]
        work.rewrite(f"flatten_of_{word}_rows" if turned else f"gen_of_{word}", whole)
        whole, path = (*whole, 0, 0, 0), (*path, 0, 0, 0)
    flat = isinstance(cut, Reshape) and isinstance(cut.op, Flatten)
    inner = cut.operand if isinstance(cut, Reshape) and flat else cut
    if not isinstance(inner, Gen):
        raise _nothing_inside(work, path, inner)
    rule = "flatten_of_tiles" if flat and turned else "flatten_of_transposes" if turned else "gen_of_flatten"
    if not flat and not turned:
        work.rewrite("gen_interchange", whole)
        outside, within = (*whole, 0), (*whole, 0, 0)
    else:
        work.rewrite(rule, whole)
        outside = (*whole, 0, 0) if flat else (*whole, 0)
        within = (*outside, 0, 0, 0) if flat and turned else (*outside, 0, 0)
        element = (*within, 0, 0) if flat and turned else (*within, 0)
        work.rewrite("get_gen", element)
        work.attempt("transpose_transpose", element[:-1])
    for at, loop in ((outside, inner), (within, outer)):
        work.rename(at, loop.name)
        work.mark(at, loop.mark)
    while len(whole) >= len(first) and whole:
        work.attempt("transpose_transpose", whole[:-1])
        whole = whole[:-3]


def _widened(work: Derivation, path: Path) -> bool:
    """Gives an inner sum, whose range depends on the index of the loop around it, a range that does not, and a guard.

    Σ[i < n] Σ[j < i + 1] e → Σ[i < n] Σ[j < n] [j < i + 1] · e. Says whether it did.
    """
    site, inner = work.site(path), work.site((*path, 0))
    outer, loop = site.term, inner.term
    if not isinstance(outer, Gen | Reduce) or not isinstance(loop, Gen | Reduce) or not _depends_on_outer(loop):
        return False
    variable = inner.scope.indices[-1].atom
    assert isinstance(variable, Var)
    ranges = [(variable, site.scope.index(outer.low), site.scope.index(outer.high))]
    low = lower_bound(site.scope.facts, inner.scope.index(loop.low), ranges)
    high = upper_bound(site.scope.facts, inner.scope.index(loop.high), ranges)
    if low is None or high is None or not isinstance(loop, Reduce) or loop.monoid != "sum":
        return False
    widest = {"lo": shift(closed(low, site.scope), 1), "hi": shift(closed(high, site.scope), 1)}
    return work.attempt("sum_restrict", inner.path, reverse=True, a=loop.low, b=loop.high, **widest)


def _depends_on_outer(loop: Gen | Reduce) -> bool:
    return any(atom == Bound(0) for expression in (loop.low, loop.high) for atom in atoms(expression))


def swap(work: Derivation, path: Path) -> Path:
    """Exchanges the loop at a path with the one directly inside of it, or below guards that then move inside.

    The path of the loop that is outside afterwards.
    """
    while isinstance(work.term((*path, 0)), Guard):
        inner = work.term((*path, 0, 0))
        if isinstance(inner, Guard):
            work.rewrite("guard_guard", (*path, 0))
            continue
        if isinstance(inner, Reduce) and inner.monoid != "sum":
            path = bounded(work, path)  # what a guard leaves out would count as zero
        elif isinstance(inner, Gen | Reduce):
            work.rewrite("guard_gen" if isinstance(inner, Gen) else "sum_guard", (*path, 0))
        break
    match work.term(path), work.term((*path, 0)):
        case Gen() | Reduce() as outer, Gen() | Reduce() as inner if _depends_on_outer(inner):
            raise NoSite(
                f"the range of the loop {inner.name} depends on the index {outer.name}",
                place=place_of(work.goal, (*path, 0)),
                required="a range that does not, or a sum, of which the range can be made a guard",
            )
        case Gen(), Gen():
            work.rewrite("gen_interchange", path)
            return (*path, 0)
        case Gen(), Reduce(monoid):
            work.rewrite(f"{monoid}_gen_swap", path)
            return path
        case Reduce(monoid), Gen():
            work.rewrite(f"{monoid}_gen_swap", path, reverse=True)
            return path
        case Reduce(monoid), Reduce(other) if monoid == other:
            work.rewrite(f"{monoid}_swap", path)
            return path
        case Reduce(monoid) as outer, Reduce(other) as inner:
            raise NoSite(
                f"the loop {outer.name}, a {monoid}, does not change places with the loop {inner.name}, a {other}",
                place=place_of(work.goal, path),
                required="two reductions of one kind, or a gen and a reduction",
            )
        case _, inner:
            raise _nothing_inside(work, path, inner)


def _nothing_inside(work: Derivation, path: Path, inner: Expr) -> NoSite:
    return NoSite(
        f"no loop stands directly inside of the loop {getattr(work.term(path), 'name', '')}",
        place=place_of(work.goal, (*path, 0)),
        required="two loops, one inside of the other, with guards or reshape operators between at most",
        suggestions=(f's.hoist("{inner.name}") first',) if isinstance(inner, Let) else (),
    )


# -- bounds out of guards ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Limit:
    """A condition, solved for a loop's index: it holds from `at` on, or, if it `ends`, before it.

    Where it is not the loop's own, but that of loops inside, it holds there for all of their iterations.
    """

    at: Index
    ends: bool
    own: bool = True


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
    own, rest = list[Limit](), list[Predicate]()
    for part in spread(inner.term.predicate):
        opened = inner.scope.predicate(part)
        variable = inner.scope.indices[-1]
        found = list(solved(inner.scope.facts, opened, variable)) if isinstance(part, NonNegative) else []
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


def spread(condition: Predicate) -> list[Predicate]:
    """The conjuncts of a condition, of which one on a minimum is one for each choice: j < min(n, m) → j < n, j < m."""
    out: list[Predicate] = []
    for part in conjuncts(condition):
        if not isinstance(part, NonNegative):
            out.append(part)
            continue
        for monomial, coefficient in part.expression.terms:
            (atom, *others) = monomial or (None,)
            if isinstance(atom, Extremum) and not others and (atom.kind == "min") == (coefficient > 0):
                without = part.expression - index(atom) * coefficient
                out += spread(conjunction([at_most(ZERO, without + at * coefficient) for at in atom.choices]))
                break
        else:
            out.append(part)
    return out


def _new_range(site: Site, limits: Sequence[Limit]) -> tuple[Index, Index]:
    """The part of a loop's range that is within some limits, written as the loop's bounds are."""
    assert isinstance(site.term, Gen | Reduce)
    facts = site.scope.facts
    first, last = site.scope.index(site.term.low), site.scope.index(site.term.high)
    low = simplify(facts, imax(first, *(limit.at for limit in limits if not limit.ends)))
    high = simplify(facts, imin(last, *(limit.at for limit in limits if limit.ends)))
    if isinstance(site.term, Gen):
        low = low if knows(facts, at_most(low, last)) else imin(low, last)
        high = high if knows(facts, at_most(low, high)) else imax(low, high)
    return closed(low, site.scope), closed(high, site.scope)


def solved(facts: Facts, part: Predicate, variable: Index, *, steep: bool = False) -> Iterator[Limit]:
    """A condition as limits of a variable; if they are to be `steep`, only where its factor is more than one."""
    for factor, remainder in linear_in(part, variable):
        if not knows(facts, at_most(ONE, factor)) or (steep and factor == ONE):
            continue
        match part:
            case Zero() | NonZero() if factor == ONE:
                yield Limit(-remainder, ends=False)
                yield Limit(1 - remainder, ends=False)
                return
            case NonNegative(expression) if expression == factor * variable + remainder:
                yield Limit(simplify(facts, ceildiv(-remainder, factor, positive=True)), ends=False)
            case NonNegative():
                # remainder stands for minus the rest: the condition is 0 <= -(factor * variable + remainder).
                yield Limit(simplify(facts, floordiv(-remainder, factor, positive=True) + 1), ends=True)
            case _:
                pass


def knows(facts: Facts, fact: Predicate) -> bool:
    return isinstance(prove(facts, fact), Proved)


# -- one loop out of two ----------------------------------------------------------------------------------------------


def from_zero(work: Derivation, path: Path) -> None:
    """A loop counted from zero: ⊞[a <= i < b] e(i) → ⊞[i < b - a] e(a + i)."""
    term = work.term(path)
    if isinstance(term, Gen | Reduce) and term.low != ZERO:
        work.rewrite(f"{term.monoid}_rebase" if isinstance(term, Reduce) else "gen_rebase", path)


def flatten_loops(work: Derivation, name: Chosen) -> None:
    """Makes two nested loops one: ⊞[i < n] ⊞[j < m] e(i, j) → split m ⊞[ij < n*m] e(ij // m, _).

    It has the mark of the outer loop, or else that of the inner one.

    >>> s = reschedule(atl.parse("twice (A : float32[n, 4]) : float32[n, 4] := ⊞[i < n] ⊞[j < 4] 2 * A[i, j]"))
    >>> s.flatten_loops("i")
    twice (A : float32[n, 4]) : float32[n, 4] :=
      split 4 ⊞[ij < 4*n] 2 * A[ij // 4, ij % 4]
    """
    first_possible(work, name, lambda site: _made_one(work, site, name))


def _made_one(work: Derivation, site: Site, name: Chosen) -> None:
    path, outer, inner = site.path, site.term, work.term((*site.path, 0))
    if not isinstance(outer, Gen):
        raise NoSite(f"{name} is a reduction", required="the name of a gen, or a pattern of one")
    if not isinstance(inner, Gen):
        raise NoSite(f"no loop stands directly inside of the loop {outer.name}", required="two nested gens")
    from_zero(work, path)
    from_zero(work, (*path, 0))
    work.rewrite("split_flatten", path, reverse=True, k=inner.high - inner.low)
    work.rewrite("flatten_gen_gen", (*path, 0))
    work.rename((*path, 0), f"{outer.name}{inner.name}")
    work.mark((*path, 0), inner.mark if outer.mark is LoopMark.NONE else outer.mark)
