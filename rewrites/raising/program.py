"""The program that a text computes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pycparser import c_ast

import atl
from atl.core import terms
from atl.core.dtypes import TYPES
from atl.core.index import Size, index
from atl.core.program import Program
from atl.errors import ATLError
from atl.surface.values import Condition, IndexExpr, Tensor
from lowering.validation.types import INT, LONG, NUMBERS, CType, Pointer
from rewrites.errors import NotRaised
from rewrites.raising.state import Cells, Counter, Read, Scalar, State, refused
from rewrites.raising.statements import Statements


class Raiser(Statements):
    """The reader of one kernel."""

    def program(self) -> Program:
        of, state = self.of, State()
        definition = self.machine.definitions[of.name]
        parameters = definition.decl.type.args.params if definition.decl.type.args else []
        wanted: list[tuple[CType, Counter | Scalar | Cells]] = []
        for array in of.inputs:
            tensor, number = Tensor(terms.Input(array)), NUMBERS[TYPES[array.dtype].c]
            if array.shape:
                shape = tuple(IndexExpr(e) for e in array.shape)
                read: Read = lambda at, t=tensor: t[tuple(at)]  # type: ignore[misc]  # noqa: E731
                wanted.append((Pointer(number), Cells(number, shape, read, is_input=True)))
            else:
                wanted.append((number, Scalar(number, lambda _, t=tensor: t)))  # type: ignore[misc]
        wanted += [(LONG, Counter(lambda _, s=each: IndexExpr(index(Size(s))))) for each in of.sizes]  # type: ignore[misc]
        if of.own_buffers:
            raise refused(definition, "an array for each of several results")
        result = NUMBERS[TYPES[of.dtype].c]
        wanted.append((Pointer(result), Cells(result, tuple(IndexExpr(e) for e in of.program.shape), None)))
        if len(parameters) != len(wanted) or self.machine.type_of(definition.decl.type.type) is not INT:
            raise refused(definition, f"{len(parameters)} parameters, or a result that is not int")
        for each, (expected, meaning) in zip(parameters, wanted, strict=True):
            if self.machine.type_of(each.type) != expected:
                raise refused(each, f"{each.name} has another type")
            self.enter(each, each.name, meaning, state)
        first = definition.coord.line
        for at_line, line in enumerate(of.text.split("\n")[first - 1 :], first):
            if line.lstrip().startswith(("#if", "#el")):
                raise NotRaised(
                    f"line {at_line} of the C text is not read as a term: {line.strip()}",
                    required="a kernel that is the same for all compilers and libraries",
                )
        out, items = parameters[-1].name, definition.body.block_items or []
        if not items or not isinstance(items[-1], c_ast.Return):
            raise refused(definition, "a function that does not end with return 0")
        self.last = items[-1]
        shape = tuple(IndexExpr(e) for e in of.program.shape)
        for item in items:
            for effect in self.statement(item, state):
                self.apply(state, effect)
        written = state.cells(out)
        final = written.read if written is not None else None
        if final is None:
            raise refused(definition.body, "the result is not stored")

        def element(at: list[IndexExpr]) -> Any:
            if len(at) == len(shape):
                return final(at)
            extent = shape[len(at)]
            return atl.gen(extent, lambda i: self.under_known((i >= 0, i < extent), lambda: element([*at, i])))

        inputs = [Tensor(terms.Input(array)) for array in of.program.inputs]
        try:
            given = [Condition(predicate) for predicate in of.program.assumptions]
            made = atl.program(of.program.name, inputs, element([]), given=given)
            atl.check_safe(made)
            if made.type.dtype != of.program.type.dtype:
                raise refused(definition.body, f"its elements have type {made.type.dtype}, as literals without a type")
            return replace(of.program, body=made.body)
        except NotRaised:
            raise
        except KeyError:
            raise refused(definition.body, "an array in a loop depends on the loops around it") from None
        except ATLError as error:
            raise refused(definition.body, f"the term is not well-formed: {error.summary}") from None
