"""Simplification: inlining, reduction of accesses, decided guards, and solving conditions for an index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from atl.checks.safety import unsafe_accesses
from atl.checks.scope import Scope
from atl.core import predicate as pred
from atl.core.index import Bound, Index, Read, Size, atoms, bound, factor_of, floordiv, index
from atl.core.operations import BINARY
from atl.core.terms import MONOIDS, OPERATORS_BY_WORD, Access, Gen, Guard, Input, Let, Reduce, Select
from atl.core.traversal import Path
from atl.prove import proves
from atl.text.printing import place_of
from rewrites.cursors.cursor import Cursor, binders, positions
from rewrites.cursors.targets import Target, every, one
from rewrites.derivation import Derivation
from rewrites.errors import DoesNotApply, known_names
from rewrites.named_operators import FUNCTIONS
from rewrites.tactics import arg
from rewrites.tactics.tactic import tactic

OF_ACCESSES: Final = (
    "get_gen", "get_gen_guarded", "guard_access", "ll_get", "select_access", "where_access", "padding_access",
    "concat_access_left", "concat_access_right", *(f"{operator}_access" for operator in OPERATORS_BY_WORD),
    *(f"get_{monoid}" for monoid in MONOIDS), *(f"{op}_access" for op in (*BINARY, *FUNCTIONS)),
)  # fmt: skip
"""Rules that compute an element of an operator's result."""


@tactic
def inline(work: Derivation, name: arg.LetOrOperator, *, at: arg.Term | None = None) -> None:
    """Inline a let by name, or all uses of a reshape operator such as "split" (compute_inline).

    let buf := v in … buf[i] …  →  … v[i] …

    >>> s = reschedule(atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n] let y := 2 * x[i] in y * y"))
    >>> s.inline("y")
    f (x : float32[n]) : float32[n] :=
      ⊞[i < n] 2 * x[i] * (2 * x[i])
    """
    below = one(work.goal, at).path if at is not None else ()
    if isinstance(name, str) and name in OPERATORS_BY_WORD:
        if not work.sweep([f"unfold_{name}"], below):
            raise DoesNotApply(f"no {name} in the goal", required=f"a use of {name}")
        return
    lets = find_lets(work, name)
    inside = [cursor for cursor in lets if cursor.path[: len(below)] == below]
    if not inside:
        raise DoesNotApply(f"the let {name} is not at that place", required="a let at the place, or below it")
    work.rewrite("unfold_let", inside[0].path)


def find_lets(work: Derivation, name: Target) -> list[Cursor]:
    """Return the selected lets, from the outside in. Raises `DoesNotApply` if there are none."""
    found = every(work.goal, name)
    lets = [cursor for cursor in found if isinstance(cursor.term, Let)]
    if not lets:
        what = {Gen: "bound by a loop", Reduce: "bound by a loop", Input: "an input"}.get(type(found[0].term))
        named = [cursor.called[0] for cursor in binders(work.goal) if isinstance(cursor.term, Let)]
        raise DoesNotApply(
            f"{name} is {f'{what}, not by a let' if what == 'bound by a loop' else what or 'not a let'}",
            place=place_of(work.goal, found[0].path),
            required=f"the name of a let{f': {known_names(named)}' if named else '; the goal has none'}",
        )
    return lets


def reduce_accesses(work: Derivation, below: Path = ()) -> int:
    """Reduce accesses to the element: (⊞[i < n] e)[k] → e[k], through all operators between.

    Where k is not proved to be within the range, the element gets a guard.
    """
    return work.repeat(work.known(OF_ACCESSES), below)


@tactic
def simpl_guard(work: Derivation, *, at: arg.Term | None = None) -> None:
    """Simplify guards by known facts: [true] · e → e, [p ∧ q] · e → [p] · e if p implies q, false guards → padding.

    Selections with a known condition are simplified too.

    >>> s = reschedule(atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n] [0 <= i ∧ 2 <= i] · x[i - 2]"))
    >>> s.simpl_guard()
    f (x : float32[n]) : float32[n] :=
      ⊞[i < n] [2 <= i] · x[i - 2]
    """
    before = work.taken
    simplify_guards(work, one(work.goal, at).path if at is not None else ())
    if work.taken == before:
        raise DoesNotApply(
            "no guard in the goal is known to be true or false",
            required="a guard, or a conjunct of one, that the facts in scope decide",
            suggestions=("assume conditions on the sizes: reschedule(…, given=[…])",),
        )


def simplify_guards(work: Derivation, below: Path = ()) -> None:
    """Simplify like `simpl_guard`, without failing."""
    _visit(work, work.cursor(below))


def _visit(work: Derivation, cursor: Cursor) -> None:
    while isinstance(cursor.term, Guard | Select) and decided(work, cursor):
        cursor = Cursor(work.goal, cursor.path, work.term(cursor.path), cursor.above)
    if isinstance(cursor.term, Guard) and _without_implied(work, cursor, pred.conjuncts(cursor.term.predicate)):
        cursor = Cursor(work.goal, cursor.path, work.term(cursor.path), cursor.above)
    for position in positions(cursor.term, top_down=True):
        _visit(work, cursor.child(position))


def decided(work: Derivation, cursor: Cursor) -> bool:
    """Simplify a guard or a selection whose condition is known to be true or false."""
    assert isinstance(cursor.term, Guard | Select)
    kind = "guard" if isinstance(cursor.term, Guard) else "select"
    predicate = cursor.term.predicate
    opened = cursor.scope.predicate(predicate)
    if proves(cursor.scope.facts, opened) and proves(cursor.safe_scope.facts, opened):
        return work.attempt(f"{kind}_true", cursor.path)
    if proves(cursor.scope.facts, pred.negation(opened)):
        return work.attempt(f"{kind}_false", cursor.path)
    return False


def implied(parts: Sequence[pred.Predicate], *scopes: Scope) -> tuple[list[pred.Predicate], list[pred.Predicate]]:
    """Split conditions into those to keep and those that the kept ones imply in each of these scopes.

    [0 <= k ∧ A[k] = 1] implies 0 <= k, since reads outside A are zero. But 0 <= k is kept, because it makes A[k] safe.
    """
    stay, dropped = list(parts), []
    for part in parts:
        rest = [other for other in stay if other != part]
        known = pred.conjunction(other for other in rest if not reads_by(other, part))
        if rest and all(proves(at.assume(at.predicate(known)).facts, at.predicate(part)) for at in scopes):
            stay = rest
            dropped.append(part)
    return stay, dropped


def reads_by(other: pred.Predicate, part: pred.Predicate) -> bool:
    """Return True if a condition reads elements at indices that another condition constrains."""
    terms = (term for e in pred.expressions(part) for term, _ in e.terms)
    spoken = {atom for term in terms for atom in term if not isinstance(atom, Size)}
    reads = (atom for atom in pred.atoms_of(other) if isinstance(atom, Read))
    return any(at in spoken for read in reads for position in read.indices for at in atoms(position))


def _without_implied(work: Derivation, cursor: Cursor, parts: Sequence[pred.Predicate]) -> bool:
    """Drop the conjuncts that the others imply, in one step if possible."""
    stay, dropped = implied(parts, cursor.scope, cursor.safe_scope)
    if not dropped:
        return False
    if work.attempt("guard_implied", cursor.path, p=pred.conjunction(stay), q=pred.conjunction(dropped)):
        return True
    for position, part in enumerate(dropped):
        work.rewrite("guard_implied", cursor.path, p=pred.conjunction((*dropped[position + 1 :], *stay)), q=part)
    return True


def guard_reads(work: Derivation, below: Path) -> None:
    """Guard the reads below a place that are no longer proved safe, because their guards are elsewhere.

    v[k]  →  [0 <= k ∧ k < n] · v[k], without the conditions that are known there.
    """
    unsafe = [path for path, _ in unsafe_accesses(work.goal, below) if isinstance(work.term(path), Access)]
    for path in sorted(unsafe, key=len, reverse=True):
        work.rewrite("access_guard", path)
    if unsafe:
        work.repeat(["guard_access", "guard_guard"], below)
        simplify_guards(work, below)


# -- solving for an index ---------------------------------------------------------------------------------------------


@tactic
def solve_for_index(work: Derivation, name: arg.Loop | None = None) -> None:
    """Solve conditions that determine a loop's index: [i = j*m + k] with 0 <= k < m → [j = i // m ∧ k = i % m].

    Equations where the index has factor 1 or -1 are solved directly. For each guard, the loops around it are tried from
    the nearest on; `name` selects one.

    >>> s = reschedule(atl.parse(
    ...     "f (A : float32[n, 4], m : size) : float32[m] "
    ...     ":= ⊞[i < m] Σ[j < n] Σ[k < 4] [i = 4*j + k] · A[j, k]"))
    >>> s.solve_for_index()
    f (A : float32[n, 4], m : size) : float32[m] :=
      ⊞[i < m] Σ[j < n] Σ[k < 4] [j = i // 4 ∧ k = i % 4] · A[j, k]
    """
    before = work.taken
    meant = None if name is None else {cursor.path for cursor in every(work.goal, name)}
    for cursor in list(work.cursors(top_down=True)):
        if isinstance(cursor.term, Guard) and cursor.above is not None:
            for position in _loops_around(cursor, meant):
                if _solve(work, cursor, position):
                    break
    if work.taken == before:
        raise DoesNotApply(
            "no guard determines an index other than by index = …",
            required="a guard with an equation, or a pair of bounds, that determines the index of a loop around it",
        )


def _loops_around(cursor: Cursor, meant: set[Path] | None) -> list[int]:
    """Return the de Bruijn positions of the indices to solve for, the nearest loop first."""
    loops = [above for above in reversed(cursor.spine()[:-1]) if isinstance(above.term, Gen | Reduce)]
    return [position for position, above in enumerate(loops) if meant is None or above.path in meant]


def _solve(work: Derivation, cursor: Cursor, position: int) -> bool:
    assert isinstance(cursor.term, Guard)
    predicate = cursor.term.predicate
    parts = pred.conjuncts(predicate)
    return any(
        candidate != predicate and work.attempt("guard_equivalent", cursor.path, q=candidate)
        for candidate in _solutions(parts, bound(position))
    )


def _solutions(parts: Sequence[pred.Predicate], variable: Index) -> list[pred.Predicate]:
    """Return possibly equivalent conditions with the variable alone on one side of an equation."""
    out: list[pred.Predicate] = []
    for position, part in enumerate(parts):
        rest = [other for k, other in enumerate(parts) if k != position]
        for factor, remainder in linear_in(part, variable):
            if factor.constant is not None and factor.constant < 2:
                continue
            value = floordiv(-remainder, factor, positive=True)
            if isinstance(part, pred.Zero):
                out += _digits(part, variable, factor, rest)
                out += [pred.conjunction([pred.equal(variable, value), *rest])]
                out += [
                    pred.conjunction(
                        [pred.equal(variable, value), pred.equal(-remainder - factor * value, index(0)), *rest]
                    )
                ]
            elif isinstance(part, pred.NonNegative):
                out += [
                    pred.conjunction([pred.equal(variable, value), *(o for o in rest if o != other)])
                    for other in rest
                    if isinstance(other, pred.NonNegative)
                ]
    return out


def _digits(part: pred.Predicate, variable: Index, factor: Index, rest: list[pred.Predicate]) -> list[pred.Predicate]:
    """Solve t = factor * variable + digit: the variable is t // factor and the digit t % factor."""
    out: list[pred.Predicate] = []
    for atom in dict.fromkeys(a for e in pred.expressions(part) for a in atoms(e) if isinstance(a, Bound)):
        digit = index(atom)
        if digit == variable:
            continue
        for _, without in linear_in(part, digit):
            whole = -(without - factor * variable)
            for total in (whole, -whole):
                row = floordiv(total, factor, positive=True)
                found = [pred.equal(variable, row), pred.equal(digit, total - factor * row), *rest]
                if variable not in (row, digit):
                    out.append(pred.conjunction(found))
    return out


def linear_in(part: pred.Predicate, variable: Index) -> list[tuple[Index, Index]]:
    """Return factor and remainder if the condition is on factor * variable + remainder, with both signs."""
    if not isinstance(part, pred.Zero | pred.NonNegative):
        return []
    (expression,) = pred.expressions(part)
    atom = variable.atom
    assert atom is not None
    factor = factor_of(expression, atom)
    if factor is None or not factor.terms:
        return []
    remainder = expression - factor * variable
    return [(factor, remainder), (-factor, -remainder)]
