"""Loop interchange, with guards and reshape operators between the two loops moved away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, assert_never

from atl.core import terms
from atl.core.index import Bound, Extremum, Index, atoms, shift
from atl.core.traversal import Path
from atl.errors import ATLError
from atl.prove import lower_bound, upper_bound
from atl.text.printing import place_of
from rewrites.cursors.cursor import Cursor
from rewrites.cursors.targets import restrict
from rewrites.derivation import Derivation
from rewrites.errors import DoesNotApply
from rewrites.tactics import arg
from rewrites.tactics.indices import closed, simplify_indices
from rewrites.tactics.loops import WORD_OF, find_loops, first_possible
from rewrites.tactics.nests.guards import guard_to_bound
from rewrites.tactics.simplification import simplify_guards
from rewrites.tactics.storage.staging import stage
from rewrites.tactics.tactic import tactic


@tactic
def interchange(work: Derivation, name: arg.Loop, *, in_: arg.Inside = None) -> None:
    """Interchange a loop with the one directly inside it (reorder).

    ⊞i ⊞j e → transpose ⊞j ⊞i e; ⊞i Σj e → Σj ⊞i e; Σj ⊞i e → ⊞i Σj e; Σi Σj e → Σj Σi e.

    A guard between the two moves inside. Reshape operators between them move into or out of a sum. Two tiled
    generations exchange their storage order too: flatten ⊞io transpose flatten ⊞jo e → transpose flatten ⊞jo transpose
    flatten ⊞io transpose e. If the inner range depends on the outer index, the dependence is reversed: Σ[i < n] Σ[j < i
    + 1] e → Σ[j < n] Σ[j <= i < n] e. A maximum or minimum repeats its last term instead: max[i < n] max[j < i + 1]
    e(j) → max[j < n] max[i < n] e(min(j, i)).

    >>> s = reschedule(atl.parse("sums (A : float32[n, m]) : float32[n] := ⊞[i < n] Σ[j < m] A[i, j]"))
    >>> s.interchange("i")
    sums (A : float32[n, m]) : float32[n] :=
      Σ[j < m] ⊞[i < n] A[i, j]
    """
    name = restrict(name, in_)
    first_possible(work, name, lambda cursor: interchange_at(work, cursor.path))


def interchange_at(work: Derivation, path: Path) -> None:
    """Interchange the loop at a path with the one directly inside it, like `interchange`."""
    inner = _guards_inside(work, (*path, 0))
    narrow = False
    while isinstance(work.term(inner), terms.Gen) and isinstance(around := work.term(inner[:-1]), terms.Reshape):
        if len(inner) == len(path) + 1 or not isinstance(around.op, terms.PadLeft | terms.PadRight):
            break
        inner, narrow = inner[:-1], True
        work.rewrite(f"{WORD_OF[type(around.op)]}_of_gen", inner)
    path = _move_reshapes(work, path, inner)
    if isinstance(work.term(path), terms.Gen) and isinstance(work.term((*path, 0)), terms.Reshape):
        _past_reshapes(work, path)
        return
    narrow |= _widen(work, path)
    outside = swap(work, path)
    if narrow:
        simplify_guards(work, outside)
        guard_to_bound(work, (*outside, 0))
        simplify_guards(work, outside)
    if path:
        work.attempt("transpose_transpose", path[:-1])


def _guards_inside(work: Derivation, at: Path) -> Path:
    """Move guards at a place into the loop below them, past reshape operators; return the path of the loop."""
    while True:
        match work.term(at):
            case terms.Guard(body=terms.Guard()):
                work.rewrite("guard_guard", at)
            case terms.Guard(body=terms.Gen()):
                work.rewrite("guard_gen", at)
            case terms.Guard(body=terms.Reduce("sum")):
                work.rewrite("sum_guard", at)
            case terms.Guard(body=terms.Reshape(op)) if work.attempt(f"{WORD_OF[type(op)]}_of_guard", at, reverse=True):
                pass
            case terms.Reshape():
                at = (*at, 0)
            case _:
                return at


def _move_reshapes(work: Derivation, path: Path, inner: Path) -> Path:
    """Move reshape operators between two loops into the inner sum, or out of the outer one; return the outer loop's
    path.
    """
    while len(inner) > len(path) + 1:
        if isinstance(work.term(inner), terms.Reduce):
            around = work.term(inner[:-1])
            if not (
                isinstance(around, terms.Reshape) and work.attempt(f"{WORD_OF[type(around.op)]}_of_sum", inner[:-1])
            ):
                break
            inner = inner[:-1]
        else:
            below = work.term((*path, 0))
            if not (isinstance(work.term(path), terms.Reduce) and isinstance(below, terms.Reshape)):
                break
            if not work.attempt(f"{WORD_OF[type(below.op)]}_of_sum", path, reverse=True):
                break
            path = (*path, 0)
    return path


@dataclass(frozen=True, slots=True)
class _Exchange:
    """A rule that exchanges two generations, and the resulting paths relative to the place where it applies.

    `outside` and `within` are the loops in their new order; `element` is the old body, read at its two indices.
    """

    rule: str
    outside: Path
    within: Path
    element: Path | None


_EXCHANGES: Final = {
    # Keys: the inner generation is transposed, it is flattened.
    (True, True): _Exchange("flatten_of_tiles", (0, 0), (0,) * 5, (0,) * 7),
    (True, False): _Exchange("flatten_of_transposes", (0,), (0,) * 3, (0,) * 4),
    (False, True): _Exchange("gen_of_flatten", (0, 0), (0,) * 4, (0,) * 5),
    (False, False): _Exchange("gen_interchange", (0,), (0, 0), None),
}


def _past_reshapes(work: Derivation, path: Path) -> None:
    """Interchange two generations where the inner one is also truncated, flattened or transposed.

    flatten ⊞i transpose flatten ⊞j e → transpose flatten ⊞j transpose flatten ⊞i transpose e, and without the inner
    flatten; ⊞i flatten ⊞j e → transpose flatten ⊞j transpose ⊞i e. Truncations move outside, between two transposes.
    """
    outer, below = work.term(path), work.term((*path, 0))
    assert isinstance(outer, terms.Gen)
    transposed = _is(below, terms.Transpose)
    first = _flattened(work, path) if transposed else path
    whole = _cut_outside(work, first, transposed=transposed)
    # Step below the flatten and the transpose operators.
    path = (*whole, 0) if transposed else whole
    inner = work.term((*path, 0, 0) if transposed else (*path, 0))
    flat = _is(inner, terms.Flatten)
    if isinstance(inner, terms.Reshape) and flat:
        inner = inner.operand
    if not isinstance(inner, terms.Gen):
        raise _nothing_inside(work, path, inner)
    exchange = _EXCHANGES[transposed, flat]
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
    """Return the path of the flatten around a generation, introducing split-of-flatten if there is none."""
    if path and _is(work.term(path[:-1]), terms.Flatten):
        return path[:-1]
    work.rewrite("split_flatten", path, reverse=True, k=work.term(path).type.shape[1])
    return (*path, 0)


def _cut_outside(work: Derivation, whole: Path, *, transposed: bool) -> Path:
    """Move truncations of the inner generation outside, each between two transposes; return the new path."""
    while True:
        cut = work.term((*whole, 0, 0, 0) if transposed else (*whole, 0))
        if not (isinstance(cut, terms.Reshape) and isinstance(cut.op, terms.TruncateLeft | terms.TruncateRight)):
            return whole
        word = WORD_OF[type(cut.op)]
        work.rewrite(f"flatten_of_{word}_rows" if transposed else f"gen_of_{word}", whole)
        whole = (*whole, 0, 0, 0)


def _is(term: terms.Expr, op: type[terms.Transpose | terms.Flatten]) -> bool:
    return isinstance(term, terms.Reshape) and isinstance(term.op, op)


def _widen(work: Derivation, path: Path) -> bool:
    """Make the range of an inner reduction independent of the enclosing loop's index.

    Σ[i < n] Σ[j < i + 1] e → Σ[i < n] Σ[j < n] [j < i + 1] · e. Returns True if it introduced a guard. A maximum or
    minimum repeats its last term instead: max[j < i + 1] e(j) → max[j < n] e(min(j, i)).
    """
    cursor, inner = work.cursor(path), work.cursor((*path, 0))
    outer, loop = cursor.term, inner.term
    if (
        not isinstance(outer, terms.Gen | terms.Reduce)
        or not isinstance(loop, terms.Gen | terms.Reduce)
        or not _depends_on_outer(loop)
    ):
        return False
    low = lower_bound(cursor.scope.facts, inner.scope.index(loop.low), [cursor.loop])
    high = upper_bound(cursor.scope.facts, inner.scope.index(loop.high), [cursor.loop])
    if low is None or high is None or not isinstance(loop, terms.Reduce):
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
    """Return the number in min(m, 32), if there is one: the tile size, so that short tiles repeat their last term."""
    match most.terms:
        case (((Extremum("min", choices),), 1),):
            return next((choice for choice in choices if choice.constant is not None), most)
        case _:
            return most


def _depends_on_outer(loop: terms.Gen | terms.Reduce) -> bool:
    return any(atom == Bound(0) for expression in (loop.low, loop.high) for atom in atoms(expression))


def swap(work: Derivation, path: Path) -> Path:
    """Interchange the loop at a path with the one directly inside it, or below guards, which move inside.

    Returns the path of the new outer loop.
    """
    while isinstance(work.term((*path, 0)), terms.Guard):
        inner = work.term((*path, 0, 0))
        if isinstance(inner, terms.Guard):
            work.rewrite("guard_guard", (*path, 0))
            continue
        if isinstance(inner, terms.Reduce) and inner.monoid != "sum":
            path = guard_to_bound(work, path)  # a false guard would count as zero
        elif isinstance(inner, terms.Gen | terms.Reduce):
            work.rewrite("guard_gen" if isinstance(inner, terms.Gen) else "sum_guard", (*path, 0))
        break
    match work.term(path), work.term((*path, 0)):
        case terms.Gen() | terms.Reduce() as outer, terms.Gen() | terms.Reduce() as inner if _depends_on_outer(inner):
            raise DoesNotApply(
                f"the range of the loop {inner.name} depends on the index {outer.name}",
                place=place_of(work.goal, (*path, 0)),
                required="an independent range; or a sum, whose range can become a guard; or a maximum or minimum of "
                "at least one term, which can be repeated",
            )
        case terms.Gen(), terms.Gen():
            work.rewrite("gen_interchange", path)
            return (*path, 0)
        case terms.Gen(), terms.Reduce(monoid):
            work.rewrite(f"{monoid}_gen_swap", path)
            return path
        case terms.Reduce(monoid), terms.Gen():
            work.rewrite(f"{monoid}_gen_swap", path, reverse=True)
            return path
        case terms.Reduce(monoid), terms.Reduce(other) if monoid == other:
            work.rewrite(f"{monoid}_swap", path)
            return path
        case terms.Reduce(monoid) as outer, terms.Reduce(other) as inner:
            raise DoesNotApply(
                f"cannot interchange the {monoid} {outer.name} with the {other} {inner.name}",
                place=place_of(work.goal, path),
                required="two reductions of the same kind, or a gen and a reduction",
            )
        case _, inner:
            raise _nothing_inside(work, path, inner)


def _nothing_inside(work: Derivation, path: Path, inner: terms.Expr) -> DoesNotApply:
    return DoesNotApply(
        f"no loop is directly inside the loop {getattr(work.term(path), 'name', '')}",
        place=place_of(work.goal, (*path, 0)),
        required="two nested loops, with only guards or reshape operators between",
        suggestions=(f's.hoist("{inner.name}") first',) if isinstance(inner, terms.Let) else _staged_first(work, path),
    )


def _staged_first(work: Derivation, path: Path) -> tuple[str, ...]:
    """Suggest staging an inner loop that is an operand in the outer loop's body, to make them directly nested."""
    cursor = work.cursor(path)
    outer, within = (
        cursor.called[0],
        [at for at in cursor.spine()[:-1] if isinstance(at.term, terms.Gen | terms.Reduce)],
    )
    around = within[-1].called[0] if within else None
    for below in work.cursors((*path, 0), top_down=True):
        if not isinstance(below.term, terms.Gen | terms.Reduce) or not _is_operand(below, path):
            continue
        name = below.called[0]
        trial = Derivation(work.start, work.rules)
        try:
            stage(trial, name, at=around)
            (first, *_) = find_loops(trial, outer)
        except ATLError:
            continue
        if isinstance(first.child(0).term, terms.Gen | terms.Reduce):
            at = "" if around is None else f', at="{around}"'
            return (f's.stage("{name}"{at}) first, then s.interchange("{outer}") in the loops that fill the buffer',)
    return ()


def _is_operand(cursor: Cursor, path: Path) -> bool:
    """Return True if there is only arithmetic between the loop at a path and this place."""
    between = cursor.spine()[len(path) + 1 : -1]
    return all(
        isinstance(at.term, terms.Binary | terms.Unary | terms.Cast | terms.Select | terms.Guard) for at in between
    )
