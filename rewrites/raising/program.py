"""The program that a text computes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, TypeAlias

from pycparser import c_ast

import atl
from atl.core import terms
from atl.core.dtypes import TYPES
from atl.core.index import Size, index
from atl.core.program import Program
from atl.errors import ATLError
from atl.surface.values import Condition, IndexExpr, Tensor
from lowering.validation.interface import Interface
from lowering.validation.types import INT, LONG, NUMBERS, CType, Pointer
from rewrites.errors import NotRaised
from rewrites.raising.context import Context
from rewrites.raising.functions import Functions
from rewrites.raising.state import Cells, Counter, Read, Scalar, State, refused
from rewrites.raising.statements import Statements

Meaning: TypeAlias = Counter | Scalar | Cells


def raised_program(of: Interface) -> Program:
    """Return the program that the text of a kernel computes. Raises `NotRaised`."""
    functions, context, state = Functions(of), Context(of.program.assumptions), State()
    statements = Statements(functions, context)
    definition = functions.machine.definitions[of.name]
    if of.own_buffers:
        raise refused(definition, "an array for each of several results")
    parameters = definition.decl.type.args.params if definition.decl.type.args else []
    type_of, wanted = functions.machine.type_of, list(_parameters(of))
    if len(parameters) != len(wanted) or type_of(definition.decl.type.type) is not INT:
        raise refused(definition, f"{len(parameters)} parameters, or a result that is not int")
    for each, (expected, meaning) in zip(parameters, wanted, strict=True):
        if type_of(each.type) != expected:
            raise refused(each, f"{each.name} has another type")
        statements.enter(each, each.name, meaning, state)
    _check_directives(of, definition.coord.line)
    match definition.body.block_items:
        case [*items, c_ast.Return(expr=c_ast.Constant(value="0"))]:
            pass
        case _:
            raise refused(definition, "a function that does not end with return 0")
    for item in items:
        for effect in statements.statement(item, state):
            statements.effects.apply(state, effect)
    written = state.cells(parameters[-1].name)
    if written is None or written.read is None:
        raise refused(definition.body, "the result is not stored")
    return _program(of, written.read, context, definition.body)


def _parameters(of: Interface) -> Iterator[tuple[CType, Meaning]]:
    """Return the type and the meaning of each parameter of a kernel."""
    for array in of.inputs:
        tensor, number = Tensor(terms.Input(array)), NUMBERS[TYPES[array.dtype].c]
        if array.shape:
            shape = tuple(IndexExpr(e) for e in array.shape)
            read: Read = lambda at, t=tensor: t[tuple(at)]  # type: ignore[misc]  # noqa: E731
            yield Pointer(number), Cells(number, shape, read, is_input=True)
        else:
            yield number, Scalar(number, lambda _, t=tensor: t)  # type: ignore[misc]
    for each in of.sizes:
        yield LONG, Counter(lambda _, s=each: IndexExpr(index(Size(s))))  # type: ignore[misc]
    result = NUMBERS[TYPES[of.dtype].c]
    yield Pointer(result), Cells(result, tuple(IndexExpr(e) for e in of.program.shape), None)


def _check_directives(of: Interface, first: int) -> None:
    for at_line, line in enumerate(of.text.split("\n")[first - 1 :], first):
        if line.lstrip().startswith(("#if", "#el")):
            raise NotRaised(
                f"line {at_line} of the C text is not read as a term: {line.strip()}",
                required="a kernel that is the same for all compilers and libraries",
            )


def _program(of: Interface, final: Read, context: Context, body: Any) -> Program:
    """Return the program whose result has these elements."""
    shape = tuple(IndexExpr(e) for e in of.program.shape)

    def element(at: list[IndexExpr]) -> Any:
        if len(at) == len(shape):
            return final(at)
        extent = shape[len(at)]
        return atl.gen(extent, lambda i: context.under_known((i >= 0, i < extent), lambda: element([*at, i])))

    inputs = [Tensor(terms.Input(array)) for array in of.program.inputs]
    try:
        given = [Condition(predicate) for predicate in of.program.assumptions]
        made = atl.program(of.program.name, inputs, element([]), given=given)
        atl.check_safe(made)
        if made.type.dtype != of.program.type.dtype:
            raise refused(body, f"its elements have type {made.type.dtype}, as literals without a type")
        return replace(of.program, body=made.body)
    except NotRaised:
        raise
    except KeyError:
        raise refused(body, "an array in a loop depends on the loops around it") from None
    except ATLError as error:
        raise refused(body, f"the term is not well-formed: {error.summary}") from None
