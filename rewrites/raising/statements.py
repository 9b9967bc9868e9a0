"""Statements of a text as effects on its arrays and variables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pycparser import c_ast

from atl.core.index import Index, constant
from atl.surface.values import IndexExpr
from lowering.validation.types import LONG, NUMBERS, Number, Pointer, Void
from rewrites.raising.context import Context, Symbols
from rewrites.raising.effects import Effects
from rewrites.raising.elements import KEYS, Elements
from rewrites.raising.functions import Functions
from rewrites.raising.indices import Indices, arithmetic
from rewrites.raising.state import Binder, Cells, Counter, Effect, Scalar, State, Value, refused


class Statements:
    """The statements of a function."""

    def __init__(self, functions: Functions, context: Context) -> None:
        self.functions = functions
        self.context = context
        self.indices = Indices(functions, context)
        self.elements = Elements(self.indices)
        self.effects = Effects(context)

    def enter(self, node: Any, name: str, meaning: Counter | Scalar | Cells, state: State) -> None:
        """Enter a name that is declared here."""
        if name in state.names or name in ("INFINITY", "NAN", "NULL"):
            raise refused(node, f"{name} hides another {name}")
        state.names[name] = meaning

    def nested(self, items: Sequence[Any], state: State) -> list[Effect]:
        """Read a block within a loop or branch. Effects on names declared in it are applied to it."""
        inner, effects = state.inside(), []
        declared: set[str] = set()
        written: set[str] = set()
        for item in items:
            for name in (*self.functions.reads(item),):
                if name in written:
                    raise refused(item, f"{name} is read in the loop that writes it")
            if isinstance(item, c_ast.Decl | c_ast.DeclList):
                for each in [item] if isinstance(item, c_ast.Decl) else item.decls:
                    declared.add(each.name)
            for effect in self.statement(item, inner):
                if effect.target in declared:
                    self.effects.apply(inner, effect)
                else:
                    written.add(effect.target)
                    effects.append(effect)
        return effects

    def statement(self, node: Any, state: State) -> list[Effect]:
        match node:
            case c_ast.Compound():
                return self.nested(node.block_items or [], state)
            case c_ast.DeclList():
                return [effect for each in node.decls for effect in self.statement(each, state)]
            case c_ast.Decl():
                self.declare(node, state)
                return []
            case c_ast.For():
                return self.loop(node, state)
            case c_ast.If():
                return self.branch(node, state)
            case c_ast.Assignment():
                return [self.assignment(node, state)]
            case c_ast.EmptyStatement() | c_ast.StaticAssert():
                return []
            case c_ast.Cast(expr=c_ast.ID()) if isinstance(self.functions.machine.type_of(node.to_type), Void):
                return []  # (void)x;
            case c_ast.FuncCall(name=c_ast.ID()):
                return self.call(node, state)
            case _:
                raise refused(node, type(node).__name__)

    def call(self, node: c_ast.FuncCall, state: State) -> list[Effect]:
        """Read a call whose result is not used: of free, of memset, or of a function without statements."""
        name, passed = self.functions.function_name(node), node.args.exprs if node.args is not None else []
        if name == "memset":
            return self.zeros(node, state)
        if not all(isinstance(each, c_ast.ID) for each in passed):
            raise refused(node, f"a call of {name} whose arguments are not names")
        if name == "free" and len(passed) == 1:
            freed = state.cells(passed[0].name)
            if freed is None or freed.is_input or (freed.extents and freed.extents[0] is not None):
                raise refused(node, "free of something that is not allocated here")
            return [Effect(passed[0].name, "free", (), lambda _: 0, node=node)]
        if self.functions.is_empty(name):
            return []
        raise refused(node, f"a call of {name}")

    def declare(self, node: c_ast.Decl, state: State) -> None:
        if node.storage:
            raise refused(node, f"a variable that is {node.storage[0]}")
        if isinstance(node.type, c_ast.ArrayDecl):
            of = self.functions.machine.type_of(node.type.type)
            if not isinstance(of, Number) or node.init is not None:
                raise refused(node, "an array of vectors")
            self.enter(node, node.name, Cells(of, None, None), state)
            return
        of = self.functions.machine.type_of(node.type)
        if isinstance(of, Pointer):
            if not isinstance(of.to, Number) or not isinstance(node.init, c_ast.FuncCall):
                raise refused(node, "a pointer into an array")
            zeroed = self.functions.allocates(self.functions.function_name(node.init))
            if zeroed is None or not self.functions.is_pure(node.init.args):
                raise refused(node, "a pointer into an array")
            self.enter(node, node.name, Cells(of.to, None, (lambda _: 0) if zeroed else None), state)
            return
        if not isinstance(of, Number):
            raise refused(node, "a vector")
        if of is LONG and node.init is not None and self.indices.is_index(node.init, state):
            self.enter(node, node.name, Counter(self.indices.index(node.init, state)), state)
            return
        if node.init is None:
            self.enter(node, node.name, Scalar(of, None), state)
            return
        source, value = self.elements.typed(node.init, state, of.dtype)
        if source in KEYS.values() and source.size == of.size and not of.is_float and of.signed:
            of = source
        self.elements.check_conversion(node.init, source, of)
        self.enter(node, node.name, Scalar(of, value), state)

    def assignment(self, node: c_ast.Assignment, state: State) -> Effect:
        name, position = self.indices.place(node.lvalue, state)
        target = state.names[name]
        assert isinstance(target, Scalar | Cells)
        if isinstance(target, Cells) and target.is_input:
            raise refused(node, f"a store to the input {name}")
        accumulated = self.functions.accumulated(node)
        if accumulated is not None:
            op, operand = accumulated
            if op in ("add", "mul"):
                self.elements.check_arithmetic(node, target.of)
                return Effect(name, op, position, self.elements.element(operand, state, target.of), node=node)
            helper = self.functions.helper(self.functions.function_name(node.rvalue))
            assert helper is not None
            source, value = self.elements.typed(operand, state, target.of.dtype)
            for each in (target.of, source):
                self.elements.check_argument(operand, each, helper[1][0])
            self.elements.check_conversion(operand, source, target.of)
            return Effect(name, op, position, value, node=node)
        if node.op == "-=":
            self.elements.check_arithmetic(node, target.of)
            value = self.elements.element(node.rvalue, state, target.of)
            return Effect(name, "add", position, lambda env: -value(env), node=node)
        if node.op != "=":
            raise refused(node, f"the assignment {node.op}")
        return Effect(name, "store", position, self.elements.element(node.rvalue, state, target.of), node=node)

    # -- loops and branches -------------------------------------------------------------------------------------------

    def loop(self, node: c_ast.For, state: State) -> list[Effect]:
        match node:
            case c_ast.For(
                init=c_ast.DeclList(decls=[c_ast.Decl(name=name, init=first, type=declared)]),
                cond=c_ast.BinaryOp(op="<", left=c_ast.ID(name=tested), right=last),
                next=c_ast.UnaryOp(op="p++", expr=c_ast.ID(name=stepped)),
            ) if name == tested == stepped and first is not None:
                if self.functions.machine.type_of(declared) is not LONG:
                    raise refused(node, f"{name} is not of type int64_t")
            case _:
                raise refused(node, "a loop that does not count by one")
        unique = self.context.unique(name)
        low, high = self.indices.index(first, state), self.indices.index(last, state)
        inside = state.inside()
        self.enter(node, name, Counter(lambda env: env[unique]), inside)
        binder = Binder(unique, low, high)
        here, env = self.context.symbol(unique), Symbols(self.context)
        bounds = low(env) <= here, here < high(env)
        made = self.context.under_known(bounds, lambda: self.nested(_items(node.stmt), inside))
        targets = {effect.target for effect in made}
        if read := targets & self.functions.reads(node.stmt):
            raise refused(node, f"the loop reads {', '.join(sorted(read))}, which it writes")
        for target in targets:
            self._check_order(node, binder, [effect for effect in made if effect.target == target])
        return [replace(effect, binders=(binder, *effect.binders)) for effect in made]

    def _check_order(self, node: c_ast.For, binder: Binder, made: list[Effect]) -> None:
        """Refuse effects on one target that are not the same if the loop is run for one after the other."""
        for effect in made:
            if effect.op in ("zeros", "free"):
                raise refused(effect.node, "memset or free in a loop, of an array declared outside")
        if len(made) == 1 or len({effect.op for effect in made} - {"store"}) == 1 == len({e.op for e in made}):
            return
        places = [self._own_places(binder, effect) for effect in made]
        if not any(
            row[0] is not None and all(each is not None and each == row[0] for each in row)
            for row in zip(*places, strict=True)
        ):
            raise refused(node, f"{made[0].target} is changed by several statements, maybe in different iterations")

    def _own_places(self, binder: Binder, effect: Effect) -> list[Index | None]:
        """For each position of an effect, return what is added to the variable of a loop, if that is known."""
        found: list[Index | None] = []
        env = Symbols(self.context)
        inner = [env[each.name].node for each in effect.binders]
        for position in effect.position:
            rest = (position(env) - env[binder.name]).node
            bound = frozenset[int]().union(env[binder.name].node.free, *(each.free for each in inner))
            found.append(None if rest.free & bound else rest)
        return found

    def branch(self, node: c_ast.If, state: State) -> list[Effect]:
        if self._is_failure(node, state):
            return []
        condition = self.indices.condition(node.cond, state)
        test = condition(Symbols(self.context))
        made = self.context.under_known((test,), lambda: self.nested(_items(node.iftrue), state))
        made = [self._under(effect, condition) for effect in made]
        if node.iffalse is not None:
            others = self.context.under_known((~test,), lambda: self.nested(_items(node.iffalse), state))
            made += [self._under(effect, lambda env: ~condition(env)) for effect in others]
        for effect in made:
            if effect.op in ("zeros", "free"):
                raise refused(effect.node, "memset or free under a condition, of an array declared outside")
        return made

    def _under(self, e: Effect, condition: Value) -> Effect:
        return replace(e, conditions=(*e.conditions, condition))

    def _is_failure(self, node: c_ast.If, state: State) -> bool:
        """Return whether a branch is taken only if an allocation fails: its condition compares pointers with NULL."""

        def nulls(test: Any) -> bool:
            match test:  # type: ignore[exhaustive-match]
                case c_ast.BinaryOp(op="||", left=left, right=right):
                    return nulls(left) and nulls(right)
                case c_ast.BinaryOp(op="==", left=c_ast.ID(name=name), right=c_ast.ID(name="NULL")):
                    array = state.cells(name)  # allocated here: the outermost extent is not known
                    return array is not None and (array.extents is None or array.extents[0] is None)
            return False

        return nulls(node.cond) and node.iffalse is None

    # -- memory that is set to zero -----------------------------------------------------------------------------------

    def zeros(self, node: c_ast.FuncCall, state: State) -> list[Effect]:
        match node.args:
            case c_ast.ExprList(exprs=[c_ast.ID(name=name), byte, count]):
                array = state.cells(name)
            case _:
                raise refused(node, "memset of a part of an array")
        if array is None or array.is_input:
            raise refused(node, "memset of a part of an array")
        if self.indices.index(byte, state)({}).node != constant(0):
            raise refused(node, "memset with another byte than 0")
        total = IndexExpr(constant(array.of.size))
        for extent in array.extents or (None,):
            if extent is None:
                raise refused(node, "memset of an array of unknown shape")
            total = total * extent
        if not self.context.holds(self._count(count, state)(Symbols(self.context)) == total):
            raise refused(node, "memset of a part of an array")
        return [Effect(name, "zeros", (), lambda _: 0, node=node)]

    def _count(self, node: Any, state: State) -> Value:
        """Return a number of bytes, as it is before it is reduced to 64 bits."""
        match node:
            case c_ast.UnaryOp(op="sizeof", expr=c_ast.Typename() as named):
                size = IndexExpr(constant(self.functions.machine.type_of(named).size))
                return lambda _: size
            case c_ast.UnaryOp(op="sizeof", expr=c_ast.UnaryOp(op="*", expr=c_ast.ID(name=name))):
                array = state.cells(name)
                if array is None:
                    raise refused(node, "sizeof")
                cell = IndexExpr(constant(array.of.size))
                return lambda _: cell
            case c_ast.BinaryOp(op="+" | "-" | "*" as op, left=left, right=right):
                x, y = self._count(left, state), self._count(right, state)
                return lambda env: arithmetic(op, x(env), y(env))
            case c_ast.Cast(to_type=to, expr=inner) if self.functions.machine.type_of(to) in (LONG, NUMBERS["size_t"]):
                return self._count(inner, state)
        return self.indices.index(node, state)


def _items(node: Any) -> Sequence[Any]:
    """Return the statements of a block, or a single statement."""
    return node.block_items or [] if isinstance(node, c_ast.Compound) else [node]
