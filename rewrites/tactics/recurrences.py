"""Recurrences: closed forms of their rows, proved by induction, in both directions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final

from atl.checks.scope import outermost
from atl.core import terms
from atl.core.index import ONE, ZERO, Bound, Index, Leaf, Size, atoms, bound, constant, index, map_leaves
from atl.core.predicate import Predicate, at_most, equal, expressions
from atl.core.substitution import free_positions, types_around
from atl.core.traversal import Path, children, subterms
from atl.errors import ATLError, InvalidArgument, brief
from atl.prove import proves
from atl.prove.prover import contradictory
from atl.surface.operators import parameters
from atl.text.printing import place_of, show_index, show_predicate
from rewrites import kernel
from rewrites.cursors.cursor import Cursor
from rewrites.cursors.targets import Target, every, one
from rewrites.derivation import Derivation, argument_of
from rewrites.egraph.equality import replace_at
from rewrites.errors import DoesNotApply, NotATheorem, NotFound
from rewrites.induction import ROWS, Goal, arguments_for
from rewrites.kernel import Theorem, reflexivity, symmetry, transitivity
from rewrites.matching.match import function_of
from rewrites.rule_arguments import Argument, Function, Parameter, abstracted, of_indices, substituted
from rewrites.tactics import arg
from rewrites.tactics.simplification import reduce_accesses, simplify_guards
from rewrites.tactics.storage.binding import check_name
from rewrites.tactics.tactic import tactic

ONE_TERM: Final = (
    "gen_one",
    "rec_empty",
    "rec_one",
    "rec_get_first",
    *(f"{monoid}_{of}" for monoid in terms.MONOIDS for of in ("one", "empty")),
)
"""Rules for loops without iterations, for those of one iteration, and for the first rows of recurrences."""
RESCALED: Final = ("sum_exp_rescale", "weighted_sum_exp_rescale")
"""Rules by which a step changes what was subtracted in earlier exponents."""
NEUTRAL: Final = {"add": (0,), "mul": (0, 1)}
"""Literals with which an operation is its other operand or that literal."""
MOST_SWEEPS: Final = 20
MOST_CASES: Final = 8
"""Maximum number of conditions for which a proof distinguishes cases."""
FIRST_ROWS: Final = (0, 1, 2)
"""Numbers that a case may determine an index to be."""
SECONDS: Final = 0.5
"""Time limit of the search for a proof that a term is the result of the last row."""


@tactic
def induct(
    work: Derivation,
    rows: arg.Recurrence,
    formula: Callable[..., Any],
    *,
    base: Theorem | None = None,
    step: Theorem | None = None,
) -> None:
    """Replace a recurrence by a formula for its rows, proved by induction: rec[lo <= p < n] y … → ⊞[p < n] f(p).

    `rows` names the recurrence or its tensor, and `formula` is a function of an index. A further parameter that has the
    name of a loop or let around the recurrence is its index or tensor. Two equations are proved. The first rows are
    those of the formula (`base`), and the body makes row p of the formula from its p rows before (`step`). The formula
    may contain other recurrences: their row p is computed from the rows before. Where the search finds no proof, pass a
    theorem with the two sides that `s.induction_goals` returns.

    Raises `NotFound` with the equation that was not proved, and with numbers if it is false.

    >>> s = reschedule(atl.parse(
    ...     "prefix (x : float32[n]) : float32[n] given 1 <= n "
    ...     ":= rec[1 <= p < n] y from ⊞[i < 1] x[i] in y[p - 1] + x[p]"))
    >>> x = atl.tensor("x", atl.sizes("n"))
    >>> s.induct("y", lambda p: atl.sum(p + 1, lambda k: x[k]))
    prefix (x : float32[n]) : float32[n]
        given 1 <= n :=
      ⊞[p < n] Σ[k < p + 1] x[k]
    """
    cursor, arguments = recurrence_with(work, rows, formula)
    goals = kernel.induction_goals(work.theorem, cursor.path, arguments)
    theorems = [
        proved(name, goal, work, passed=name) if given is None else _checked(name, goal, given)
        for name, goal, given in zip(("base", "step"), goals, (base, step), strict=True)
    ]
    assert isinstance(cursor.term, terms.Rec)
    name = cursor.term.name
    work.induction(cursor.path, arguments, *theorems)
    work.rename(cursor.path, name)


@tactic
def recur(
    work: Derivation,
    what: arg.Term,
    rows: arg.Rows,
    formula: arg.Row,
    step: arg.NextRow,
    *,
    result: arg.OfLastRow = None,
    first: arg.Rows = 1,
    start: arg.FirstRows = None,
    name: arg.NewName = "y",
    lemma: Theorem | None = None,
) -> None:
    """Compute a term by a recurrence, the inverse of `induct`: f(n - 1) → (rec[k <= p < n] y … in step(p, y))[n - 1].

    Row p of the recurrence is formula(p). The `first` rows are computed by start(p), by default the formula, and row p
    after them by step(p, y) from the p rows before. With `result`, a function of the last row, the term is
    result(f(n - 1)). A further parameter of a function that has the name of a loop or let around the term is its index
    or tensor.

    It is proved that the term is the result, that start(p) equals f(p), and that step(p, ⊞[q < p] f(q)) equals f(p).
    Where the search does not find the last proof, pass it as `lemma`, as for `induct`. Raises `NotFound` with the
    equation.

    >>> s = reschedule(atl.parse("f (x : float32[n]) : float32 given 1 <= n := Σ[i < n] x[i]"))
    >>> n = atl.sizes("n")
    >>> x = atl.tensor("x", n)
    >>> s.recur("Σ[i < n] _", n, lambda p: atl.sum(p + 1, lambda i: x[i]), lambda p, y: y[p - 1] + x[p])
    f (x : float32[n]) : float32
        given 1 <= n :=
      (rec[1 <= p < n] y from ⊞[p < 1] Σ[i < p + 1] x[i] in y[p - 1] + x[p])[n - 1]
    """
    check_name(name)
    cursor = one(work.goal, what)
    many, few = (_index_at(work, cursor, label, value) for label, value in (("rows", rows), ("first", first)))
    if not work.can_prove(cursor.path, at_most(ONE, many)):
        raise DoesNotApply(
            f"a recurrence of {show_index(cursor.scope.index(many))} rows is not proved to have a last row",
            place=place_of(work.goal, cursor.path),
            required=show_predicate(cursor.scope.predicate(at_most(ONE, many))),
            suggestions=("assume it: atl.sizes(…, min=1), or reschedule(…, given=[…])",),
        )
    of_row = function_at(cursor, "formula", formula, of_indices(1))
    last = substituted(of_row.body, (many - 1,), ())
    assert isinstance(last, terms.Expr)
    path = cursor.path
    if result is not None:
        of_last = function_at(cursor, "result", result, (last.type,))
        assert isinstance(of_last.body, terms.Expr)
        _show_as(work, path, substituted(of_last.body, (), (last,)))
        work.apply(work.rule("unfold_let"), path, {"x": last, "e": of_last}, reverse=True)
        work.rename(path, "last")
        path = (*path, 0)
    else:
        _show_as(work, path, last)
    work.apply(work.rule("get_gen"), path, {"lo": ZERO, "hi": many, "e": of_row, "k": many - 1}, reverse=True)
    path = (*path, 0)
    of_start = of_row if start is None else function_at(cursor, "start", start, of_indices(1))
    assert isinstance(of_start.body, terms.Expr)
    begin = terms.Gen(ZERO, few, of_start.body, "p")
    of_step = function_at(cursor, "step", step, ("index", terms.rows_before(begin.type, bound(0), 1)))
    arguments: dict[str, Argument] = {"hi": many, "x": begin, "e": of_step, "f": of_row}
    base, following = kernel.induction_goals(work.theorem, path, arguments)
    proofs = (
        proved("base", base, work),
        proved("step", following, work, passed="lemma") if lemma is None else _checked("lemma", following, lemma),
    )
    work.induction(path, arguments, *proofs, reverse=True)
    work.rename(path, "p")
    work.rename(path, name, binder=1)


def _index_at(work: Derivation, cursor: Cursor, name: str, value: object) -> Index:
    """Return an index that is passed as a number, a size, an expression or a string."""
    made = work.settled({name: argument_of(name, ROWS.metavariables["hi"], value)}, cursor.path)[name]
    assert isinstance(made, Index)
    return made


def function_at(
    cursor: Cursor,
    what: str,
    function: object,
    own: tuple[Parameter, ...],
    convert: Callable[[Any], object] = lambda made: made,
) -> Function:
    """Return a user's function at a place. After its own parameters, it may name loops and lets around the place.

    `convert` converts what the function returns.
    """
    if isinstance(function, Function) and function.parameters == own:
        return function
    if not callable(function):
        raise InvalidArgument(f"{what}={brief(function)}", required="a function")
    indices, tensors = cursor.names.indices, cursor.names.tensors
    around = [*indices, *tensors]
    named = parameters(function)[0][len(own) :]
    unknown = [each for each in named if each not in around]
    if unknown or len(parameters(function)[0]) < len(own):
        raise InvalidArgument(
            f"{what} has the parameter {unknown[0]}, which is not a loop or let around the term"
            if unknown
            else f"{what} has too few parameters",
            required=f"{len(own)} parameter{'s' * (len(own) > 1)}, and then names out of {', '.join(around) or 'none'}",
        )
    spine = [(above.term, below.path[-1]) for above, below in zip(cursor.spine(), cursor.spine()[1:], strict=False)]
    types = types_around(spine, len(tensors))
    count = sum(parameter == "index" for parameter in own)

    def under_own(of: terms.Type) -> terms.Type:
        return terms.Type(of.dtype, tuple(map_leaves(e, lambda leaf: _lifted(leaf, count)) for e in of.shape))

    outer: tuple[Parameter, ...] = (*of_indices(len(indices)), *map(under_own, types))
    at = {name: position for position, name in enumerate(around)}

    def call(*given: object) -> object:
        return convert(function(*given[len(outer) :], *(given[at[name]] for name in named)))

    return Function(own, abstracted((*outer, *own), call).body)


def _lifted(leaf: Leaf, by: int) -> Index:
    return bound(leaf.position + by) if isinstance(leaf, Bound) else index(leaf)


def _show_as(work: Derivation, path: Path, wanted: terms.Expr) -> None:
    """Rewrite a term to another one that is proved to be equal. Raises `NotFound`."""
    from rewrites.egraph.equality import LIMIT, prove_equal

    if work.term(path) == wanted:
        return
    goal = work.goal
    other = Derivation(reflexivity(replace(goal, body=replace_at(goal.body, path, wanted))), work.rules)
    for side in (work, other):
        simplify_rows(side, path)
    if work.term(path) != other.term(path):
        try:
            prove_equal(work, other.goal, replace(LIMIT, seconds=SECONDS))
        except ATLError as error:
            raise NotFound(
                "the term differs from the result of the last row"
                if error.numbers
                else "no proof was found that the term is the result of the last row",
                left=str(work.goal),
                right=str(other.goal),
                difference="",
                required=f"equal programs\n{work.goal}\nand\n{other.goal}",
                numbers=error.numbers or {},
            ) from error
    work.follow(symmetry(other.theorem))


def induction_goals(work: Derivation, rows: Target, formula: Callable[..., Any]) -> tuple[Goal, Goal]:
    """Return the two equations that `induct` needs: programs with the attributes `lhs` and `rhs`."""
    cursor, arguments = recurrence_with(work, rows, formula)
    return kernel.induction_goals(work.theorem, cursor.path, arguments)


def recurrence_with(work: Derivation, rows: Target, formula: Callable[..., Any]) -> tuple[Cursor, dict[str, Argument]]:
    """Return the place of a recurrence, and the arguments of an induction with this formula for its rows."""
    cursor = find_recurrence(work, rows)
    assert isinstance(cursor.term, terms.Rec)
    return cursor, arguments_for(cursor.term, function_at(cursor, "formula", formula, of_indices(1)))


def find_recurrence(work: Derivation, rows: Target) -> Cursor:
    """Return the first selected recurrence. Raises `DoesNotApply` if there is none."""
    found = [cursor for cursor in every(work.goal, rows) if isinstance(cursor.term, terms.Rec)]
    if not found:
        raise DoesNotApply(f"{brief(rows)} is not a recurrence", required="the name of a recurrence, or of its tensor")
    return found[0]


def _checked(name: str, goal: Goal, given: Theorem) -> Theorem:
    if not isinstance(given, Theorem):
        raise InvalidArgument(f"{name}={brief(given)}", required="a theorem with the sides of this equation")
    if given.lhs != goal.lhs or given.rhs != goal.rhs:
        raise NotATheorem(
            f"the theorem {name}={given} does not state the equation that the induction needs",
            required=f"a theorem with the sides\n{goal.lhs}\nand\n{goal.rhs}",
        )
    return given


def proved(name: str, goal: Goal, work: Derivation, *, passed: str | None = None) -> Theorem:
    """Prove an equation. Raises `NotFound`; `passed` is the argument for a theorem that was proved by hand."""
    from rewrites.egraph.equality import LIMIT, prove_equal

    if contradictory(outermost(goal.lhs).facts):
        raise DoesNotApply(
            "the recurrence has no rows after the first ones, or is never computed",
            required="a row to be computed: its assumptions are "
            + " and ".join(map(show_predicate, goal.lhs.assumptions)),
        )
    left, right = (Derivation(reflexivity(side), work.rules) for side in (goal.lhs, goal.rhs))
    if left.goal.body == right.goal.body:
        return left.theorem
    for side in (left, right):
        side.attempt("gen_empty", ())
        simplify_rows(side)
        if name == "base":
            _start_folds_at_zero(side)
    if left.goal.body != right.goal.body:
        _peel(right, goal.row if name == "step" else None)
        for side in (left, right):
            simplify_rows(side)
            _start_folds_at_zero(side)
            side.sweep(side.known(RESCALED))
    _split_cases(left, right)
    if left.goal.body != right.goal.body:
        before = left.checkpoint
        try:
            prove_equal(left, right.goal, LIMIT)
        except ATLError as error:
            left.rollback(before)
            if error.numbers or not _rows_computed(left, right):
                raise _open(name, goal, error, passed) from error
            _split_cases(left, right)
            try:
                if left.goal.body != right.goal.body:
                    prove_equal(left, right.goal, LIMIT)
            except ATLError:
                raise _open(name, goal, error, passed) from error
    return transitivity(left.theorem, symmetry(right.theorem))


def _split_cases(left: Derivation, right: Derivation) -> None:
    """Distinguish whether a condition on sizes holds, until both sides are equal or no condition is left."""
    cases: list[Path] = [()]
    for _ in range(MOST_CASES):
        different = [path for path in cases if left.term(path) != right.term(path)]
        found = ((path, each) for path in different for side in (left, right) for each in _conditions(side, path))
        path, condition = next(found, ((), None))
        if condition is None:
            return
        for side in (left, right):
            given: dict[str, Argument] = {"p": condition, "e": side.term(path)}
            side.apply(side.rule("select_same"), path, given, reverse=True)
            for branch in (0, 1):
                insert_known(side, (*path, branch), condition)
                simplify_rows(side, (*path, branch))
        cases.remove(path)
        cases += [(*path, 0), (*path, 1)]


def insert_known(work: Derivation, path: Path, condition: Predicate) -> None:
    """Replace the sizes in a condition by numbers, where the case at a path determines them."""
    facts = work.cursor(path).scope.facts
    for size in dict.fromkeys(atom for e in expressions(condition) for atom in atoms(e) if isinstance(atom, Size)):
        value = next((value for value in FIRST_ROWS if proves(facts, equal(index(size), constant(value)))), None)
        body = function_of(work.term(path), (index(size),))
        if value is not None and index(size) != constant(value) and body != work.term(path):
            given: dict[str, Argument] = {"a": index(size), "b": constant(value), "e": Function(of_indices(1), body)}
            work.attempted(work.rule("equal_index"), path, given, reverse=False)


def _conditions(work: Derivation, below: Path) -> Iterator[Predicate]:
    """Yield the conditions of guards and selections that depend on sizes only."""
    for cursor in work.cursors(below, top_down=True):
        if isinstance(cursor.term, terms.Guard | terms.Select) and not any(
            e.loose for e in expressions(cursor.term.predicate)
        ):
            yield cursor.term.predicate


def _rows_computed(left: Derivation, right: Derivation) -> bool:
    """Compute the rows of other recurrences that the right side reads, by one step; return whether there are any.

    A row that remains is read from a recurrence that ends with it, on both sides.
    """
    before = right.taken
    right.sweep(["rec_get"])
    if right.taken == before:
        return False
    right.sweep(["unfold_let"])
    for side in (left, right):
        simplify_rows(side)
        for cursor in list(side.cursors()):
            if isinstance(cursor.term, terms.Access) and isinstance(cursor.term.tensor, terms.Rec):
                side.attempt("rec_truncate", cursor.path, m=cursor.term.index + 1)
    return True


def simplify_rows(work: Derivation, below: Path = ()) -> None:
    """Compute elements of generations, and loops of one iteration. Then inline the innermost lets, and start again."""
    for _ in range(MOST_SWEEPS):
        before = work.taken
        reduce_accesses(work, below)
        work.sweep(work.known(ONE_TERM), below, where=lambda path: not _is_constant(work.term(path)))
        simplify_guards(work, below)
        _drop_neutral(work, below)
        work.sweep(work.known(["unfold_let"]), below, where=lambda path: not _contains_let(work.term(path)))
        if work.taken == before:
            return


def _drop_neutral(work: Derivation, below: Path) -> None:
    """Drop literals 0 and padding that are added, and products with literals 0 and 1."""

    def is_first(path: Path) -> bool:
        term = work.term(path)
        assert isinstance(term, terms.Binary)
        return isinstance(term.left, terms.Constant) and term.left.value in NEUTRAL[term.op]

    for op in NEUTRAL:
        work.sweep(work.known([f"{op}_comm"]), below, where=is_first)
    work.sweep(work.known(["mul_zero", "add_zero", "mul_one", "nothing_add", "add_nothing"]), below)


def _start_folds_at_zero(work: Derivation) -> None:
    """Shift the indices of folds so that they start from zero."""
    work.sweep(work.known([f"{monoid}_rebase" for monoid in terms.MONOIDS]), where=partial(_is_shifted, work))


def _is_shifted(work: Derivation, path: Path) -> bool:
    """Return whether this is a fold whose index does not start from zero."""
    term = work.term(path)
    return isinstance(term, terms.Reduce) and term.low != ZERO


def _contains_let(term: terms.Expr) -> bool:
    return any(isinstance(at, terms.Let) for child in children(term) for at in subterms(child.expr))


def _is_constant(term: terms.Expr) -> bool:
    """Return whether this is a generation whose elements do not depend on its index."""
    return isinstance(term, terms.Gen) and 0 not in free_positions(term.body)[0]


def _peel(work: Derivation, row: Index | None) -> None:
    """Split the terms off each fold that it does not have in the row before; without rows, the last term.

    The terms of the row before come first.
    """

    def before(leaf: Leaf) -> Index:
        return index(leaf) - ONE if index(leaf) == row else index(leaf)

    for cursor in list(work.cursors()):
        term = cursor.term
        if not isinstance(term, terms.Reduce):
            continue
        low, high = (map_leaves(end, before) for end in (term.low, term.high))
        if row is None and term.high.constant is None:
            high = term.high - ONE
        if high != term.high:
            work.attempt(f"split_{term.monoid}", cursor.path, k=high)
        elif low != term.low and work.attempt(f"split_{term.monoid}", cursor.path, k=low):
            work.attempt(f"{terms.OF_MONOID[term.monoid]}_comm", cursor.path)


def _open(name: str, goal: Goal, error: ATLError, passed: str | None) -> NotFound:
    """Return the error for an equation that was not proved."""
    differ = bool(error.numbers)
    what = "the first rows" if name == "base" else "the next row"
    return NotFound(
        f"the formula differs from {what}" if differ else f"no proof was found for {what} of the formula ({name})",
        left=str(goal.lhs),
        right=str(goal.rhs),
        difference="",
        required=f"equal programs\n{goal.lhs}\nand\n{goal.rhs}",
        numbers=error.numbers or {},
        suggestions=() if differ or passed is None else (f"prove it by hand, and pass the theorem as {passed}=…",),
    )
