"""What the kernel takes as an argument of a rule: a closed term of the right kind, made as the language makes terms.

Nodes can be made by hand, or be read from a file. So before an equation is stated it is seen that its arguments speak
of the program's own arrays and of no other declaration of theirs, that each let-bound tensor has the type of its value,
and that no divisor is a number below one: the prover and the definitions of operators rely on it.
"""

from __future__ import annotations

from functools import lru_cache

from atl.core.index import Array, Index, Quotient, Read, Size, atoms
from atl.core.predicate import expressions
from atl.core.substitution import binds_by_type
from atl.core.terms import Expr, Type
from atl.core.traversal import indices_in, names_given, subterms
from rewrites.errors import NotAdmitted
from rewrites.instantiation import Argument, Function, is_predicate, is_term, sort_of
from rewrites.kinds import Kind


@lru_cache(maxsize=8192)
def admit(rule: str, name: str, kind: Kind, argument: Argument, inputs: tuple[Array, ...]) -> None:
    """Raises `NotAdmitted` for an argument that the rule cannot be stated with."""
    if not is_of(argument, kind):
        raise NotAdmitted(f"{name} is not what {rule} takes", required=described(kind))
    body = argument.body if isinstance(argument, Function) else argument
    if body.free:
        raise NotAdmitted(f"{name} has a variable that is bound nowhere", required="indices and tensors of the place")
    parameters = argument.parameters if isinstance(argument, Function) else ()
    for parameter in parameters:
        _check_type(parameter, name, inputs)
    if isinstance(body, Index):
        _check_index(body, name, inputs)
    elif is_predicate(body):
        for expression in expressions(body):
            _check_index(expression, name, inputs)
    elif is_term(body):
        _check_term(body, name, inputs)


def _check_type(of: object, name: str, inputs: tuple[Array, ...]) -> None:
    if isinstance(of, Type):
        for extent in of.shape:
            _check_index(extent, name, inputs)


def _check_term(term: Expr, name: str, inputs: tuple[Array, ...]) -> None:
    for part in subterms(term):
        form = type(part).form
        for declared in form.arrays:
            _check_array(getattr(part, declared), name, inputs)
        if form.known_type is not None:
            _check_type(getattr(part, form.known_type), name, inputs)
        if not binds_by_type(part):
            raise NotAdmitted(
                f"{name} binds {', '.join(names_given(part))} with another type than its value has",
                required="a let as atl.let makes it",
            )
        for expression in indices_in(part):
            _check_index(expression, name, inputs)


def _check_index(expression: Index, name: str, inputs: tuple[Array, ...]) -> None:
    for atom in atoms(expression):
        if isinstance(atom, Read):
            _check_array(atom.array, name, inputs)
        elif isinstance(atom, Quotient):
            divisor = atom.denominator.constant
            if divisor is not None and divisor < 1:
                raise NotAdmitted(f"{name} divides by {divisor}", required="a positive divisor")
        elif isinstance(atom, Size) and any(array.name == atom.name for array in inputs):
            raise NotAdmitted(f"{name} has a size called {atom.name}, as an input is", required="a name of its own")


def _check_array(array: Array, name: str, inputs: tuple[Array, ...]) -> None:
    if array not in inputs:
        known = any(array.name == own.name for own in inputs)
        raise NotAdmitted(
            f"{name} reads {array.name}, which the program declares in another way"
            if known
            else f"{name} reads {array.name}, which is no input of the program",
            required=f"the inputs as they are declared: {', '.join(own.name for own in inputs) or 'none'}",
        )


def is_of(value: Argument, kind: Kind) -> bool:
    """Whether an argument is one that a metavariable of this kind ranges over, as far as its form tells."""
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
    """What a metavariable ranges over, in words."""
    what = {"index": "an index", "condition": "a condition"}.get(kind.sort, f"a tensor of rank {kind.rank} or more")
    takes = ", ".join("an index" if parameter.sort == "index" else "a tensor" for parameter in kind.parameters)
    return f"a function of {takes} that gives {what}" if takes else what
