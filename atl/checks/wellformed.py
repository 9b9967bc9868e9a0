"""Well-formedness of programs: the checks that need facts about sizes and indices.

Shapes must be equal where Fig. 3.4 (as corrected by E5) requires it. Ranges must not run backwards. Divisors and tile
sizes must be positive, and amounts of padding and truncation must be in range. A condition that is not *proved* is
refused, with a counterexample if the prover finds one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import assert_never

from atl import errors
from atl.checks.scope import Scope, outermost, parts_in_scope
from atl.core import dtypes, terms
from atl.core.index import ZERO, Array, Index, Read, Size, Var, atoms, index, shift
from atl.core.predicate import FALSE, Predicate, at_most, conjuncts, equal, expressions, less, negation, within
from atl.core.program import Program, Result, bounds_of, needed_by, sizes_in, total
from atl.core.substitution import strengthen
from atl.core.terms import Expr, Input, TensorVar
from atl.core.traversal import Path, arrays_in, children, divisors, indices_in, never_negative, subterms
from atl.errors import EscapedIndex, InvalidName, Location
from atl.prove import Facts, Proved, Refuted, contradictory, prove, proves
from atl.text.printing import place_of, show_predicate


@dataclass(frozen=True, slots=True)
class ShapeText:
    """A shape that is converted to text lazily."""

    extents: tuple[Index, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.extents))})"


@dataclass(frozen=True, slots=True)
class Obligation:
    """A goal that must be provable at a place, and the error otherwise.

    The texts are format strings with fields, such as {0} for the first item of `about`, and are filled in only for an
    error. If the goal is proved false, so that no guard can help, `advice_if_never` replaces `advice`.
    """

    goal: Predicate
    error: type[errors.ATLError]
    message: str
    requirement: str
    about: tuple[Index | str | int | ShapeText, ...] = ()
    advice: tuple[str, ...] = ()
    advice_if_never: tuple[str, ...] | None = None

    @property
    def summary(self) -> str:
        return self._filled(self.message)

    @property
    def required(self) -> str:
        return self._filled(self.requirement)

    def suggestions(self, facts: Facts) -> tuple[str, ...]:
        """Return the suggestions for these facts."""
        advice = self.advice_if_never
        if advice is None or not proves(facts, negation(self.goal)):
            advice = self.advice
        return tuple(map(self._filled, advice))

    def _filled(self, text: str) -> str:
        return text.format(*self.about)


def check_wellformed(program: Program) -> None:
    """Raise the first error of a program, from the outside in and from left to right."""
    scope = outermost(program)
    if contradictory(scope.facts):
        raise errors.ContradictoryAssumptions(
            f"no sizes satisfy the assumptions of {program.name}",
            required=" and ".join(show_predicate(assumption) for assumption in program.assumptions),
            suggestions=("remove a condition in given=[…], or a min= of a size",),
        )
    check_meaning(program)


def check_meaning(program: Program) -> None:
    """Raise the first error of a program, without a check that its assumptions are satisfiable."""
    for error in meaning_errors(program):
        raise error


def meaning_errors(program: Program) -> Iterator[errors.ATLError]:
    """Yield all errors of a program, from the outside in and from left to right."""
    scope = outermost(program)
    for array in program.inputs:
        for expression in (*array.shape, *(fact.bound for fact in bounds_of(array))):
            yield from undischarged(program, (), scope, positive_divisors(expression))
    for path, at, here in parts_in_scope(program.body, scope):
        yield from undischarged(program, path, here, obligations(at, here))
    yield from undischarged(program, (), scope, _of_results(program))


def _of_results(program: Program) -> Iterator[Obligation]:
    """Yield the obligations that the body has the elements of the results."""
    if not program.results:
        return
    for result in program.results:
        for extent in result.shape:
            yield from positive_divisors(extent)
            yield Obligation(
                at_most(ZERO, extent),
                errors.ExtentError,
                "an extent of the result {0} is {1}",
                "a non-negative extent",
                (result.name, extent),
            )
    (length,) = program.shape
    count = total(program.results)
    yield Obligation(
        equal(length, count),
        errors.ShapeError,
        "the body has {0} elements, but its results have {1}",
        "the elements of the results, one after the other",
        (length, count),
    )


def undischarged(program: Program, path: Path, scope: Scope, needed: Iterator[Obligation]) -> Iterator[errors.ATLError]:
    """Yield the error of each obligation that is not proved."""
    for obligation in needed:
        answer = prove(scope.facts, obligation.goal)
        if isinstance(answer, Proved):
            continue
        refuted = isinstance(answer, Refuted)
        suggestions = obligation.suggestions(scope.facts)
        yield obligation.error(
            obligation.summary if refuted else f"{obligation.summary}, as far as can be proved",
            place=place_of(program, path),
            required=f"{obligation.required}{_given(scope)}",
            numbers=answer.model.numbers if isinstance(answer, Refuted) else None,
            suggestions=suggestions if refuted else (*suggestions, _MORE_FACTS),
        )


_MORE_FACTS = "declare facts about sizes: atl.sizes(…, min=…), or atl.program(…, given=[…])"


def _given(scope: Scope) -> str:
    facts = [show_predicate(fact) for fact in scope.facts.predicates]
    return f"  (known here: {', '.join(facts[:8])}{', …' if len(facts) > 8 else ''})" if facts else ""


def obligations(expr: terms.Expr, scope: Scope) -> Iterator[Obligation]:
    """Yield the obligations of a node, without those of its parts."""
    for expression in indices_in(expr):
        if divisors(expression):
            yield from positive_divisors(scope.index(expression))
    for part in type(expr).form.parts:
        if part.indices or part.assumes:
            shape = getattr(expr, part.field).type.shape
            yield from _shape_outside(tuple(shift(extent, -len(part.indices)) for extent in shape), scope)
    match expr:
        case terms.Gen(low, high):
            yield Obligation(
                at_most(scope.index(low), scope.index(high)),
                errors.ExtentError,
                "the range of gen runs backwards: from {0} to {1}",
                "{0} <= {1}",
                (scope.index(low), scope.index(high)),
                ("write atl.imax({0}, {1}) for an empty range",),
            )
        case terms.Rec():
            yield from _of_rows(expr, scope)
        case terms.Binary(op, left, right):
            yield from _same_shape(scope, f"'{op}'", left, right, 0)
        case terms.Select(_, left, right):
            yield from _same_shape(scope, "select", left, right, 0)
        case terms.Where(test, left, right):
            yield from _same_shape(scope, "where", test, left, 0)
            yield from _same_shape(scope, "where", left, right, 0)
        case terms.Concat(left, right):
            yield from _same_shape(scope, "concat", left, right, 1)
        case terms.Reduce(monoid, _, _, body) if monoid != "sum":
            yield from _all_stored(monoid, body)
        case terms.Reshape(op, operand):
            yield from _amount(op, operand, scope)
        case terms.Padding(of):
            yield from _extents_of_padding(scope.shape(of))
        case (
            terms.Reduce() | terms.Guard() | terms.Let() | terms.Access() | terms.Unary() | terms.Cast()
            | terms.Number()
        ):  # fmt: skip
            return  # defined whenever their indices and parts are
        case terms.Named():
            return  # checked at the declaration or binder
        case _:
            assert_never(expr)


def inspects_subterms(expr: terms.Expr) -> bool:
    """Return whether the obligations of a node depend on more than its fields and the types of its parts."""
    match expr:
        case terms.Reduce():
            return True  # bodies of some reductions must not contain guards
        case (
            terms.Gen() | terms.Rec() | terms.Guard() | terms.Let() | terms.Access() | terms.Elementwise()
            | terms.Select() | terms.Concat() | terms.Reshape()
        ):  # fmt: skip
            return False
        case terms.Named() | terms.Number() | terms.Padding():
            return False
        case _:
            assert_never(expr)


def _of_rows(rec: terms.Rec, scope: Scope) -> Iterator[Obligation]:
    """Yield the obligations of a recurrence: it begins with `low` rows, adds none or more, and all have one shape."""
    low, high = scope.index(rec.low), scope.index(rec.high)
    count, *row = scope.shape(rec.init.type)
    if count != low:
        yield Obligation(
            equal(low, count),
            errors.ShapeError,
            "rec begins with {1} rows and continues with row {0}",
            "{0} = {1}",
            (low, count),
        )
    yield Obligation(
        at_most(low, high),
        errors.ExtentError,
        "rec begins with {0} rows, but has {1} rows in all",
        "{0} <= {1}",
        (low, high),
        ("declare a minimum size: atl.sizes(…, min=…)", "write atl.imax({0}, {1}) for no further rows"),
    )
    later = tuple(scope.index(shift(extent, -1, 1)) for extent in rec.body.type.shape)
    for dimension, (a, b) in enumerate(zip(row, later, strict=True)):
        if a != b:
            yield Obligation(
                equal(a, b),
                errors.ShapeError,
                "rec begins with rows of shape {0} and continues with rows of shape {1}",
                "{2} = {3} in dimension {4} of the rows",
                (ShapeText(tuple(row)), ShapeText(later), a, b, dimension),
            )


def _extents_of_padding(shape: tuple[Index, ...]) -> Iterator[Obligation]:
    for extent in shape:
        yield Obligation(
            at_most(ZERO, extent),
            errors.ExtentError,
            "padding of extent {0}, which may be negative",
            "0 <= {0}",
            (extent,),
            ("write atl.imax(0, {0})",),
        )


def _shape_outside(shape: tuple[Index, ...], scope: Scope) -> Iterator[Obligation]:
    """Yield the obligations that a body's shape is defined where the body is not evaluated and yields padding."""
    for extent in shape:
        if never_negative(extent):
            continue
        opened = scope.index(extent)
        yield from positive_divisors(opened)
        if not never_negative(opened):
            yield Obligation(
                at_most(ZERO, opened),
                errors.ExtentError,
                "the extent {0} of the body may be negative where the body is not evaluated",
                "0 <= {0} outside the body too",
                (opened,),
                ("generate atl.imax(0, {0}) elements",),
            )


def positive_divisors(expression: Index) -> Iterator[Obligation]:
    """Yield the obligations that the divisors in an expression are positive."""
    for divisor in divisors(expression):
        yield Obligation(
            less(ZERO, divisor),
            errors.ExtentError,
            "the divisor {0} may be zero or negative",
            "0 < {0}",
            (divisor,),
            _declared_positive(divisor),
        )


def _declared_range(position: Index) -> tuple[str, ...]:
    """Return the suggestion to declare the range of an array whose elements are positions."""
    if not isinstance(position.atom, Read):
        return ()
    return (
        f"declare the range of {position.atom.array.name}, which each call checks: atl.tensor(…, range=(0, {{1}}))",
    )


def _declared_positive(expression: Index) -> tuple[str, ...]:
    return ('declare it with atl.sizes("{0}", min=1)',) if isinstance(expression.atom, Size) else ()


def _same_shape(scope: Scope, what: str, left: terms.Expr, right: terms.Expr, first: int) -> Iterator[Obligation]:
    mine, other = scope.shape(left.type), scope.shape(right.type)
    for dimension, (a, b) in enumerate(zip(mine, other, strict=True)):
        if dimension >= first and a != b:
            yield Obligation(
                equal(a, b),
                errors.ShapeError,
                "{0} has operands of shapes {1} and {2}",
                "{3} = {4} in dimension {5}",
                (what, ShapeText(mine), ShapeText(other), a, b, dimension),
            )


def stores_everything(body: terms.Expr) -> bool:
    """Return whether a reduction other than a sum may have this body: it contains no guard, padding or placed term."""
    return next(_all_stored("max", body), None) is None


def _all_stored(monoid: str, body: terms.Expr) -> Iterator[Obligation]:
    """Yield the obligations that a reduction other than a sum has no padding in its body.

    Padding reads as zero, which would silently enter the result. Arithmetic, reads, let-bound tensors and sums are
    computed values and are accepted.
    """
    match body:
        case terms.Guard():
            yield _unstored(
                monoid,
                "a guard",
                "its zero",
                "write atl.select(p, e, neutral) with the neutral value where p is false",
            )
        case terms.Padding():
            yield _unstored(monoid, "padding", "its zeros", "write the values to be reduced")
        case terms.Reshape(op=terms.Place()):
            yield _unstored(
                monoid,
                "a placed term",
                "the zeros around it",
                "write atl.gen(n, lambda k: atl.select(k == i, e, neutral)) with the neutral value elsewhere",
                "bind a sum of placed terms with a let around the reduction, and read its elements",
            )
        case terms.Gen(body=inner) | terms.Let(body=inner) | terms.Reshape(operand=inner):
            yield from _all_stored(monoid, inner)
        case terms.Reduce(other, body=inner):
            yield from _all_stored(monoid, inner) if other != "sum" else ()
        case terms.Concat(left, right) | terms.Rec(init=left, body=right):
            yield from _all_stored(monoid, left)
            yield from _all_stored(monoid, right)
        case terms.Access() | terms.Elementwise() | terms.Select() | terms.Named() | terms.Number():
            return
        case _:
            assert_never(body)


def _unstored(monoid: str, what: str, zeros: str, *advice: str) -> Obligation:
    """Return an obligation that always fails. Even a guard that is always true must be removed."""
    return Obligation(
        FALSE,
        errors.UnsafeGuard,
        f"a reduction by {{0}} contains {what}, and would include {zeros}",
        f"no {what.split(' ', 1)[-1]} directly in the body",
        (monoid,),
        advice,
    )


def _amount(op: terms.ReshapeOp, operand: terms.Expr, scope: Scope) -> Iterator[Obligation]:
    match op:
        case terms.Split(by):
            amount = scope.index(by)
            yield Obligation(
                less(ZERO, amount),
                errors.ExtentError,
                "split by {0}, which may be zero or negative",
                "0 < {0}",
                (amount,),
                _declared_positive(amount),
            )
        case terms.PadLeft(by) | terms.PadRight(by):
            amount = scope.index(by)
            yield Obligation(
                at_most(ZERO, amount),
                errors.ExtentError,
                "padding by {0}, which may be negative",
                "0 <= {0}",
                (amount,),
                ("truncate to drop elements: atl.truncl, atl.truncr",),
            )
        case terms.TruncateLeft(by) | terms.TruncateRight(by):
            amount, extent = scope.index(by), scope.index(operand.type.shape[0])
            for low, high in ((ZERO, amount), (amount, extent)):
                yield Obligation(
                    at_most(low, high),
                    errors.ExtentError,
                    "a truncation drops {0} of {1} elements",
                    "{2} <= {3}",
                    (amount, extent, low, high),
                    ("to keep k elements, drop {1} - k",),
                )
        case terms.Place(extent, at):
            whole, position = scope.index(extent), scope.index(at)
            yield Obligation(
                within(ZERO, position, whole),
                errors.ExtentError,
                "an element is placed at {0}, which is out of range for extent {1}",
                "0 <= {0} < {1}",
                (position, whole),
                (
                    *_declared_range(position),
                    "guard it inside its sum: atl.guard((0 <= {0}) & ({0} < {1}), atl.place({1}, {0}, …))",
                ),
                ("the positions range from 0 to {1} - 1",),
            )
        case terms.Transpose() | terms.Flatten():
            return
        case _:
            assert_never(op)


# -- construction of checked programs from their parts ----------------------------------------------------------------


def make_program(
    name: str,
    inputs: tuple[Array, ...],
    body: Expr,
    given: Sequence[Predicate] = (),
    results: tuple[Result, ...] = (),
) -> Program:
    """Build and check a program. Untyped literals get the default type, and the `min=` of sizes become assumptions.

    Raises `InvalidName`, `EscapedIndex`, and the errors of `check_wellformed`.
    """
    body = strengthen(body, dtypes.DEFAULT)
    conditions = tuple(part for condition in given for part in conjuncts(condition))
    check_parts(Program(name, inputs, body, conditions, results=results))
    minima: dict[str, int] = {}
    for size in sizes_in(inputs, body, conditions, results):
        minima[size.name] = max(minima.get(size.name, 0), size.minimum)
    least = tuple(at_most(index(low), index(Size(size))) for size, low in minima.items() if low)
    made = Program(name, inputs, body, tuple(dict.fromkeys((*least, *conditions))), results=results)
    check_wellformed(made)
    return made


def check_parts(program: Program) -> None:
    """Check names, element types and variables of a program. Raises `InvalidName`, `DtypeError`, `EscapedIndex`."""
    _check_names(program)
    _check_closed(program.body)
    if any(condition.loose or condition.free for condition in program.assumptions):
        raise EscapedIndex(
            f"an assumption of {program.name} contains an index",
            required="conditions on sizes and on elements of the inputs",
        )


def _check_names(program: Program) -> None:
    name, inputs, body, assumptions = program.name, program.inputs, program.body, program.assumptions
    seen: dict[str, Array] = {}
    for array in inputs:
        if array.name in seen:
            raise InvalidName(f"two inputs are called {array.name}", required="different names for the inputs")
        seen[array.name] = array
    used: dict[Array, None] = {}
    for term in subterms(body):
        used.update(dict.fromkeys(arrays_in(term)))
    for term in subterms(body):
        used.update(_read_in(indices_in(term)))
    for array in inputs:
        used.update(dict.fromkeys(needed_by(array)))
    for condition in assumptions:
        used.update(_read_in(expressions(condition)))
    for result in program.results:
        used.update(_read_in(result.shape))
    for array in used:
        array_name = array.name
        if array_name not in seen:
            raise InvalidName(
                f"{name} uses the tensor {array_name}, which is not among its inputs",
                required=f"a list of all inputs (it contains {', '.join(seen) or 'none'})",
                suggestions=(f"add {array_name} to the inputs",),
            )
        if seen[array_name] != array:
            raise InvalidName(
                f"{array_name} is declared twice with different types: "
                f"{Input(seen[array_name]).type} in the inputs of {name}, {Input(array).type} in its body",
                required="one declaration for each input",
                suggestions=(f"use the same tensor {array_name} in both places, or different names",),
            )
    for size in sizes_in(inputs, body, assumptions, program.results):
        if size.name in seen:
            raise InvalidName(f"{size.name} names both a size and an input", required="different names")


def _read_in(found: Iterable[Index]) -> dict[Array, None]:
    """Return the arrays that index expressions read."""
    return dict.fromkeys(at.array for expression in found for at in atoms(expression) if isinstance(at, Read))


def _check_closed(body: Expr) -> None:
    if not (body.free or body.loose or body.loose_tensors):
        return
    where = next((term for term in subterms(body) if term.free and not _free_below(term)), body)
    escaped = " and ".join(_free_names(body)) or "an index or a let-bound tensor"
    raise EscapedIndex(
        f"{escaped} is used outside the operator that binds it",
        place=Location(source=where.source),
        required="a use inside the function that was passed to gen, sum or let",
        suggestions=("build the expression inside this function and return it",),
    )


def _free_names(body: Expr) -> dict[str, None]:
    """Return descriptions of the free variables of the body, with the names of their binders' parameters."""
    names: dict[str, None] = {}
    for term in subterms(body):
        if isinstance(term, TensorVar):
            names[f"the let-bound tensor {term.name}"] = None
        for expression in indices_in(term):
            names.update({f"the index {atom.name}": None for atom in atoms(expression) if isinstance(atom, Var)})
    return names


def _free_below(term: Expr) -> bool:
    return any(child.expr.free for child in children(term))
