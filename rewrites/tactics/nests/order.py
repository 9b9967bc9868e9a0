"""The order of nested loops: two of them exchanged, with what stands between them moved out of the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, assert_never

from atl.core.index import Bound, Extremum, Index, atoms, shift
from atl.core.terms import (
    Binary,
    Cast,
    Expr,
    Flatten,
    Gen,
    Guard,
    Let,
    PadLeft,
    PadRight,
    Reduce,
    Reshape,
    Select,
    Transpose,
    TruncateLeft,
    TruncateRight,
    Unary,
)
from atl.core.traversal import Path
from atl.errors import ATLError
from atl.prove import lower_bound, upper_bound
from atl.text.printing import place_of
from rewrites.cursors.cursor import Cursor
from rewrites.cursors.targets import Target
from rewrites.derivation import Derivation
from rewrites.errors import DoesNotApply
from rewrites.tactics.indices import closed, simplify_indices
from rewrites.tactics.loops import WORD_OF, first_possible, loops
from rewrites.tactics.nests.bounds import bounded
from rewrites.tactics.simplification import simplify_guards
from rewrites.tactics.storage.staging import stage


def interchange(work: Derivation, name: Target) -> None:
    """Exchanges a loop with the one inside of it.

    ⊞i ⊞j e → transpose ⊞j ⊞i e; ⊞i Σj e → Σj ⊞i e; Σj ⊞i e → ⊞i Σj e; Σi Σj e → Σj Σi e.

    A guard that stands between the two moves inside. Reshape operators between them go into a sum, or out of one; past
    a transpose, a generation of tiles is stored the other way round: flatten ⊞io transpose flatten ⊞jo e → transpose
    flatten ⊞jo transpose flatten ⊞io transpose e. Where the range of the inner loop depends on the outer index, the
    other one does afterwards: Σ[i < n] Σ[j < i + 1] e → Σ[j < n] Σ[j <= i < n] e. A maximum, or a minimum, takes its
    last term again: max[i < n] max[j < i + 1] e(j) → max[j < n] max[i < n] e(min(j, i)).

    >>> s = reschedule(atl.parse("sums (A : float32[n, m]) : float32[n] := ⊞[i < n] Σ[j < m] A[i, j]"))
    >>> s.interchange("i")
    sums (A : float32[n, m]) : float32[n] :=
      Σ[j < m] ⊞[i < n] A[i, j]
    """
    first_possible(work, name, lambda cursor: interchanged(work, cursor.path))


def interchanged(work: Derivation, path: Path) -> None:
    """Exchanges the loop at a path with the one inside of it, as `interchange` does."""
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
    if path:
        work.attempt("transpose_transpose", path[:-1])


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


@dataclass(frozen=True, slots=True)
class _Exchange:
    """A rule that exchanges two generations, and where it leaves things, below the place at which it applies.

    `outside` and `within` are the loops in their new order; `element` is what was the body, read by its two indices.
    """

    rule: str
    outside: Path
    within: Path
    element: Path | None


_EXCHANGES: Final = {
    # Whether the inner generation is transposed as well, and whether it is flattened.
    (True, True): _Exchange("flatten_of_tiles", (0, 0), (0,) * 5, (0,) * 7),
    (True, False): _Exchange("flatten_of_transposes", (0,), (0,) * 3, (0,) * 4),
    (False, True): _Exchange("gen_of_flatten", (0, 0), (0,) * 4, (0,) * 5),
    (False, False): _Exchange("gen_interchange", (0,), (0, 0), None),
}


def _past_reshapes(work: Derivation, path: Path) -> None:
    """Exchanges two generations of which the inner one is cut, flattened, or transposed as well.

    flatten ⊞i transpose flatten ⊞j e → transpose flatten ⊞j transpose flatten ⊞i transpose e, and without the inner
    flatten; ⊞i flatten ⊞j e → transpose flatten ⊞j transpose ⊞i e. Truncations move outside, between two transposes.
    """
    outer, below = work.term(path), work.term((*path, 0))
    assert isinstance(outer, Gen)
    turned = _is(below, Transpose)
    first = _flattened(work, path) if turned else path
    whole = _cut_outside(work, first, turned=turned)
    # What is flattened stands below the operator that flattens it, and what is transposed below that.
    path = (*whole, 0) if turned else whole
    inner = work.term((*path, 0, 0) if turned else (*path, 0))
    flat = _is(inner, Flatten)
    if isinstance(inner, Reshape) and flat:
        inner = inner.operand
    if not isinstance(inner, Gen):
        raise _nothing_inside(work, path, inner)
    exchange = _EXCHANGES[turned, flat]
    work.rewrite(exchange.rule, whole)
    if exchange.element is not None:
        element = (*whole, *exchange.element)
        work.rewrite("get_gen", element)
        work.attempt("transpose_transpose", element[:-1])
    for at, loop in ((exchange.outside, inner), (exchange.within, outer)):
        work.rename((*whole, *at), loop.name)
        work.mark((*whole, *at), loop.mark)
    while len(whole) >= len(first) and whole:
        work.attempt("transpose_transpose", whole[:-1])
        whole = whole[:-3]


def _flattened(work: Derivation, path: Path) -> Path:
    """The place of the flatten around a generation; one that is not flattened is split again, after it was."""
    if path and _is(work.term(path[:-1]), Flatten):
        return path[:-1]
    work.rewrite("split_flatten", path, reverse=True, k=work.term(path).type.shape[1])
    return (*path, 0)


def _cut_outside(work: Derivation, whole: Path, *, turned: bool) -> Path:
    """Moves truncations of the inner generation outside, each between two transposes. Where the rest stands then."""
    while True:
        cut = work.term((*whole, 0, 0, 0) if turned else (*whole, 0))
        if not (isinstance(cut, Reshape) and isinstance(cut.op, TruncateLeft | TruncateRight)):
            return whole
        word = WORD_OF[type(cut.op)]
        work.rewrite(f"flatten_of_{word}_rows" if turned else f"gen_of_{word}", whole)
        whole = (*whole, 0, 0, 0)


def _is(term: Expr, op: type[Transpose | Flatten]) -> bool:
    return isinstance(term, Reshape) and isinstance(term.op, op)


def _widened(work: Derivation, path: Path) -> bool:
    """Gives an inner reduction, whose range depends on the index of the loop around it, a range that does not.

    Σ[i < n] Σ[j < i + 1] e → Σ[i < n] Σ[j < n] [j < i + 1] · e. Says whether it left a guard: a maximum, or a minimum,
    takes its last term again, max[j < i + 1] e(j) → max[j < n] e(min(j, i)).
    """
    cursor, inner = work.cursor(path), work.cursor((*path, 0))
    outer, loop = cursor.term, inner.term
    if not isinstance(outer, Gen | Reduce) or not isinstance(loop, Gen | Reduce) or not _depends_on_outer(loop):
        return False
    low = lower_bound(cursor.scope.facts, inner.scope.index(loop.low), [cursor.loop])
    high = upper_bound(cursor.scope.facts, inner.scope.index(loop.high), [cursor.loop])
    if low is None or high is None or not isinstance(loop, Reduce):
        return False
    lowest, highest = shift(closed(low, cursor.scope), 1), shift(closed(high, cursor.scope), 1)
    match loop.monoid:
        case "sum":
            limits = {"a": loop.low, "b": loop.high, "lo": lowest, "hi": highest}
            return work.attempt("sum_restrict", inner.path, reverse=True, **limits)
        case "min" | "max":
            if work.attempt(f"{loop.monoid}_repeat", inner.path, k=_number_in(highest)):
                simplify_indices(work, inner.path)
        case "product":
            pass
        case _:
            assert_never(loop.monoid)
    return False


def _number_in(most: Index) -> Index:
    """The number in min(m, 32), if there is one: as many terms for each m as a tile has, some of them once more."""
    match most.terms:
        case (((Extremum("min", choices),), 1),):
            return next((choice for choice in choices if choice.constant is not None), most)
        case _:
            return most


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
            raise DoesNotApply(
                f"the range of the loop {inner.name} depends on the index {outer.name}",
                place=place_of(work.goal, (*path, 0)),
                required="a range that does not; or a sum, of which the range can be made a guard; or a maximum or a "
                "minimum of at least one term, of which the last one can be taken again",
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
            raise DoesNotApply(
                f"the loop {outer.name}, a {monoid}, does not change places with the loop {inner.name}, a {other}",
                place=place_of(work.goal, path),
                required="two reductions of one kind, or a gen and a reduction",
            )
        case _, inner:
            raise _nothing_inside(work, path, inner)


def _nothing_inside(work: Derivation, path: Path, inner: Expr) -> DoesNotApply:
    return DoesNotApply(
        f"no loop stands directly inside of the loop {getattr(work.term(path), 'name', '')}",
        place=place_of(work.goal, (*path, 0)),
        required="two loops, one inside of the other, with guards or reshape operators between at most",
        suggestions=(f's.hoist("{inner.name}") first',) if isinstance(inner, Let) else _staged_first(work, path),
    )


def _staged_first(work: Derivation, path: Path) -> tuple[str, ...]:
    """The call that keeps a loop, which is an operand of what stands inside of another one, in a buffer of its own.

    The loop that fills the buffer has it directly inside then.
    """
    cursor = work.cursor(path)
    outer, within = cursor.called[0], [at for at in cursor.spine()[:-1] if isinstance(at.term, Gen | Reduce)]
    around = within[-1].called[0] if within else None
    for below in work.cursors((*path, 0), top_down=True):
        if not isinstance(below.term, Gen | Reduce) or not _is_operand(below, path):
            continue
        name = below.called[0]
        trial = Derivation(work.start, work.rules)
        try:
            stage(trial, name, at=around)
            (first, *_) = loops(trial, outer)
        except ATLError:
            continue
        if isinstance(first.child(0).term, Gen | Reduce):
            at = "" if around is None else f', at="{around}"'
            return (f's.stage("{name}"{at}) first, then s.interchange("{outer}") in what fills the buffer',)
    return ()


def _is_operand(cursor: Cursor, path: Path) -> bool:
    """Whether only arithmetic stands between the loop at a path and this place."""
    between = cursor.spine()[len(path) + 1 : -1]
    return all(isinstance(at.term, Binary | Unary | Cast | Select | Guard) for at in between)
