"""C text raised to a program, for all sizes: the kernel of rewrites is then asked whether both are equal.

The loops of a text are read as terms:

| C | term |
|---|---|
| a loop in which each iteration stores another element | a generation |
| a loop that adds to a cell or variable | a sum, also of products and, for `a < b ? b : a`, maxima |
| a store or an addition under a condition | a guard or a selection |
| an array or variable that is read later | its elements, substituted |

An index is read as an integer without bounds. So the theorem is about the text as far as indices fit into 64 bits,
which the calls of a kernel check and its validation executes. A quotient has to be proved to be rounded down. The
reader is trusted: it parses and finds types as `lowering.validation` does, and knows nothing of the printer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import numpy as np
from pycparser import c_ast

import atl
from atl.core import predicate as pred
from atl.core import terms
from atl.core.dtypes import TYPES
from atl.core.index import Index, Size, Var, constant, index
from atl.core.program import Program
from atl.core.substitution import fresh_uid
from atl.errors import ATLError, NotInSubset
from atl.meaning.polynomials import symbol
from atl.meaning.scalars import Machine as MachineNumbers
from atl.prove import Facts, proves
from atl.surface.values import Condition, IndexExpr, Tensor, as_index
from lowering.kernel import Kernel, interface
from lowering.validation.domains import TextPolynomials
from lowering.validation.interface import Interface
from lowering.validation.machine import Machine, _Compiler
from lowering.validation.memory import Address, Heap
from lowering.validation.types import (
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    NUMBERS,
    CType,
    Number,
    Pointer,
    Void,
    common,
    promoted,
)
from lowering.validation.values import Bits, Symbol, Values
from rewrites.errors import NotRaised
from rewrites.kernel import Theorem
from rewrites.session.session import reschedule

Env: TypeAlias = Mapping[str, IndexExpr]
"""The values of loop variables, by unique names."""
Value: TypeAlias = Callable[[Env], Any]
"""A value that depends on loop variables: an `IndexExpr`, a condition or a `Tensor` of rank 0."""
Read: TypeAlias = Callable[[Sequence[IndexExpr]], Any]
COMPUTED: Final = (INT, LONG, FLOAT, DOUBLE)
"""Types of which expressions of elements are read."""
KEYS: Final = {size: Number(f"key of {8 * size} bits", size, f"int{8 * size}") for size in (4, 8)}
"""Types of integers that have the order of floats. A key is read as its float, so there is no arithmetic on keys."""
LIBRARY: Final = frozenset(("memset", "free", "malloc", "calloc", "aligned_alloc", "fabs", "fabsf", "sqrt", "sqrtf"))
"""Functions of the standard library that are read."""
FOLDS: Final[dict[str, terms.Monoid]] = {"add": "sum", "mul": "product", "max": "max", "min": "min"}


@dataclass(frozen=True, slots=True)
class Binder:
    """A loop: the unique name of its variable, and its bounds."""

    name: str
    low: Value
    high: Value


@dataclass(frozen=True, slots=True)
class Effect:
    """A store or an accumulation to a cell, in the iterations of loops and under conditions."""

    target: str
    op: str
    position: tuple[Value, ...]
    value: Value
    binders: tuple[Binder, ...] = ()
    conditions: tuple[Value, ...] = ()
    node: Any = None


@dataclass(frozen=True, slots=True)
class Counter:
    """A variable of 64 bits that is not changed in its scope."""

    value: Value


@dataclass(frozen=True, slots=True)
class Scalar:
    """Another variable: its type and its value, if it has one."""

    of: Number
    value: Value | None


@dataclass(slots=True)
class Cells:
    """An array: its type, its extents, outermost first and None if unknown, and how its elements are read."""

    of: Number
    extents: tuple[IndexExpr | None, ...] | None
    read: Read | None
    is_input: bool = False


@dataclass(slots=True)
class State:
    """The names in scope. No name hides another one."""

    names: dict[str, Counter | Scalar | Cells] = field(default_factory=dict)

    def inside(self) -> State:
        return State(dict(self.names))

    def counter(self, name: str) -> Counter | None:
        found = self.names.get(name)
        return found if isinstance(found, Counter) else None

    def scalar(self, name: str) -> Scalar | None:
        found = self.names.get(name)
        return found if isinstance(found, Scalar) else None

    def cells(self, name: str) -> Cells | None:
        found = self.names.get(name)
        return found if isinstance(found, Cells) else None


def prove_text(kernel: Kernel) -> Theorem:
    """Prove that the C text of a kernel computes its program, for all sizes: the theorem program = raised text.

    Raises `NotRaised` with the statement that cannot be read as a term, and `NotFound` if no proof is found.

    >>> import atl
    >>> from rewrites.raising import prove_text
    >>> n, m = atl.sizes("n m")
    >>> A = atl.tensor("A", n, m)
    >>> kernel = atl.compile(atl.program("rows", [A], atl.gen(n, lambda i: atl.sum(m, lambda j: A[i, j]))))
    >>> print(prove_text(kernel).rhs)
    rows (A : float32[n, m]) : float32[n] :=
      ⊞[i < n] Σ[i1 < m] A[i, i1]
    """
    of = interface(kernel.program, kernel.nest, kernel.source, kernel.nest.name)
    return prove_interface(of)


def prove_interface(of: Interface) -> Theorem:
    """Prove that a text computes its program. Raises `NotRaised` and `NotFound`."""
    return reschedule(of.program).equal_to(raised(of))


def raised(of: Interface) -> Program:
    """Return the program that a text computes, with the inputs of its own. Raises `NotRaised`."""
    if of.calls:
        raise NotRaised(
            f"the text of {of.name} calls {', '.join(of.calls)}, which is not read",
            required="a kernel without calls of instructions and libraries",
            suggestions=("prove the same program without these calls",),
        )
    try:
        return _Raiser(of).program()
    except NotInSubset as error:
        raise NotRaised(f"the C text of {of.name} is not read: {error.summary}", required=error.required) from None


def _line(node: Any) -> int:
    return int(getattr(getattr(node, "coord", None), "line", 0) or 0)


def _refused(node: Any, why: str) -> NotRaised:
    return NotRaised(
        f"line {_line(node)} of the C text is not read as a term: {why}",
        required="loops in which each iteration stores another element, or adds to a sum",
        suggestions=("validate this kernel at chosen sizes: kernel.validate()",),
    )


class _Raiser:
    def __init__(self, of: Interface) -> None:
        self.of = of
        self.values = Values(TextPolynomials())
        self.machine = Machine(of.text, self.values, of.known)
        self.literals = _Compiler(Machine("", Values(MachineNumbers())))
        self.symbols: dict[str, IndexExpr] = {}
        self.facts = Facts().assume(*of.program.assumptions)
        self.fresh = 0
        self.helpers: dict[str, tuple[str, tuple[CType, ...], CType] | None] = {}
        self.last: Any = None
        self.known: list[Any] = []
        """Conditions that hold where a term is built."""

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
            raise _refused(definition, "an array for each of several results")
        result = NUMBERS[TYPES[of.dtype].c]
        wanted.append((Pointer(result), Cells(result, tuple(IndexExpr(e) for e in of.program.shape), None)))
        if len(parameters) != len(wanted) or self.machine.type_of(definition.decl.type.type) is not INT:
            raise _refused(definition, f"{len(parameters)} parameters, or a result that is not int")
        for each, (expected, meaning) in zip(parameters, wanted, strict=True):
            if self.machine.type_of(each.type) != expected:
                raise _refused(each, f"{each.name} has another type")
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
            raise _refused(definition, "a function that does not end with return 0")
        self.last = items[-1]
        shape = tuple(IndexExpr(e) for e in of.program.shape)
        for item in items:
            for effect in self.statement(item, state):
                self.apply(state, effect)
        written = state.cells(out)
        final = written.read if written is not None else None
        if final is None:
            raise _refused(definition.body, "the result is not stored")

        def element(at: list[IndexExpr]) -> Any:
            if len(at) == len(shape):
                return final(at)
            extent = shape[len(at)]
            return atl.gen(extent, lambda i: self._under_known((i >= 0, i < extent), lambda: element([*at, i])))

        inputs = [Tensor(terms.Input(array)) for array in of.program.inputs]
        try:
            given = [self._given(predicate) for predicate in of.program.assumptions]
            made = atl.program(of.program.name, inputs, element([]), given=given)
            atl.check_safe(made)
            if made.type.dtype != of.program.type.dtype:
                raise _refused(definition.body, f"its elements have type {made.type.dtype}, as literals without a type")
            return replace(of.program, body=made.body)
        except NotRaised:
            raise
        except KeyError:
            raise _refused(definition.body, "an array in a loop depends on the loops around it") from None
        except ATLError as error:
            raise _refused(definition.body, f"the term is not well-formed: {error.summary}") from None

    def _under_known(self, conditions: Sequence[Any], build: Callable[[], Any]) -> Any:
        """Build a term where these conditions hold."""
        before = len(self.known)
        self.known += conditions
        try:
            return build()
        finally:
            del self.known[before:]

    def _given(self, predicate: pred.Predicate) -> Any:
        return Condition(predicate)

    # -- statements ---------------------------------------------------------------------------------------------------

    def enter(self, node: Any, name: str, meaning: Counter | Scalar | Cells, state: State) -> None:
        """Enter a name that is declared here."""
        if name in state.names or name in ("INFINITY", "NAN", "NULL"):
            raise _refused(node, f"{name} hides another {name}")
        state.names[name] = meaning

    def nested(self, items: Sequence[Any], state: State) -> list[Effect]:
        """Read a block within a loop or branch. Effects on names declared in it are applied to it."""
        inner, effects = state.inside(), []
        declared: set[str] = set()
        written: set[str] = set()
        for item in items:
            for name in (*self._reads(item),):
                if name in written:
                    raise _refused(item, f"{name} is read in the loop that writes it")
            if isinstance(item, c_ast.Decl | c_ast.DeclList):
                for each in [item] if isinstance(item, c_ast.Decl) else item.decls:
                    declared.add(each.name)
            for effect in self.statement(item, inner):
                if effect.target in declared:
                    self.apply(inner, effect)
                else:
                    written.add(effect.target)
                    effects.append(effect)
        return effects

    def _reads(self, node: Any) -> set[str]:
        """Return the names that a statement reads, except in `x += e`, which reads and writes x."""
        found: set[str] = set()

        def visit(part: Any) -> None:
            match part:
                case c_ast.Assignment(op=op, lvalue=target, rvalue=value):
                    accumulated = self._accumulated(part)
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
            case c_ast.Return(expr=c_ast.Constant(value="0")) if node is self.last:
                return []
            case c_ast.EmptyStatement() | c_ast.StaticAssert():
                return []
            case c_ast.Cast(expr=c_ast.ID()) if isinstance(self.machine.type_of(node.to_type), Void):
                return []  # (void)x;
            case c_ast.FuncCall(name=c_ast.ID()):
                return self.call(node, state)
            case _:
                raise _refused(node, type(node).__name__)

    def call(self, node: c_ast.FuncCall, state: State) -> list[Effect]:
        """Read a call whose result is not used: of free, of memset, or of a function without statements."""
        name, passed = self._function(node), node.args.exprs if node.args is not None else []
        if name == "memset":
            return self.zeros(node, state)
        if not all(isinstance(each, c_ast.ID) for each in passed):
            raise _refused(node, f"a call of {name} whose arguments are not names")
        if name == "free" and len(passed) == 1:
            freed = state.cells(passed[0].name)
            if freed is None or freed.is_input or (freed.extents and freed.extents[0] is not None):
                raise _refused(node, "free of something that is not allocated here")
            return [Effect(passed[0].name, "free", (), lambda _: 0, node=node)]
        if self._is_empty(name):
            return []
        raise _refused(node, f"a call of {name}")

    def _function(self, node: c_ast.FuncCall) -> str:
        """Return the name of the function that a call reaches. Raises `NotRaised` if the text hides a library's."""
        name = node.name.name if isinstance(node.name, c_ast.ID) else ""
        found = self.machine.source.aliases.get(name, name)
        if not found or (self.machine.defines(found) and found in LIBRARY):
            raise _refused(node, f"a call of another function {found}")
        return found

    def _is_empty(self, name: str) -> bool:
        definition = self.machine.definitions.get(name)
        return (
            definition is not None
            and not definition.body.block_items
            and isinstance(self.machine.type_of(definition.decl.type.type), Void)
        )

    def declare(self, node: c_ast.Decl, state: State) -> None:
        if node.storage:
            raise _refused(node, f"a variable that is {node.storage[0]}")
        if isinstance(node.type, c_ast.ArrayDecl):
            of = self.machine.type_of(node.type.type)
            if not isinstance(of, Number) or node.init is not None:
                raise _refused(node, "an array of vectors")
            self.enter(node, node.name, Cells(of, None, None), state)
            return
        of = self.machine.type_of(node.type)
        if isinstance(of, Pointer):
            if not isinstance(of.to, Number) or not isinstance(node.init, c_ast.FuncCall):
                raise _refused(node, "a pointer into an array")
            zeroed = self._allocates(self._function(node.init))
            if zeroed is None or not self._is_pure(node.init.args):
                raise _refused(node, "a pointer into an array")
            self.enter(node, node.name, Cells(of.to, None, (lambda _: 0) if zeroed else None), state)
            return
        if not isinstance(of, Number):
            raise _refused(node, "a vector")
        if of is LONG and node.init is not None and self._is_index(node.init, state):
            self.enter(node, node.name, Counter(self.index(node.init, state)), state)
            return
        if node.init is None:
            self.enter(node, node.name, Scalar(of, None), state)
            return
        source, value = self.typed(node.init, state, of.dtype)
        if source in KEYS.values() and source.size == of.size and not of.is_float and of.signed:
            of = source
        self._convertible(node.init, source, of)
        self.enter(node, node.name, Scalar(of, value), state)

    def _is_pure(self, node: Any) -> bool:
        """Return whether the value of an expression is all that it computes."""
        match node:
            case None | c_ast.ID() | c_ast.Constant() | c_ast.Typename():
                return True
            case c_ast.UnaryOp(op="sizeof"):
                return True
            case c_ast.FuncCall():
                name = self._function(node)
                numbers = self.machine.defines(name) and all(
                    isinstance(of, Number) for _, of in self.machine.function(name).parameters
                )
                return numbers and self._is_pure(node.args)
            case c_ast.BinaryOp() | c_ast.ExprList() | c_ast.Cast() | c_ast.UnaryOp(op="-" | "+"):
                return all(self._is_pure(child) for _, child in node.children())
            case _:
                return False

    def _is_index(self, node: Any, state: State) -> bool:
        try:
            self.index(node, state)
        except NotRaised:
            return False
        return True

    def _allocates(self, name: str) -> bool | None:
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

    def loop(self, node: c_ast.For, state: State) -> list[Effect]:
        match node:
            case c_ast.For(
                init=c_ast.DeclList(decls=[c_ast.Decl(name=name, init=first, type=declared)]),
                cond=c_ast.BinaryOp(op="<", left=c_ast.ID(name=tested), right=last),
                next=c_ast.UnaryOp(op="p++", expr=c_ast.ID(name=stepped)),
            ) if name == tested == stepped and first is not None:
                if self.machine.type_of(declared) is not LONG:
                    raise _refused(node, f"{name} is not of type int64_t")
            case _:
                raise _refused(node, "a loop that does not count by one")
        self.fresh += 1
        unique = f"{name}:{self.fresh}"
        low, high = self.index(first, state), self.index(last, state)
        inside = state.inside()
        self.enter(node, name, Counter(lambda env: env[unique]), inside)
        body = node.stmt.block_items or [] if isinstance(node.stmt, c_ast.Compound) else [node.stmt]
        binder = Binder(unique, low, high)
        here, env = self.symbol(unique), _Symbols(self)
        made = self._under_known((low(env) <= here, here < high(env)), lambda: self.nested(body, inside))
        targets = {effect.target for effect in made}
        if read := targets & self._reads(node.stmt):
            raise _refused(node, f"the loop reads {', '.join(sorted(read))}, which it writes")
        for target in targets:
            self._check_order(node, binder, [effect for effect in made if effect.target == target])
        return [Effect(e.target, e.op, e.position, e.value, (binder, *e.binders), e.conditions, e.node) for e in made]

    def _check_order(self, node: c_ast.For, binder: Binder, made: list[Effect]) -> None:
        """Refuse effects on one target that are not the same if the loop is run for one after the other."""
        for effect in made:
            if effect.op in ("zeros", "free"):
                raise _refused(effect.node, "memset or free in a loop, of an array declared outside")
        if len(made) == 1 or len({effect.op for effect in made} - {"store"}) == 1 == len({e.op for e in made}):
            return
        places = [self._own_places(binder, effect) for effect in made]
        if not any(
            row[0] is not None and all(each is not None and each == row[0] for each in row)
            for row in zip(*places, strict=True)
        ):
            raise _refused(node, f"{made[0].target} is changed by several statements, maybe in different iterations")

    def _own_places(self, binder: Binder, effect: Effect) -> list[Index | None]:
        """For each position of an effect, return what is added to the variable of a loop, if that is known."""
        found: list[Index | None] = []
        env = _Symbols(self)
        inner = [env[each.name].node for each in effect.binders]
        for position in effect.position:
            rest = (position(env) - env[binder.name]).node
            bound = frozenset[int]().union(env[binder.name].node.free, *(each.free for each in inner))
            found.append(None if rest.free & bound else rest)
        return found

    def symbol(self, name: str) -> IndexExpr:
        """Return an index variable of which nothing is known, for the variable of a loop."""
        if name not in self.symbols:
            self.symbols[name] = IndexExpr(index(Var(next(fresh_uid), name.partition(":")[0])))
        return self.symbols[name]

    def branch(self, node: c_ast.If, state: State) -> list[Effect]:
        if self._is_failure(node, state):
            return []
        condition = self.condition(node.cond, state)
        body = node.iftrue.block_items or [] if isinstance(node.iftrue, c_ast.Compound) else [node.iftrue]
        test = condition(_Symbols(self))
        made = self._under_known((test,), lambda: self.nested(body, state))
        made = [self._under(effect, condition) for effect in made]
        if node.iffalse is not None:
            other = node.iffalse.block_items or [] if isinstance(node.iffalse, c_ast.Compound) else [node.iffalse]
            others = self._under_known((~test,), lambda: self.nested(other, state))
            made += [self._under(effect, lambda env: ~condition(env)) for effect in others]
        for effect in made:
            if effect.op in ("zeros", "free"):
                raise _refused(effect.node, "memset or free under a condition, of an array declared outside")
        return made

    def _under(self, e: Effect, condition: Value) -> Effect:
        return Effect(e.target, e.op, e.position, e.value, e.binders, (*e.conditions, condition), e.node)

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

    def _accumulated(self, node: c_ast.Assignment) -> tuple[str, Any] | None:
        """Return the operation and the operand of an accumulation."""
        if node.op in ("+=", "*="):
            return "add" if node.op == "+=" else "mul", node.rvalue
        match node.rvalue:
            case c_ast.FuncCall(name=c_ast.ID(), args=c_ast.ExprList(exprs=[x, y])) if node.op == "=":
                helper = self.helper(self._function(node.rvalue))
                if helper is not None and helper[0] in ("min", "max") and _same(x, node.lvalue):
                    return helper[0], y
        return None

    def assignment(self, node: c_ast.Assignment, state: State) -> Effect:
        name, position = self.place(node.lvalue, state)
        target = state.names[name]
        assert isinstance(target, Scalar | Cells)
        if isinstance(target, Cells) and target.is_input:
            raise _refused(node, f"a store to the input {name}")
        accumulated = self._accumulated(node)
        if accumulated is not None:
            op, operand = accumulated
            if op in ("add", "mul"):
                self._arithmetical(node, target.of)
                return Effect(name, op, position, self.element(operand, state, target.of), node=node)
            helper = self.helper(self._function(node.rvalue))
            assert helper is not None
            source, value = self.typed(operand, state, target.of.dtype)
            for each in (target.of, source):
                self._passes(operand, each, helper[1][0])
            self._convertible(operand, source, target.of)
            return Effect(name, op, position, value, node=node)
        if node.op == "-=":
            self._arithmetical(node, target.of)
            value = self.element(node.rvalue, state, target.of)
            return Effect(name, "add", position, lambda env: -value(env), node=node)
        if node.op != "=":
            raise _refused(node, f"the assignment {node.op}")
        return Effect(name, "store", position, self.element(node.rvalue, state, target.of), node=node)

    def _arithmetical(self, node: Any, of: Number) -> None:
        if of not in COMPUTED:
            raise _refused(node, f"arithmetic of type {of.name}")

    def zeros(self, node: c_ast.FuncCall, state: State) -> list[Effect]:
        match node.args:
            case c_ast.ExprList(exprs=[c_ast.ID(name=name), byte, count]):
                array = state.cells(name)
            case _:
                raise _refused(node, "memset of a part of an array")
        if array is None or array.is_input:
            raise _refused(node, "memset of a part of an array")
        if self.index(byte, state)({}).node != constant(0):
            raise _refused(node, "memset with another byte than 0")
        total = IndexExpr(constant(array.of.size))
        for extent in array.extents or (None,):
            if extent is None:
                raise _refused(node, "memset of an array of unknown shape")
            total = total * extent
        if not self._holds(self._count(count, state)(_Symbols(self)) == total):
            raise _refused(node, "memset of a part of an array")
        return [Effect(name, "zeros", (), lambda _: 0, node=node)]

    def _count(self, node: Any, state: State) -> Value:
        """Return a number of bytes, as it is before it is reduced to 64 bits."""
        match node:
            case c_ast.UnaryOp(op="sizeof", expr=c_ast.Typename() as named):
                size = IndexExpr(constant(self.machine.type_of(named).size))
                return lambda _: size
            case c_ast.UnaryOp(op="sizeof", expr=c_ast.UnaryOp(op="*", expr=c_ast.ID(name=name))):
                array = state.cells(name)
                if array is None:
                    raise _refused(node, "sizeof")
                cell = IndexExpr(constant(array.of.size))
                return lambda _: cell
            case c_ast.BinaryOp(op="+" | "-" | "*" as op, left=left, right=right):
                x, y = self._count(left, state), self._count(right, state)
                return lambda env: _arithmetic(op, x(env), y(env))
            case c_ast.Cast(to_type=to, expr=inner) if self.machine.type_of(to) in (LONG, NUMBERS["size_t"]):
                return self._count(inner, state)
        return self.index(node, state)

    # -- effects ------------------------------------------------------------------------------------------------------

    def apply(self, state: State, effect: Effect) -> None:
        """Change the state by an effect."""
        name = effect.target
        scalar = state.scalar(name)
        if scalar is not None:
            of, outer = scalar.of, scalar.value

            def whole(env: Env) -> Any:
                base = None if outer is None else lambda _: outer(env)
                return self._changed(Cells(of, (), base), effect, env)([])

            state.names[name] = Scalar(of, whole)
            return
        array = state.cells(name)
        assert array is not None
        if effect.op == "free":
            del state.names[name]
            return
        if effect.op == "zeros":
            state.names[name] = Cells(array.of, array.extents, lambda _: 0)
            return
        self._check_bounds(array, effect)
        state.names[name] = Cells(array.of, array.extents, self._changed(array, effect, {}))

    def _check_bounds(self, array: Cells, effect: Effect) -> None:
        """Prove that an effect is within the extents that are known, so that positions are those of addresses."""
        env, known = _Symbols(self), list[Any]()
        for binder in effect.binders:
            known += [binder.low(env) <= env[binder.name], env[binder.name] < binder.high(env)]
        known += [condition(env) for condition in effect.conditions]
        at = [position(env) for position in effect.position]
        self._under_known(known, lambda: self._within(array, at, effect.node))

    def _within(self, array: Cells, at: Sequence[IndexExpr], node: Any) -> None:
        for place, extent in zip(at, array.extents or (), strict=True):
            if not self._holds(place >= 0) or (extent is not None and not self._holds(place < extent)):
                raise _refused(node, "an access that is not proved to be within the rows of its array")

    def _changed(self, array: Cells, effect: Effect, outer: Env) -> Read:
        """Return how elements are read after an effect."""
        before = array.read

        def read(at: Sequence[IndexExpr]) -> Any:
            if len(at) != len(effect.position):
                raise _refused(effect.node, "an array is accessed with another number of dimensions")
            if array.extents:
                self._within(array, at, effect.node)
            env: dict[str, IndexExpr] = dict(outer)
            conditions: list[Any] = []
            equations: list[tuple[Value, IndexExpr]] = []
            for position, wanted in zip(effect.position, at, strict=True):
                solved = self._solve(position, wanted, effect.binders, env)
                if not solved:
                    equations.append((position, wanted))
            free = [b for b in effect.binders if b.name not in env]
            if effect.op == "store" and free:
                raise _refused(effect.node, "a cell is stored in several iterations")
            return self._read(effect, at, env, free, equations, conditions, before)

        return read

    def _read(
        self, effect: Effect, at: Sequence[IndexExpr], env: dict[str, IndexExpr], free: list[Binder],
        equations: list[tuple[Value, IndexExpr]], conditions: list[Any], before: Read | None,
    ) -> Any:  # fmt: skip
        def tests(names: set[str]) -> Any:
            parts = list(conditions)
            for binder in effect.binders:
                if binder.name in names:
                    continue
                here, low, high = env[binder.name], binder.low(env), binder.high(env)
                parts += [low <= here, here < high]
            parts += [position(env) == wanted for position, wanted in equations]
            parts += [condition(env) for condition in effect.conditions]
            found = [part for part in parts if not self._holds(part)]
            return _all(found)

        if effect.op == "store":
            test = tests(set())
            if test is None:
                return effect.value(env)
            if before is None:
                raise _refused(effect.node, "some cells of the array may have no value")
            value = self._under_known((test,), lambda: effect.value(env))
            old_value = self._under_known((~test,), lambda: before(at))
            return atl.guard(test, value) if _is_zero(old_value) else atl.select(test, value, old_value)
        if before is None:
            raise _refused(effect.node, "a cell without a value is added to")
        if effect.op != "add" and not free:
            test, old = tests(set()), before(at)
            changed = _combined(effect.op, old, effect.value(env))
            return changed if test is None else atl.select(test, changed, old)

        def folded(rest: list[Binder]) -> Any:
            if rest:
                binder, *others = rest
                if effect.op != "add" and not self._holds(binder.low(env) < binder.high(env)):
                    raise _refused(effect.node, "a product or maximum over a loop that may be empty")
                return atl.reduce(
                    FOLDS[effect.op],
                    (binder.low(env), binder.high(env)),
                    lambda i: with_index(binder, i, others),
                )
            test = tests({binder.name for binder in free})
            if test is None:
                return effect.value(env)
            if effect.op != "add":
                raise _refused(effect.node, "a product or maximum under a condition")
            return atl.guard(test, self._under_known((test,), lambda: effect.value(env)))

        def with_index(binder: Binder, i: IndexExpr, others: list[Binder]) -> Any:
            env[binder.name] = i
            return self._under_known((binder.low(env) <= i, i < binder.high(env)), lambda: folded(others))

        change, old = folded(free), before(at)
        for binder in free:
            env.pop(binder.name, None)
        return _combined(effect.op, old, change)

    def _solve(self, position: Value, wanted: IndexExpr, binders: Sequence[Binder], env: dict[str, IndexExpr]) -> bool:
        """Solve `position = wanted` for a loop variable, if it is that variable plus what is known."""
        for binder in binders:
            if binder.name in env:
                continue
            here = self.symbol(binder.name)
            try:
                rest = position({**env, binder.name: here}) - here
            except KeyError:
                continue
            if not rest.node.free & here.node.free:
                env[binder.name] = wanted - rest
                return True
        return False

    def _holds(self, condition: Any) -> bool:
        """Return whether a condition is proved where the term is built."""
        try:
            return proves(self.facts.assume(*(each.node for each in self.known)), condition.node)
        except ATLError:
            return False

    # -- expressions --------------------------------------------------------------------------------------------------

    def place(self, node: Any, state: State) -> tuple[str, tuple[Value, ...]]:
        match node:  # type: ignore[exhaustive-match]
            case c_ast.ID(name=name) if state.scalar(name) is not None:
                return name, ()
            case c_ast.UnaryOp(op="*", expr=c_ast.ID(name=name)):
                array = state.cells(name)
                if array is not None and array.extents == ():
                    return name, ()
            case c_ast.ArrayRef(name=c_ast.ID(name=name), subscript=subscript):
                array = state.cells(name)
                if array is not None:
                    return name, self.positions(subscript, state, array)
        raise _refused(node, "an access that is not to an element")

    def positions(self, node: Any, state: State, array: Cells) -> tuple[Value, ...]:
        """Split an address (i * m + j) * k + l into the positions i, j, l."""
        whole = self.index(node, state)
        extents = array.extents
        if extents is None:
            extents = array.extents = (None, *self._guessed(node, state))
        if len(extents) == 1:
            return (whole,)
        found = self._split(node, state, [IndexExpr(constant(0)) if each is None else each for each in extents])
        env = _Symbols(self)
        address = IndexExpr(constant(0))
        for position, extent in zip(found, extents, strict=True):
            address = (address if extent is None else address * extent) + position(env)
        if (address - whole(env)).node != constant(0):
            raise _refused(node, "an address that is not a position in the shape")
        return found

    def _guessed(self, node: Any, state: State) -> tuple[IndexExpr, ...]:
        """Return the extents that an address (i * m + j) * k + l shows: m and k."""
        for _, term in self._terms(node):
            match term:  # type: ignore[exhaustive-match]
                case c_ast.BinaryOp(op="*", left=left, right=right):
                    for one, other in ((right, left), (left, right)):
                        try:
                            extent = self.index(one, state)({})
                        except (KeyError, NotRaised):
                            continue
                        return (*self._guessed(other, state), extent)
        return ()

    def _split(self, node: Any, state: State, extents: list[IndexExpr]) -> tuple[Value, ...]:
        terms_of = self._terms(node)
        for count in range(len(terms_of) + 1):
            if len(extents) == 1:
                return (self._sum(terms_of, state),)
            # the last terms are the last position; those before are multiples of the extent
            inner, outer = terms_of[:count], terms_of[count:]
            factored = [self._factored(sign, term, state, extents[-1]) for sign, term in outer]
            if all(each is not None for each in factored):
                rest = [each for each in factored if each is not None]
                before = self._split_terms(rest, state, extents[:-1])
                if before is not None:
                    return (*before, self._sum(inner, state))
            others = [t for t in terms_of if self._factored(*t, state, extents[-1]) is None]
            multiples = [self._factored(*t, state, extents[-1]) for t in terms_of]
            before = self._split_terms([m for m in multiples if m is not None], state, extents[:-1])
            if before is not None:
                return (*before, self._sum(others, state))
        raise _refused(node, "an address that is not a position in the shape")

    def _split_terms(
        self, parts: list[tuple[int, Any]], state: State, extents: list[IndexExpr]
    ) -> tuple[Value, ...] | None:
        if len(extents) == 1:
            return (self._sum(parts, state),)
        flat = [each for sign, term in parts for each in self._terms(term, sign)]
        multiples = [(t, self._factored(*t, state, extents[-1])) for t in flat]
        before = self._split_terms([m for _, m in multiples if m is not None], state, extents[:-1])
        if before is None:
            return None
        return (*before, self._sum([t for t, m in multiples if m is None], state))

    def _terms(self, node: Any, sign: int = 1) -> list[tuple[int, Any]]:
        match node:  # type: ignore[exhaustive-match]
            case c_ast.BinaryOp(op="+" | "-" as op, left=left, right=right):
                return [*self._terms(left, sign), *self._terms(right, sign if op == "+" else -sign)]
        return [(sign, node)]

    def _factored(self, sign: int, node: Any, state: State, extent: IndexExpr) -> tuple[int, Any] | None:
        """Return the other factor of a product with an extent."""
        match node:  # type: ignore[exhaustive-match]
            case c_ast.BinaryOp(op="*", left=left, right=right):
                for one, other in ((right, left), (left, right)):
                    try:
                        if (self.index(one, state)({}) - extent).node == constant(0):
                            return sign, other
                    except (KeyError, NotRaised):
                        pass
                # (a * b) * c: a factor further inside
                inner = self._factored(sign, left, state, extent)
                if inner is not None:
                    return sign, c_ast.BinaryOp("*", inner[1], right, node.coord)
            case c_ast.Constant() | c_ast.ID():
                try:
                    if (self.index(node, state)({}) - extent).node == constant(0):
                        return sign, c_ast.Constant("int", "1", node.coord)
                except (KeyError, NotRaised):
                    pass
        return None

    def _sum(self, parts: Sequence[tuple[int, Any]], state: State) -> Value:
        made = [(sign, self.index(node, state)) for sign, node in parts]

        def total(env: Env) -> IndexExpr:
            found = IndexExpr(constant(0))
            for sign, value in made:
                found = found + value(env) if sign > 0 else found - value(env)
            return found

        return total

    def index(self, node: Any, state: State) -> Value:
        return self._index(node, state)[1]

    def _index(self, node: Any, state: State) -> tuple[Number, Value]:
        """Return an index of type int64_t, or of type int if it is a constant, an element of an input or a negation."""
        match node:  # type: ignore[exhaustive-match]
            case c_ast.Constant(type=kind) if "float" not in kind and "double" not in kind:
                made = self.literals.constant(node)
                if made.of not in (INT, LONG):
                    raise _refused(node, "an unsigned integer")
                whole = IndexExpr(constant(made.constant or 0))
                return (INT if made.of is INT else LONG), lambda _: whole
            case c_ast.ID(name=name):
                counter = state.counter(name)
                if counter is not None:
                    return LONG, counter.value
            case c_ast.BinaryOp(op="+" | "-" | "*" | "/" | "%" as op, left=left, right=right):
                (one, x), (other, y) = self._index(left, state), self._index(right, state)
                of = common(one, other)
                if of is not LONG and not self._fits(x, y, op):
                    raise _refused(node, "arithmetic of type int in an index")
                if op in "/%" and not self._rounds_down(x, y):
                    raise _refused(node, f"{op} of a number that may be negative, or by one that may not be positive")
                return of, lambda env: _arithmetic(op, x(env), y(env))
            case c_ast.UnaryOp(op="-", expr=inner):
                of, value = self._index(inner, state)
                return of, lambda env: -value(env)
            case c_ast.Cast(to_type=to, expr=inner):
                if self.machine.type_of(to) is not LONG:
                    raise _refused(node, "a cast of an index to another type than int64_t")
                return LONG, self.index(inner, state)
            case c_ast.ArrayRef(name=c_ast.ID(name=name)):
                array = state.cells(name)
                if array is not None and array.is_input and array.of in (INT, LONG) and array.read is not None:
                    read, (_, position) = array.read, self.place(node, state)
                    return array.of, lambda env: IndexExpr(as_index(read([each(env) for each in position])))
            case c_ast.FuncCall(args=c_ast.ExprList(exprs=[left, right])):
                x, y = self.index(left, state), self.index(right, state)
                match self.helper(self._function(node)):  # type: ignore[exhaustive-match]
                    case ("min", kinds, result) if all(each is LONG for each in (*kinds, result)):
                        return LONG, lambda env: atl.imin(x(env), y(env))
                    case ("max", kinds, result) if all(each is LONG for each in (*kinds, result)):
                        return LONG, lambda env: atl.imax(x(env), y(env))
        raise _refused(node, "an index that is not made of loop variables and sizes")

    def _rounds_down(self, x: Value, y: Value) -> bool:
        """Return whether a quotient, which C rounds towards 0, is proved to be rounded down."""
        env = _Symbols(self)
        try:
            return self._holds(x(env) >= 0) and self._holds(y(env) > 0)
        except ATLError:
            return False

    def _fits(self, x: Value, y: Value, op: str) -> bool:
        """Return whether arithmetic on two constants of type int does not overflow."""
        try:
            made = _arithmetic(op, x({}), y({})).node.constant
        except (KeyError, ATLError):
            return False
        return made is not None and INT.low <= made <= INT.high

    def condition(self, node: Any, state: State) -> Value:
        match node:  # type: ignore[exhaustive-match]
            case c_ast.BinaryOp(op="&&" | "||" as op, left=left, right=right):
                x, y = self.condition(left, state), self.condition(right, state)
                return (lambda env: x(env) & y(env)) if op == "&&" else (lambda env: x(env) | y(env))
            case c_ast.BinaryOp(op="<" | "<=" | ">" | ">=" | "==" | "!=" as op, left=left, right=right):
                for each in (left, right):
                    if not self._is_index(each, state) and any(
                        isinstance(state.names.get(name), Scalar | Cells) for name in self._reads(each)
                    ):
                        raise _refused(node, "a condition that depends on elements")
                x, y = self.index(left, state), self.index(right, state)
                return lambda env: _compared(op, x(env), y(env))
            case c_ast.UnaryOp(op="!", expr=inner):
                value = self.condition(inner, state)
                return lambda env: ~value(env)
        raise _refused(node, "a condition that depends on elements")

    def element(self, node: Any, state: State, of: Number) -> Value:
        """Return the value of an expression, converted to a type."""
        source, value = self.typed(node, state, of.dtype)
        self._convertible(node, source, of)
        return value

    def _convertible(self, node: Any, source: Number, of: Number) -> None:
        """Refuse a conversion that may change a value, except for the rounding of floats."""
        if source in KEYS.values() and source != of:
            raise _refused(node, f"a conversion from {source.name} to {of.name}")
        self._passes(node, source, of)

    def _passes(self, node: Any, source: Number, of: CType) -> None:
        """Refuse an argument for a parameter of this type, unless it keeps its value. A key may be an integer there."""
        constant = _is_constant(node)
        if isinstance(of, Number):
            if source == of and (of in COMPUTED or of in KEYS.values()):
                return
            if source in KEYS.values() and of in (INT, LONG) and source.size == of.size:
                return
            if source.is_float and of.is_float:
                return
            if constant and source is INT and (of is LONG or of.is_float):
                return
        raise _refused(node, f"a conversion from {source.name} to {getattr(of, 'name', 'another type')}")

    def typed(self, node: Any, state: State, dtype: str) -> tuple[Number, Value]:
        """Return the type and the value of an expression whose result has this element type."""
        match node:  # type: ignore[exhaustive-match]
            case c_ast.Constant():
                made = self.literals.constant(node)
                if made.of not in COMPUTED or not isinstance(made.of, Number):
                    raise _refused(node, "an unsigned integer")
                number = self._number(node, made.of, made.run([]), dtype)
                return made.of, lambda _: number
            case c_ast.ID(name="INFINITY"):
                return FLOAT, lambda _: float("inf")
            case c_ast.UnaryOp(op="-", expr=c_ast.ID(name="INFINITY")):
                return FLOAT, lambda _: float("-inf")
            case c_ast.ID(name=name) if (scalar := state.scalar(name)) is not None:
                if scalar.value is None:
                    raise _refused(node, f"{name} has no value")
                return scalar.of, scalar.value
            case c_ast.ArrayRef() | c_ast.UnaryOp(op="*"):
                name, position = self.place(node, state)
                array = state.cells(name)
                read = None if array is None else array.read
                if array is None or read is None:
                    raise _refused(node, f"{name} has no values")
                return array.of, lambda env: read([each(env) for each in position])
            case c_ast.BinaryOp(op="+" | "-" | "*" | "/" as op, left=left, right=right):
                (one, x), (other, y) = self.typed(left, state, dtype), self.typed(right, state, dtype)
                of = common(one, other)
                if one not in COMPUTED or other not in COMPUTED or (op == "/" and not of.is_float):
                    raise _refused(node, f"{op} of {one.name} and {other.name}")
                self._convertible(left, one, of)
                self._convertible(right, other, of)
                return of, lambda env: _arithmetic(op, x(env), y(env))
            case c_ast.UnaryOp(op="-", expr=inner):
                of, value = self.typed(inner, state, dtype)
                self._arithmetical(node, of)
                return promoted(of), lambda env: -value(env)
            case c_ast.TernaryOp(cond=cond, iftrue=yes, iffalse=no):
                test = self.condition(cond, state)
                here = test(_Symbols(self))
                one, x = self._under_known((here,), lambda: self.typed(yes, state, dtype))
                other, y = self._under_known((~here,), lambda: self.typed(no, state, dtype))
                of = one if one == other else common(one, other)
                self._convertible(yes, one, of)
                self._convertible(no, other, of)
                return of, lambda env: _selected(test(env), x(env), y(env))
            case c_ast.FuncCall(name=c_ast.ID(), args=c_ast.ExprList(exprs=operands)):
                return self._call(node, operands, state, dtype)
            case c_ast.Cast(to_type=to, expr=inner):
                target = self.machine.type_of(to)
                if isinstance(target, Number) and target in COMPUTED and self._is_index(inner, state):
                    place, of = self.index(inner, state), target
                    return (
                        of,
                        lambda env: (
                            atl.cast(of.dtype, atl.value(place(env))) if of.dtype != dtype else atl.value(place(env))
                        ),
                    )
                if not any(isinstance(state.names.get(name), Scalar | Cells) for name in self._reads(inner)):
                    self.index(inner, state)  # says why it is no index
                raise _refused(node, "a cast of elements")
        raise _refused(node, "an expression of elements")

    def _number(self, node: Any, of: Number, raw: Any, dtype: str) -> int | float:
        """Return a literal in an expression of elements of a type. For float32, it has as few digits as possible."""
        if isinstance(raw, int):
            return raw
        if dtype != "float32":
            return _literal(float(raw))
        if float(np.float32(raw)) != float(raw):
            raise _refused(node, f"a number of type {of.name} that is not one of type float")
        return _literal(float(str(np.float32(raw))))

    def _call(self, node: Any, operands: Sequence[Any], state: State, dtype: str) -> tuple[Number, Value]:
        name = self._function(node)
        helper = self.helper(name)
        op, known = None if helper is None else helper[0], self.of.known.get(name)
        if known is not None and known.op not in ("cast", "same") and self.machine.defines(name):
            op = known.op
        functions: dict[str | None, Callable[..., Any]] = {
            "max": atl.maximum, "min": atl.minimum, "abs": atl.abs, "sqrt": atl.sqrt, "exp": atl.exp, "log": atl.log,
            "tanh": atl.tanh, "key": lambda x: x, "float": lambda x: x,
        }  # fmt: skip
        if op not in functions:
            raise _refused(node, f"a call of {name}")
        if helper is None:
            called = self.machine.function(name)
            helper = str(op), tuple(of for _, of in called.parameters), called.result
        _, kinds, result = helper
        typed = [self.typed(each, state, dtype) for each in operands]
        if len(kinds) != len(typed) or not isinstance(result, Number):
            raise _refused(node, f"a call of {name}")
        keys = [of for of, _ in typed if of in KEYS.values()]
        if keys and (op not in ("max", "min", "float") or len(keys) != len(typed)):
            raise _refused(node, f"a call of {name} with the key of a float")
        if op == "float" and not keys:
            raise _refused(node, f"a call of {name} without the key of a float")
        for each, (of, _), kind in zip(operands, typed, kinds, strict=True):
            self._passes(each, of, kind)
            if op == "key" and of != kind:
                raise _refused(each, "the key of a float of another type")
        if op == "key" or (keys and op != "float"):
            result = KEYS[result.size]
        function, values = functions[op], [value for _, value in typed]
        return result, lambda env: function(*(value(env) for value in values))

    def helper(self, name: str) -> tuple[str, tuple[CType, ...], CType] | None:
        """Return the operation that a function of the text computes, found by executing it on symbols, and its types.

        `key` and `float` are the conversions between floats and integers with the same order.
        """
        if not self.machine.defines(name):
            of = FLOAT if name.endswith("f") else DOUBLE
            library = {"fabs": "abs", "fabsf": "abs", "sqrt": "sqrt", "sqrtf": "sqrt"}
            return (library[name], (of,), of) if name in library else None
        if name not in self.helpers:
            op = self._operation(name)
            function = self.machine.function(name) if op is not None else None
            self.helpers[name] = (
                None
                if op is None or function is None
                else (op, tuple(of for _, of in function.parameters), function.result)
            )
        return self.helpers[name]

    def _operation(self, name: str) -> str | None:
        if not self.machine.defines(name):
            return None
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


class _Symbols(dict[str, IndexExpr]):
    """The variables of loops as index variables of which nothing is known."""

    def __init__(self, raiser: _Raiser) -> None:
        super().__init__()
        self.raiser = raiser

    def __missing__(self, name: str) -> IndexExpr:
        return self.raiser.symbol(name)


def _same(x: Any, y: Any) -> bool:
    """Return whether two expressions are written alike."""
    return (
        type(x) is type(y)
        and [getattr(x, name) for name in x.attr_names] == [getattr(y, name) for name in y.attr_names]
        and len(x.children()) == len(y.children())
        and all(_same(a, b) for (_, a), (_, b) in zip(x.children(), y.children(), strict=True))
    )


def _is_constant(node: Any) -> bool:
    return isinstance(node, c_ast.Constant) or (
        isinstance(node, c_ast.UnaryOp) and node.op == "-" and isinstance(node.expr, c_ast.Constant)
    )


def _literal(value: float) -> int | float:
    return int(value) if value.is_integer() else value


def _is_zero(value: Any) -> bool:
    return isinstance(value, int | float) and value == 0


def _combined(op: str, old: Any, change: Any) -> Any:
    """Return an accumulated value, from the value before."""
    match op:
        case "add":
            return change if _is_zero(old) else old + change
        case "mul":
            return old * change
        case "max":
            return change if isinstance(old, float) and old == float("-inf") else atl.maximum(old, change)
        case _:
            return change if isinstance(old, float) and old == float("inf") else atl.minimum(old, change)


def _all(conditions: Sequence[Any]) -> Any:
    found = None
    for condition in conditions:
        found = condition if found is None else found & condition
    return found


def _selected(test: Any, x: Any, y: Any) -> Any:
    if _is_zero(y):
        return atl.guard(test, x)
    return atl.select(test, x, y)


def _arithmetic(op: str, x: Any, y: Any) -> Any:
    match op:
        case "+":
            return x + y
        case "-":
            return x - y
        case "*":
            return x * y
        case "%":
            return x % y
        case "/":
            return x // y if isinstance(x, IndexExpr) else x / y
        case _:
            raise AssertionError(op)


def _compared(op: str, x: IndexExpr, y: IndexExpr) -> Any:
    match op:
        case "<":
            return x < y
        case "<=":
            return x <= y
        case ">":
            return x > y
        case ">=":
            return x >= y
        case "==":
            return x == y
        case _:
            return x != y
