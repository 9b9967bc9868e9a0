"""Functions of a text, recognised by executing them."""

from __future__ import annotations

from typing import Any, Final

from pycparser import c_ast

from atl.meaning.polynomials import symbol
from atl.meaning.scalars import Machine as MachineNumbers
from lowering.validation.code import FunctionScope
from lowering.validation.domains import TextPolynomials
from lowering.validation.expressions import Expressions
from lowering.validation.interface import Interface
from lowering.validation.machine import Machine
from lowering.validation.memory import Address, Heap
from lowering.validation.types import DOUBLE, FLOAT, CType, Number, Pointer, Void
from lowering.validation.values import Bits, Symbol, Values
from rewrites.raising.state import refused

LIBRARY: Final = frozenset(("memset", "free", "malloc", "calloc", "aligned_alloc", "fabs", "fabsf", "sqrt", "sqrtf"))
"""Functions of the standard library that are read."""


class Functions:
    """The functions of a text."""

    def __init__(self, of: Interface) -> None:
        self.of = of
        self.values = Values(TextPolynomials())
        self.machine = Machine(of.text, self.values, of.known)
        self.literals = Expressions(FunctionScope(Machine("", Values(MachineNumbers()))))
        self.helpers: dict[str, tuple[str, tuple[CType, ...], CType] | None] = {}

    def function_name(self, node: c_ast.FuncCall) -> str:
        """Return the name of the function that a call reaches. Raises `NotRaised` if the text hides a library's."""
        name = node.name.name if isinstance(node.name, c_ast.ID) else ""
        found = self.machine.source.aliases.get(name, name)
        if not found or (self.machine.defines(found) and found in LIBRARY):
            raise refused(node, f"a call of another function {found}")
        return found

    def is_empty(self, name: str) -> bool:
        """Return whether the text defines a function that does nothing."""
        definition = self.machine.definitions.get(name)
        return (
            definition is not None
            and not definition.body.block_items
            and isinstance(self.machine.type_of(definition.decl.type.type), Void)
        )

    def is_pure(self, node: Any) -> bool:
        """Return whether the value of an expression is all that it computes."""
        match node:
            case None | c_ast.ID() | c_ast.Constant() | c_ast.Typename():
                return True
            case c_ast.UnaryOp(op="sizeof"):
                return True
            case c_ast.FuncCall():
                name = self.function_name(node)
                numbers = self.machine.defines(name) and all(
                    isinstance(of, Number) for _, of in self.machine.function(name).parameters
                )
                return numbers and self.is_pure(node.args)
            case c_ast.BinaryOp() | c_ast.ExprList() | c_ast.Cast() | c_ast.UnaryOp(op="-" | "+"):
                return all(self.is_pure(child) for _, child in node.children())
            case _:
                return False

    def allocates(self, name: str) -> bool | None:
        """Return whether a function returns new memory that is zero, found by calling it; None for others."""
        if not self.machine.defines(name):
            return {"malloc": False, "aligned_alloc": False, "calloc": True}.get(name)
        function, heap = self.machine.function(name), Heap()
        if len(function.parameters) != 1 or not isinstance(function.result, Pointer):
            return None
        try:
            self.machine.heap = heap
            made = self.machine.call(function, [64])
        except Exception:  # noqa: BLE001 (it does not only allocate)
            return None
        if not isinstance(made, Address) or made.offset or made.block not in heap.blocks:
            return None
        return made.block.zeroed >= 64

    def helper(self, name: str) -> tuple[str, tuple[CType, ...], CType] | None:
        """Return the operation that a function of the text computes, found by executing it on symbols, and its types.

        `key` and `float` are the conversions between floats and integers with the same order.
        """
        if not self.machine.defines(name):
            of = FLOAT if name.endswith("f") else DOUBLE
            library = {"fabs": "abs", "fabsf": "abs", "sqrt": "sqrt", "sqrtf": "sqrt"}
            return (library[name], (of,), of) if name in library else None
        if name not in self.helpers:
            function, op = self.machine.function(name), self._operation(name)
            types = tuple(of for _, of in function.parameters)
            self.helpers[name] = None if op is None else (op, types, function.result)
        return self.helpers[name]

    def _operation(self, name: str) -> str | None:
        try:
            function = self.machine.function(name)
            kinds = [of for _, of in function.parameters]
            if not all(isinstance(of, Number) and of == kinds[0] for of in kinds):
                return None
            if len(kinds) == 1 and self._keeps_order(name, kinds[0], function.result):
                return "key" if kinds[0].is_float else "float"  # type: ignore[union-attr]
            scalars = self.values.scalars
            number = kinds[0]
            assert isinstance(number, Number)
            symbols = [scalars.element(symbol(f"operand {at}"), number.dtype) for at in range(len(kinds))]
            passed = symbols if number.is_float else [Symbol(each, number.dtype) for each in symbols]
            made = self.machine.run(name, passed, Heap())
            made = made.value if isinstance(made, Symbol) else made
            if len(kinds) == 2:
                return next((op for op in ("min", "max") if scalars.binary(op, number.dtype, *symbols) == made), None)
            return "abs" if scalars.unary("abs", number.dtype, symbols[0]) == made else None
        except Exception:  # noqa: BLE001 (the function is then not one of these)
            return None

    def _keeps_order(self, name: str, of: Any, result: Any) -> bool:
        """Return whether a function converts a float to an integer in the order of floats, or back."""
        if not isinstance(result, Number) or result.is_float == of.is_float or of.size != result.size:
            return False
        operand = self.values.scalars.element(symbol("operand"), "float32")
        given, wanted = (operand, Bits(operand, "key")) if of.is_float else (Bits(operand, "key"), operand)
        return bool(self.machine.run(name, [given], Heap()) == wanted)

    # -- names --------------------------------------------------------------------------------------------------------

    def reads(self, node: Any) -> set[str]:
        """Return the names that a statement reads, except in `x += e`, which reads and writes x."""
        found: set[str] = set()

        def visit(part: Any) -> None:
            match part:
                case c_ast.Assignment(op=op, lvalue=target, rvalue=value):
                    accumulated = self.accumulated(part)
                    if accumulated is not None:
                        value = accumulated[1]
                    elif op not in ("=", "+=", "-=", "*="):
                        visit(target)
                    if isinstance(target, c_ast.ArrayRef):
                        visit(target.subscript)
                    visit(value)
                case c_ast.ID(name=name):
                    found.add(name)
                case None:
                    pass
                case _:
                    for _, child in part.children():
                        visit(child)

        visit(node)
        return found

    def accumulated(self, node: c_ast.Assignment) -> tuple[str, Any] | None:
        """Return the operation and the operand of an accumulation."""
        if node.op in ("+=", "*="):
            return "add" if node.op == "+=" else "mul", node.rvalue
        match node.rvalue:
            case c_ast.FuncCall(name=c_ast.ID(), args=c_ast.ExprList(exprs=[x, y])) if node.op == "=":
                helper = self.helper(self.function_name(node.rvalue))
                if helper is not None and helper[0] in ("min", "max") and same(x, node.lvalue):
                    return helper[0], y
        return None


def same(x: Any, y: Any) -> bool:
    """Return whether two expressions are written alike."""
    return (
        type(x) is type(y)
        and [getattr(x, name) for name in x.attr_names] == [getattr(y, name) for name in y.attr_names]
        and len(x.children()) == len(y.children())
        and all(same(a, b) for (_, a), (_, b) in zip(x.children(), y.children(), strict=True))
    )
