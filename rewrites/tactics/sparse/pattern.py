"""Results with the sparsity pattern of an operand: only their values are stored, and decompression gives the result.

A sparse goal computes a term for each stored entry and scatters it to that entry's position. If these are exactly the
coordinates of one operand, the terms are the values of a tensor in that operand's format.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from atl.core.index import ZERO, Index, bound, shift
from atl.core.predicate import TRUE, Predicate, conjunction, conjuncts, equal
from atl.core.substitution import with_child
from atl.core.terms import Access, Expr, Gen, Guard, Input, Let, Place, Reduce, Reshape
from atl.core.traversal import Path, children
from atl.text.printing import place_of
from rewrites import kernel
from rewrites.derivation import Derivation
from rewrites.errors import DoesNotApply
from rewrites.tactics.nests.guards import conditions
from rewrites.tactics.simplification import OF_ACCESSES, simplify_guards
from rewrites.tactics.sparse.sparsification import how_to_move_let, sparsify

OUTWARD_RULES: Final = ("gen_scatter", "gen_rebase", "place_of_sum", "place_of_guard", "sum_guard", "guard_guard")
"""Rules that move sums outermost, then conditions, then scatters."""
READ_RULES: Final = (*OF_ACCESSES, "place_access", "guard_guard")
REQUIRED: Final = "a result with a value for each entry of the operand, at that entry's coordinates, and nothing else"


@dataclass(frozen=True, slots=True)
class _Scattered:
    """A term Σ … Σ [condition] · place … place e: the sums, the condition, the places, and the leaf e."""

    sums: tuple[Reduce, ...]
    condition: Predicate
    places: tuple[Place, ...]
    leaf: Expr

    @staticmethod
    def of(term: Expr) -> _Scattered:
        """Return the parts of a term, as far as it has this form; the rest is the leaf."""
        sums: list[Reduce] = []
        while isinstance(term, Reduce) and term.monoid == "sum" and term.type.rank:
            sums.append(term)
            term = term.body
        condition: Predicate = TRUE
        if isinstance(term, Guard) and term.type.rank:
            condition, term = term.predicate, term.body
        places: list[Place] = []
        while isinstance(term, Reshape) and isinstance(term.op, Place):
            places.append(term.op)
            term = term.operand
        return _Scattered(tuple(sums), condition, tuple(places), term)

    @property
    def leaf_path(self) -> Path:
        """The path of the leaf in the term."""
        return (0,) * (len(self.sums) + (self.condition != TRUE) + len(self.places))


def sparsify_result(work: Derivation) -> None:
    """Sparsify the goal, and rewrite it to `let values := … in D(values)`, where D(A) is the decompression of the
    operand's arrays.

    Σp place n crd[p] (A_val[p] * e) → let A_out := ⊞[p < nnz] A_val[p] * e in Σp place n crd[p] A_out[p]. The proof
    starts from the let: each value is read where it was scattered, which requires distinct positions. Lets around the
    goal become lets around the values. Raises `DoesNotApply` if the goal does not have the pattern of the operand.
    """
    sparsify(work, bounds=False)
    _add_terms(work)
    packed = work.goal.packed[-1]
    assert packed.result is not None
    (values,) = (array for array in work.goal.inputs if array.name == packed.arrays[-1])
    own = Derivation(kernel.reflexivity(replace(work.goal, body=Let(Input(values), packed.result))), work.rules)
    own.rewrite("unfold_let", ())
    _scatter(own, ())
    pattern = _Scattered.of(own.goal.body)
    root: Path = ()
    while isinstance(work.term(root), Let):
        root = (*root, 1)
    _scatter(work, root)
    _align(work, root, pattern, packed.name)
    found = _Scattered.of(work.term(root))
    stored = _values(found, pattern, values.shape[0])
    made = Let(stored, packed.result, f"{packed.name}_out")
    start = replace(work.goal, body=_replaced(work.goal.body, root, made))
    unfolded = _unfolded(Derivation(kernel.reflexivity(start), work.rules), root, found, packed.name)
    for step in reversed(unfolded.theorem.steps):
        work.apply(step.rule, step.path, step.arguments, reverse=not step.reverse)
    work.show(start.body)
    while root:
        root = root[:-1]
        work.rewrite("let_let", root, reverse=True)


def _replaced(term: Expr, path: Path, new: Expr) -> Expr:
    """Replace the subterm at a path."""
    if not path:
        return new
    return with_child(term, path[0], _replaced(children(term)[path[0]].expr, path[1:], new))


def _add_terms(work: Derivation) -> None:
    """Combine sums over the same entries: (Σp place n crd[p] a) + (Σp place n crd[p] b) → Σp place n crd[p] (a + b)."""
    names = ["gen_add", "sum_add", "place_of_add", "guard_add", "gen_sub", "sum_sub", "place_of_sub", "guard_sub"]
    while work.sweep(names, reverse=True, top_down=True, where=lambda path: bool(work.term(path).type.rank)):
        pass


def _scatter(work: Derivation, root: Path) -> None:
    """Rewrite the term at a path to the form Σ … Σ [condition] · place … place e, as far as possible."""

    def stored(path: Path) -> bool:
        return all(work.term(path[:length]).type.rank for length in range(len(root), len(path) + 1))

    while work.sweep(OUTWARD_RULES, root, where=stored):
        pass


def _align(work: Derivation, root: Path, pattern: _Scattered, name: str) -> None:
    """Reorder the sums like those of the pattern. Raises `DoesNotApply` if the goal scatters its terms elsewhere."""
    for number, wanted in enumerate(pattern.sums):
        sums = _Scattered.of(work.term(root)).sums
        at = next((k for k in range(number, len(sums)) if _same_range(sums[k], wanted, k - number)), None)
        if at is None:
            raise _without_sum(work, root, wanted, number, name)
        for k in range(at, number, -1):
            if not work.attempt("sum_swap", (*root, *(0,) * (k - 1))):
                raise _off_pattern(work, name, "its sums are in an order that cannot be changed")
    found = _Scattered.of(work.term(root))
    if len(found.sums) > len(pattern.sums):
        raise _off_pattern(work, name, "an element is a sum over entries of several operands")
    if found.places != pattern.places or found.leaf.type.rank:
        raise _off_pattern(work, name, f"its elements are not at the positions of those of {name}")
    both = conjunction(dict.fromkeys((*conjuncts(pattern.condition), *conjuncts(found.condition))))
    if both != found.condition and not work.attempt("guard_equivalent", (*root, *(0,) * len(found.sums)), q=both):
        raise _off_pattern(work, name, f"it has elements where {name} has no entries")


def _same_range(found: Reduce, wanted: Reduce, further: int) -> bool:
    """Return True if a sum has the wanted range, after shifting `wanted` by `further` binders."""
    return (found.low, found.high) == (shift(wanted.low, further), shift(wanted.high, further))


def _without_sum(work: Derivation, root: Path, wanted: Reduce, number: int, name: str) -> DoesNotApply:
    """Return the error for a goal without a sum of the pattern, or with this sum inside of a let within a loop."""
    found = _Scattered.of(work.term(root))
    inner = _Scattered.of(found.leaf.body).sums if isinstance(found.leaf, Let) else ()
    if not any(_same_range(each, wanted, len(found.sums) + k - number) for k, each in enumerate(inner)):
        return _off_pattern(work, name, f"it does not sum over the entries of {name}")
    path = (*root, *found.leaf_path)
    (let,) = (cursor.called[0] for cursor in work.cursors() if cursor.path == path)
    return _off_pattern(
        work,
        name,
        f"the sum over the entries of {name} is inside of the let {let}, which is within a loop",
        (*how_to_move_let(let), "assemble the result: s.sparsify without result=True, then s.assemble(…)"),
    )


def _off_pattern(work: Derivation, name: str, why: str, suggestions: tuple[str, ...] = ()) -> DoesNotApply:
    return DoesNotApply(
        f"the result does not have the pattern of {name}: {why}",
        place=place_of(work.goal, ()),
        required=REQUIRED,
        suggestions=suggestions,
    )


def _values(found: _Scattered, pattern: _Scattered, count: Index) -> Expr:
    """Return the values: each term at the position of the operand's own value."""
    assert isinstance(pattern.leaf, Access)
    at = pattern.leaf.index
    if len(found.sums) == 1 and found.condition == TRUE and at == bound(0) and found.sums[0].low == ZERO:
        (whole,) = found.sums
        return Gen(ZERO, count, found.leaf, whole.name)
    body: Expr = Reshape(Place(count, at), found.leaf)
    if found.condition != TRUE:
        body = Guard(found.condition, body)
    for each in reversed(found.sums):
        body = replace(each, body=body)
    return body


def _unfolded(work: Derivation, root: Path, wanted: _Scattered, name: str) -> Derivation:
    """Rewrite the let of the values to the scattered terms, by reading each value where it was scattered."""
    work.rewrite("unfold_let", root)
    _scatter(work, root)
    path = (*root, *_Scattered.of(work.term(root)).leaf_path)
    work.repeat(work.known(READ_RULES), path)
    _eliminate_inner_sums(work, path, len(wanted.sums), name)
    simplify_guards(work, path)
    _scatter(work, root)
    found = _Scattered.of(work.term(root))
    if found.condition != wanted.condition:
        work.attempt("guard_equivalent", (*root, *(0,) * len(found.sums)), q=wanted.condition)
    return work


def _eliminate_inner_sums(work: Derivation, path: Path, count: int, name: str) -> None:
    """Eliminate sums by injectivity: Σp' [position(p') = position(p) ∧ q(p')] · e(p') → [q(p)] · e(p)."""
    inner = 0
    while isinstance(work.term((*path, *(0,) * inner)), Reduce) and inner < count:
        inner += 1
    if not inner or not isinstance(work.term((*path, *(0,) * inner)), Guard):
        return
    inside = (*path, *(0,) * inner)
    met = [equal(bound(k), bound(count + k)) for k in range(inner)]
    parts = conditions(work, inside)
    if not work.attempt("guard_equivalent", inside, q=conjunction((*met, *parts))):
        raise DoesNotApply(
            f"it is not proved that the entries of {name} have distinct positions",
            place=place_of(work.goal, inside),
            required="an operand in which each position has at most one entry",
        )
    for length in range(inner - 1, -1, -1):
        at = (*path, *(0,) * length)
        outer = bound(count - 1)
        if not (work.attempt("sum_delta", at, a=outer) or work.attempt("sum_delta_only", at, a=outer)):
            raise DoesNotApply(
                f"the sum over entries of {name} cannot be eliminated", place=place_of(work.goal, at), required=REQUIRED
            )
