"""Functions, declarations and statements of C, compiled to closures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pycparser import c_ast

from atl.errors import NotInSubset
from lowering.validation.code import (
    BREAK,
    CONTINUE,
    RETURN,
    Execution,
    Frame,
    Function,
    FunctionScope,
    Run,
    Signal,
    Variable,
    line_of,
    refused,
)
from lowering.validation.errors import TextTrap
from lowering.validation.expressions import Expressions
from lowering.validation.memory import UNSET, ZERO, Block
from lowering.validation.types import CType, Number, Pointer, Row, Vector, Void


class Statements:
    """The statements of one function."""

    def __init__(self, machine: Execution, node: c_ast.FuncDef) -> None:
        self.node, self.machine = node, machine
        self.scope = FunctionScope(machine, addressed=_addressed(node.body), inline="inline" in node.decl.funcspec)
        self.expressions = Expressions(self.scope)
        self.result: CType = Void()

    def function(self) -> Function:
        """Compile the function."""
        node = self.node
        declared = node.decl.type
        parameters: list[tuple[str, CType]] = []
        for each in declared.args.params if declared.args else []:
            of = self.expressions.type_of(each.type)
            if isinstance(of, Void):
                continue
            parameters.append((each.name, of))
        made = Function(node.decl.name, parameters, self.expressions.type_of(declared.type))
        self.machine.functions[made.name] = made
        boxes: list[tuple[int, Run]] = []
        for name, of in parameters:
            variable = self.scope.declare(name, of)
            if variable.boxed:
                boxes.append((variable.slot, self._boxing(variable, name)))
        self.result = made.result
        block = self.block(node.body.block_items or [], function=True)

        ending = _ending(block, [slot for slot, _ in boxes])

        def body(frame: Frame) -> Any:
            for slot, boxed in boxes:
                frame[slot] = boxed(frame)
            return ending(frame)

        made.body = body if boxes else block
        made.slots = self.scope.slots
        return made

    def _boxing(self, variable: Variable, name: str) -> Run:
        slot = variable.slot

        def boxed(frame: Frame) -> Block:
            value = frame[slot]
            block = self.new_block(name, variable.of)
            if value is not UNSET:
                block.cells = list(value) if isinstance(value, tuple) else [value]
            return block

        return boxed

    def new_block(self, name: str, of: CType, alignment: int = 0) -> Block:
        machine = self.machine
        if isinstance(of, Row):
            cell = of.of.of if isinstance(of.of, Vector) else of.of
        elif isinstance(of, Vector):
            cell = of.of
        elif isinstance(of, Number):
            cell = of
        else:
            raise NotInSubset(f"the address of the pointer {name}", required="addresses of numbers and vectors")
        return Block(name, of.size, machine.heap.place(of.size, alignment or cell.size), cell)

    # -- statements ---------------------------------------------------------------------------------------------------

    def block(self, items: Sequence[Any], *, function: bool = False) -> Callable[[Frame], Any]:
        self.scope.blocks.append({})
        runs: list[Callable[[Frame], Any]] = []
        labels: dict[str, int] = {}
        for item in items:
            statement = item
            while isinstance(statement, c_ast.Label):
                labels[statement.name] = len(runs)
                statement = statement.stmt
            made = self.statement(statement)
            if made is not None:
                runs.append(made)
        blocks = [each.slot for each in self.scope.blocks.pop().values() if each.boxed or isinstance(each.of, Row)]
        if blocks:
            return _ending(self._sequence(runs, labels, function=function), blocks)
        return self._sequence(runs, labels, function=function)

    def _sequence(self, runs: list[Run], labels: Mapping[str, int], *, function: bool) -> Run:
        if labels:
            return _with_labels(runs, labels, self.machine)
        if len(runs) == 1 and not function:
            return runs[0]
        statements = tuple(runs)

        def run(frame: Frame) -> Any:
            for statement in statements:
                signal = statement(frame)
                if signal is not None:
                    return signal
            return None

        return run

    def statement(self, node: Any) -> Callable[[Frame], Any] | None:
        match node:
            case c_ast.Compound():
                return self.block(node.block_items or [])
            case c_ast.Decl(type=c_ast.Enum() as enum):
                self.expressions.enter_enum(enum)
                return None
            case c_ast.Decl():
                return self.declaration(node)
            case c_ast.DeclList():
                runs = [run for run in map(self.declaration, node.decls) if run is not None]
                return lambda frame: [run(frame) for run in runs] and None
            case c_ast.If():
                return self.branch(node)
            case c_ast.For() | c_ast.While() | c_ast.DoWhile():
                return self.loop(node)
            case c_ast.Break():
                return lambda _: BREAK
            case c_ast.Continue():
                return lambda _: CONTINUE
            case c_ast.Return():
                return self.returned(node)
            case c_ast.Goto():
                signal = Signal("goto", node.name)
                return lambda _: signal
            case c_ast.EmptyStatement() | c_ast.StaticAssert():
                return None
            case (
                c_ast.Assignment() | c_ast.UnaryOp() | c_ast.FuncCall() | c_ast.Cast() | c_ast.BinaryOp()
                | c_ast.TernaryOp() | c_ast.ExprList()
            ):  # fmt: skip
                run = self.expressions.expression(node, unused=True).run

                def evaluated(frame: Frame) -> None:
                    run(frame)

                return evaluated
            case _:
                raise refused(node, "as a statement")

    def declaration(self, node: c_ast.Decl) -> Callable[[Frame], Any] | None:
        alignment = 0
        if node.align:
            aligned = self.expressions.expression(node.align[0].alignment).constant
            alignment = aligned or 0
        if isinstance(node.type, c_ast.ArrayDecl):
            of = self.expressions.type_of(node.type.type)
            length = self.expressions.expression(node.type.dim).constant if node.type.dim is not None else None
            if length is None or not isinstance(of, Number | Vector):
                raise refused(node, "of this type")
            return self._array(node, Row(of, length), alignment)
        of = self.expressions.type_of(node.type)
        if node.init is None:
            variable = self.scope.declare(node.name, of)
            slot, name = variable.slot, node.name
            if variable.boxed:

                def box(frame: Frame) -> None:
                    frame[slot] = self.new_block(name, of, alignment)

                return box

            def forget(frame: Frame) -> None:
                frame[slot] = UNSET

            return forget
        # In `double *p = f(sizeof *p)`, the name is in scope in its initial value.
        variable = self.scope.declare(node.name, of)
        initial = self.expressions.initial(node.init, of)
        slot = variable.slot
        if variable.boxed:
            name = node.name

            def boxed(frame: Frame) -> None:
                block = self.new_block(name, of, alignment)
                value = initial(frame)
                block.cells = list(value) if isinstance(value, tuple) else [value]
                frame[slot] = block

            return boxed

        def assign(frame: Frame) -> None:
            frame[slot] = initial(frame)

        return assign

    def _array(self, node: c_ast.Decl, of: Row, alignment: int) -> Callable[[Frame], Any]:
        slot, name = self.scope.declare(node.name, of).slot, node.name
        cells: list[Run] | None = None
        lanes = of.of.lanes if isinstance(of.of, Vector) else 1
        if node.init is not None:
            if not isinstance(node.init, c_ast.InitList):
                raise refused(node.init, "as the initial value of an array")
            cells = [self.expressions.initial(each, of.of) for each in node.init.exprs]

        def declared(frame: Frame) -> None:
            block = self.new_block(name, of, alignment)
            if cells is not None:
                block.cells = [ZERO] * len(block.cells)
                for at, cell in enumerate(cells):
                    value = cell(frame)
                    block.cells[at * lanes : (at + 1) * lanes] = value if isinstance(value, tuple) else [value]
            frame[slot] = block

        return declared

    def branch(self, node: c_ast.If) -> Callable[[Frame], Any]:
        test = self.truth(node.cond)
        then = self.block([node.iftrue])
        other = self.block([node.iffalse]) if node.iffalse is not None else None
        line, covered = line_of(node), self.scope.covered
        taken, skipped = (line, "then"), (line, "else")
        self.scope.branches |= {taken, skipped}

        def run(frame: Frame) -> Any:
            if test(frame):
                covered.add(taken)
                return then(frame)
            covered.add(skipped)
            return other(frame) if other is not None else None

        return run

    def loop(self, node: Any) -> Callable[[Frame], Any]:
        self.scope.blocks.append({})
        start = self.statement(node.init) if isinstance(node, c_ast.For) and node.init is not None else None
        test = self.truth(node.cond) if node.cond is not None else lambda _: True
        expression = self.expressions.expression
        following = expression(node.next, unused=True).run if isinstance(node, c_ast.For) and node.next else None
        body = self.block([node.stmt])
        blocks = [each.slot for each in self.scope.blocks.pop().values() if each.boxed]
        first = isinstance(node, c_ast.DoWhile)
        machine, covered, ran, line = self.machine, self.scope.covered, (line_of(node), "loop"), line_of(node)
        self.scope.branches.add(ran)

        def run(frame: Frame) -> Any:
            if start is not None:
                start(frame)
            enters = first
            iterations = 0
            try:
                while enters or test(frame):
                    enters = False
                    covered.add(ran)
                    iterations += 1
                    machine.steps -= 1
                    if machine.steps < 0:
                        raise TextTrap("endless", "too many steps", line)
                    signal = body(frame)
                    if signal is not None and signal is not CONTINUE:
                        if signal is BREAK:
                            break
                        return signal
                    if following is not None:
                        following(frame)
            except TextTrap as trap:
                trap.iterations = max(trap.iterations, iterations)
                raise
            return None

        return _ending(run, blocks) if blocks else run

    def returned(self, node: c_ast.Return) -> Callable[[Frame], Any]:
        if node.expr is None:
            return lambda _: RETURN
        run = self.expressions.operations.converted(self.expressions.expression(node.expr), self.result, node)
        return lambda frame: Signal("return", run(frame))

    def truth(self, node: Any) -> Run:
        """Return the code of a condition, which is not one of elements."""
        made, is_true = self.expressions.expression(node), self.machine.values.is_true
        run = made.run

        if isinstance(made.of, Pointer):
            return lambda frame: run(frame) is not None

        def test(frame: Frame) -> bool:
            value = run(frame)
            return value != 0 if type(value) is int else is_true(value)

        return test


def _ending(run: Run, slots: Sequence[int]) -> Run:
    """Return code that ends the lifetime of the variables in these slots, whose addresses may be stored."""

    def ending(frame: Frame) -> Any:
        signal = run(frame)
        for slot in slots:
            block = frame[slot]
            if isinstance(block, Block):
                block.freed = True
        return signal

    return ending


def _with_labels(runs: list[Run], labels: Mapping[str, int], machine: Execution) -> Run:
    """Return the code of statements, some with labels to which gotos lead."""

    def run(frame: Frame) -> Any:
        at = jumps = 0
        while at < len(runs):
            signal = runs[at](frame)
            at += 1
            if signal is not None:
                if signal.kind != "goto" or signal.value not in labels:
                    return signal
                at = labels[signal.value]
                jumps += 1
                machine.steps -= 1
                if machine.steps < 0:
                    trap = TextTrap("endless", f"too many jumps to {signal.value}")
                    trap.iterations = jumps
                    raise trap
        return None

    return run


def _addressed(node: Any) -> set[str]:
    """Return the names of variables whose address is taken."""
    found = {name for _, child in node.children() for name in _addressed(child)}
    if isinstance(node, c_ast.UnaryOp) and node.op == "&" and isinstance(node.expr, c_ast.ID):
        found.add(node.expr.name)
    return found
