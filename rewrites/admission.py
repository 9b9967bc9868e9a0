"""Validation of the kernel's inputs: programs, and arguments of rules.

Nodes may come from a file or be forged by hand. So every input is rebuilt by the constructors, which check their
arguments; the prover and the definitions of operators rely on these checks. An argument of a rule must also have the
right kind, be closed, and use the arrays exactly as the program declares them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import cast

from atl.checks.validation import validated_array, validated_index, validated_predicate, validated_term, validated_type
from atl.checks.wellformed import check_meaning, check_parts
from atl.core.index import Array, Index, Read, Size, atoms
from atl.core.predicate import Predicate, expressions, is_predicate
from atl.core.program import Program
from atl.core.terms import Expr, Type
from atl.core.traversal import arrays_in, indices_in, subterms
from atl.errors import ATLError
from rewrites.errors import NotAdmitted
from rewrites.metavariables import Kind
from rewrites.rule_arguments import Argument, Function, Parameter, is_term, sort_of


def admit(rule: str, name: str, kind: Kind, argument: Argument, inputs: tuple[Array, ...]) -> Argument:
    """Return the argument, rebuilt. Raises `NotAdmitted` if the rule does not accept it."""
    try:
        made = _remade(argument)
    except ATLError as error:
        raise NotAdmitted(f"{name} is not a valid term: {error.summary}", required=error.required) from error
    _check(rule, name, kind, made, inputs)
    return made


def admit_program(program: Program) -> Program:
    """Return the program, rebuilt. Raises `NotAdmitted`, and the errors of an ill-formed program."""
    if type(program) is not Program:
        raise NotAdmitted(f"{type(program).__name__} is not a program", required="a program made by atl.program")
    inputs = tuple(map(validated_array, program.inputs))
    conditions = tuple(map(validated_predicate, program.assumptions))
    results = tuple(each.over(validated_index) for each in program.results)
    made = Program(
        program.name,
        inputs,
        validated_term(program.body),
        conditions,
        program.packed,
        results,
        program.assembly,
        program.sharded,
    )
    check_parts(made)
    check_meaning(made)
    return made


def admit_other_names(term: Expr, known: Expr) -> Expr | None:
    """Return the term, rebuilt, if it equals `known` up to names and marks; otherwise None."""
    try:
        made = validated_term(term)
    except ATLError:
        return None
    return made if made == known else None


def _remade(argument: Argument) -> Argument:
    if type(argument) is Function:
        return Function(tuple(map(_parameter, argument.parameters)), _remade_body(argument.body))
    if isinstance(argument, Index):
        return validated_index(argument)
    return _remade_body(cast("Expr | Predicate", argument))


def _remade_body(body: Expr | Predicate) -> Expr | Predicate:
    return validated_predicate(body) if is_predicate(body) else validated_term(cast("Expr", body))


def _parameter(parameter: Parameter) -> Parameter:
    return validated_type(parameter) if isinstance(parameter, Type) else "index"


@lru_cache(maxsize=8192)
def _check(rule: str, name: str, kind: Kind, argument: Argument, inputs: tuple[Array, ...]) -> None:
    if not is_of(argument, kind):
        raise NotAdmitted(f"{name} is not a valid argument of {rule}", required=described(kind))
    body = argument.body if isinstance(argument, Function) else argument
    if body.free:
        raise NotAdmitted(f"{name} has an unbound variable", required="indices and tensors that are bound at the place")
    parameters = argument.parameters if isinstance(argument, Function) else ()
    for parameter in parameters:
        _check_type(parameter, name, inputs)
    if isinstance(body, Index):
        _check_index(body, name, inputs)
    elif is_predicate(body):
        for expression in expressions(body):
            _check_index(expression, name, inputs)
    else:
        _check_term(cast("Expr", body), name, inputs)


def _check_type(of: object, name: str, inputs: tuple[Array, ...]) -> None:
    if isinstance(of, Type):
        for extent in of.shape:
            _check_index(extent, name, inputs)


def _check_term(term: Expr, name: str, inputs: tuple[Array, ...]) -> None:
    for part in subterms(term):
        form = type(part).form
        for declared in arrays_in(part):
            _check_array(declared, name, inputs)
        if form.known_type is not None:
            _check_type(getattr(part, form.known_type), name, inputs)
        for expression in indices_in(part):
            _check_index(expression, name, inputs)


def _check_index(expression: Index, name: str, inputs: tuple[Array, ...]) -> None:
    for atom in atoms(expression):
        if isinstance(atom, Read):
            _check_array(atom.array, name, inputs)
        elif isinstance(atom, Size) and any(array.name == atom.name for array in inputs):
            raise NotAdmitted(f"{name} has a size called {atom.name}, as an input is", required="another name")


def _check_array(array: Array, name: str, inputs: tuple[Array, ...]) -> None:
    if array not in inputs:
        known = any(array.name == own.name for own in inputs)
        raise NotAdmitted(
            f"{name} reads {array.name}, which the program declares differently"
            if known
            else f"{name} reads {array.name}, which is not an input of the program",
            required=f"the inputs as they are declared: {', '.join(own.name for own in inputs) or 'none'}",
        )


def is_of(value: Argument, kind: Kind) -> bool:
    """Return whether an argument has this kind: its sort, its parameters and its rank."""
    taken = value.parameters if isinstance(value, Function) else ()
    if sort_of(value) != kind.sort or isinstance(value, Function) != bool(kind.parameters):
        return False
    if len(taken) != len(kind.parameters) or any(
        (parameter == "index") != (wanted.sort == "index")
        for parameter, wanted in zip(taken, kind.parameters, strict=True)
    ):
        return False
    body = value.body if isinstance(value, Function) else value
    if not is_term(body):
        return True
    return body.type.rank >= kind.rank if kind.group else body.type.rank == kind.rank


def described(kind: Kind) -> str:
    """Return a description of a kind, for messages."""
    what = {"index": "an index", "condition": "a condition"}.get(kind.sort, f"a tensor of rank {kind.rank} or more")
    takes = ", ".join("an index" if parameter.sort == "index" else "a tensor" for parameter in kind.parameters)
    return f"a function of {takes} that returns {what}" if takes else what
