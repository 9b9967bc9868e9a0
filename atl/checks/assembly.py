"""Programs put together from their parts, and checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from atl.checks.wellformed import check_wellformed
from atl.core import dtypes
from atl.core.declared import bounds_of, is_truths
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
    """The program of these parts, checked.

    Its literals get an element type, and the `min=` of its sizes are assumed beside what is given.

    Raises `InvalidName`, `EscapedIndex` and what `check_wellformed` raises.
    """
    body = strengthen(body, dtypes.DEFAULT)
    stated = tuple(part for condition in given for part in conjuncts(condition))
    check_parts(Program(name, inputs, body, stated, results=results))
    minima: dict[str, int] = {}
    for size in sizes_in(inputs, body, stated, results):
        minima[size.name] = max(minima.get(size.name, 0), size.minimum)
    least = tuple(at_most(index(low), index(Size(size))) for size, low in minima.items() if low)
    made = Program(name, inputs, body, tuple(dict.fromkeys((*least, *stated))), results=results)
    check_wellformed(made)
    return made


def check_parts(program: Program) -> None:
    """Raises `InvalidName` and `EscapedIndex` where the parts of a program do not belong together."""
    _check_names(program)
    _check_closed(program.body)
    if any(condition.loose or condition.free for condition in program.assumptions):
        raise EscapedIndex(
            f"an assumption of {program.name} speaks of an index",
            required="conditions on sizes and on elements of the inputs",
        )


def _check_names(program: Program) -> None:
    name, inputs, body, stated = program.name, program.inputs, program.body, program.assumptions
    seen: dict[str, Array] = {}
    for array in inputs:
        if array.name in seen:
            raise InvalidName(f"two inputs are called {array.name}", required="a name of its own for every input")
        seen[array.name] = array
    used: dict[Array, None] = {}
    for term in subterms(body):
        used.update(dict.fromkeys(arrays_in(term)))
    _check_truths(used)
    for term in subterms(body):
        used.update(_read_in(indices_in(term)))
    for array in inputs:
        used.update(_read_in((*array.shape, *(fact.bound for fact in bounds_of(array)))))
        used.update({} if array.between is None else {array.between: None})
    for condition in stated:
        used.update(_read_in(expressions(condition)))
    for result in program.results:
        used.update(_read_in(result.shape))
    for array in used:
        array_name = array.name
        if array_name not in seen:
            raise InvalidName(
                f"{name} uses the tensor {array_name}, which is not among its inputs",
                required=f"every input in the list of inputs (there are: {', '.join(seen) or 'none'})",
                suggestions=(f"add {array_name} to the inputs",),
            )
        if seen[array_name] != array:
            raise InvalidName(
                f"{array_name} is declared twice, and differently: "
                f"{Input(seen[array_name]).type} in the inputs of {name}, {Input(array).type} in its body",
                required="one declaration for each input",
                suggestions=(f"use the one tensor {array_name} in both places, or another name",),
            )
    for size in sizes_in(inputs, body, stated, program.results):
        if size.name in seen:
            raise InvalidName(f"{size.name} names both a size and an input", required="different names")


def _check_truths(tensors: Iterable[Array]) -> None:
    """Raises `DtypeError` for truth values that stand where a tensor does."""
    for array in tensors:
        if is_truths(array):
            raise DtypeError(
                f"the truth values of {array.name} are used as a tensor",
                required="elements of it as conditions",
                suggestions=(f"write atl.select({array.name}[…], 1.0, 0.0) for numbers",),
            )


def _read_in(found: Iterable[Index]) -> dict[Array, None]:
    """The arrays that are read in some index expressions."""
    return dict.fromkeys(at.array for expression in found for at in atoms(expression) if isinstance(at, Read))


def _check_closed(body: Expr) -> None:
    if not (body.free or body.loose or body.loose_tensors):
        return
    where = next((term for term in subterms(body) if term.free and not _free_below(term)), body)
    escaped = " and ".join(_free_names(body)) or "an index or a let-bound tensor"
    raise EscapedIndex(
        f"{escaped} is used outside of the operator that binds it",
        place=Location(source=where.source),
        required="every one to be used inside of the function that was given to gen, sum or let",
        suggestions=("build the expression inside of that function and return it from there",),
    )


def _free_names(body: Expr) -> dict[str, None]:
    """What is free in the body, in words: the names are those of the parameters that brought it in."""
    names: dict[str, None] = {}
    for term in subterms(body):
        if isinstance(term, TensorVar):
            names[f"the let-bound tensor {term.name}"] = None
        for expression in indices_in(term):
            names.update({f"the index {atom.name}": None for atom in atoms(expression) if isinstance(atom, Var)})
    return names


def _free_below(term: Expr) -> bool:
    return any(child.expr.free for child in children(term))
