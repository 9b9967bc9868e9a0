"""Construction of checked programs from their parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from atl.checks.wellformed import check_wellformed
from atl.core import dtypes
from atl.core.declared import bounds_of, is_bool_array
from atl.core.index import Array, Index, Read, Size, Var, atoms, index
from atl.core.literals import strengthen
from atl.core.predicate import Predicate, at_most, conjuncts, expressions
from atl.core.program import Program, sizes_in
from atl.core.results import Result
from atl.core.terms import Expr, Input, TensorVar
from atl.core.traversal import arrays_in, children, indices_in, subterms
from atl.errors import DtypeError, EscapedIndex, InvalidName, Location


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
    _check_booleans(used)
    for term in subterms(body):
        used.update(_read_in(indices_in(term)))
    for array in inputs:
        used.update(_read_in((*array.shape, *(fact.bound for fact in bounds_of(array)))))
        used.update({} if array.between is None else {array.between: None})
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


def _check_booleans(tensors: Iterable[Array]) -> None:
    """Raise `DtypeError` if a Boolean input is used as a tensor."""
    for array in tensors:
        if is_bool_array(array):
            raise DtypeError(
                f"the Boolean input {array.name} is used as a tensor",
                required="its elements in conditions",
                suggestions=(f"write atl.select({array.name}[…], 1.0, 0.0) for numbers",),
            )


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
