"""An executor of C text: functions become Python closures over a domain of elements.

The machine traps reads and writes outside of blocks, reads of cells without a value, misaligned accesses, leaks and
double frees. OpenMP directives are ignored, so data races are not found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pycparser import c_ast

from lowering.validation.code import Execution, Function, FunctionScope, refused
from lowering.validation.expressions import Expressions
from lowering.validation.interface import Known
from lowering.validation.memory import Heap
from lowering.validation.statements import Statements
from lowering.validation.types import Number, Vector
from lowering.validation.values import Values


class Machine(Execution):
    """The functions of a text over one domain."""

    def __init__(self, text: str, values: Values, known: Mapping[str, Known] | None = None) -> None:
        super().__init__(text, values, known)
        self._enter_file()

    def _enter_file(self) -> None:
        for node in self.source.tree.ext:
            match node:
                case c_ast.Typedef(name=name):
                    if name in self.source.vectors:
                        of = self.type_of(node.type)
                        size, alignment = self.source.vectors[name]
                        assert isinstance(of, Number)
                        self.types[name] = Vector(of, size // of.size, alignment)
                    elif name not in self.types and name not in self.source.typeofs:
                        self.types[name] = self.type_of(node.type)
                case c_ast.FuncDef():
                    self.definitions[node.decl.name] = node
                case c_ast.Decl(type=c_ast.Enum() as enum):
                    Expressions(FunctionScope(self)).enter_enum(enum)
                case c_ast.Decl(type=c_ast.FuncDecl()) | c_ast.StaticAssert():
                    pass
                case _:
                    raise refused(node, "at the top of the file")

    def function(self, name: str) -> Function:
        """Return a function of the text, compiled when it is first called."""
        found = self.functions.get(name)
        if found is None:
            found = self.functions[name] = Statements(self, self.definitions[name]).function()
        return found

    def run(self, name: str, arguments: Sequence[Any], heap: Heap) -> Any:
        """Call a function; return its result. Raises `TextTrap`, also for blocks that are not freed."""
        self.heap = heap
        made = self.call(self.function(name), arguments)
        self.heap.check_leaks()
        return made
