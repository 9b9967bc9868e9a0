"""C text raised to a program, for all sizes: the kernel of rewrites is then asked whether both are equal.

The loops of a text are read as terms:

| C | term |
|---|---|
| a loop whose iterations store to cells of their own | a generation |
| a loop that adds to a cell or variable | a sum, also of products and, for `a < b ? b : a`, maxima |
| a store or an addition under a condition | a guard or a selection |
| an array or variable that is read later | its elements, substituted |

An index is read as an integer without bounds, and `/` as a quotient that is rounded down. So the theorem is about the
text as far as indices fit into 64 bits and numerators are not negative, which the calls of a kernel check and its
validation executes. The reader is that of `lowering.validation`, and knows nothing of the printer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from pycparser import c_ast

import atl
from atl.core import predicate as pred
from atl.core import terms
from atl.core.index import Index, Size, constant, index
from atl.core.program import Program
from atl.errors import ATLError
from atl.meaning.polynomials import symbol
from atl.prove import Facts, proves
from atl.surface.values import Condition, IndexExpr, Tensor, as_index
from lowering.kernel import Kernel, interface
from lowering.validation.domains import TextPolynomials
from lowering.validation.interface import Interface
from lowering.validation.machine import Machine
from lowering.validation.memory import Address, Heap
from lowering.validation.types import Number, Pointer, Void
from lowering.validation.values import Bits, Symbol, Values
from rewrites.errors import NotRaised
from rewrites.kernel import Theorem
from rewrites.session.session import reschedule

Env: TypeAlias = Mapping[str, IndexExpr]
"""The values of loop variables, by unique names."""
Value: TypeAlias = Callable[[Env], Any]
"""A value that depends on loop variables: an `IndexExpr`, a condition or a `Tensor` of rank 0."""
Read: TypeAlias = Callable[[Sequence[IndexExpr]], Any]
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


@dataclass(slots=True)
class Cells:
    """An array: its extents, outermost first and None if unknown, and how its elements are read."""

    dtype: str
    extents: tuple[IndexExpr | None, ...] | None
    read: Read | None


@dataclass(slots=True)
class State:
    """The names in scope: index variables, other variables, and arrays."""

    indices: dict[str, Value] = field(default_factory=dict)
    scalars: dict[str, tuple[str, Value | None]] = field(default_factory=dict)
    arrays: dict[str, Cells] = field(default_factory=dict)

    def inside(self) -> State:
        return State(dict(self.indices), dict(self.scalars), dict(self.arrays))


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
    return _Raiser(of).program()


def _line(node: Any) -> int:
    return int(getattr(getattr(node, "coord", None), "line", 0) or 0)


def _refused(node: Any, why: str) -> NotRaised:
    return NotRaised(
        f"line {_line(node)} of the C text is not read as a term: {why}",
        required="loops that store to cells of their own, or that accumulate",
        suggestions=("validate this kernel at chosen sizes: kernel.validate()",),
    )


class _Raiser:
    def __init__(self, of: Interface) -> None:
        self.of = of
        self.values = Values(TextPolynomials())
        self.machine = Machine(of.text, self.values, of.known)
        self.facts = Facts().assume(*of.program.assumptions)
        self.fresh = 0
        self.helpers: dict[str, str | None] = {}
        self.last: Any = None
        self.known: list[Any] = []
        """Conditions that hold where a term is built."""

    def program(self) -> Program:
        of, state = self.of, State()
        for array in of.program.inputs:
            tensor = Tensor(terms.Input(array)) if hasattr(terms, "Input") else None
            assert tensor is not None
            if array.shape:
                state.arrays[array.name] = Cells(
                    array.dtype,
                    tuple(IndexExpr(e) for e in array.shape),
                    lambda at, t=tensor: t[tuple(at)],  # type: ignore[misc]
                )
            else:
                state.scalars[array.name] = array.dtype, lambda _, t=tensor: t  # type: ignore[misc]
        definition = self.machine.definitions[of.name]
        parameters = [each.name for each in definition.decl.type.args.params]
        for name, size in zip(parameters[len(of.inputs) :], of.sizes, strict=False):
            state.indices[name] = lambda _, s=size: IndexExpr(index(Size(s)))  # type: ignore[misc]
        for name, array in zip(parameters, of.inputs, strict=False):
            if name != array.name:
                (state.arrays if array.shape else state.scalars)[name] = (  # type: ignore[assignment]
                    state.arrays if array.shape else state.scalars
                )[array.name]
        out, self.last = parameters[-1], definition.body.block_items[-1]
        shape = tuple(IndexExpr(e) for e in of.program.shape)
        state.arrays[out] = Cells(of.dtype, shape, None)
        for effect in self.block(definition.body.block_items or [], state):
            self.apply(state, effect)
        final = state.arrays[out].read
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
            return replace(of.program, body=made.body)
        except NotRaised:
            raise
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

    def block(self, items: Sequence[Any], state: State) -> list[Effect]:
        """Read statements; return their effects on what is declared outside."""
        outside = {*state.scalars, *state.arrays}
        local = state
        effects: list[Effect] = []
        for item in items:
            for effect in self.statement(item, local):
                if effect.target in outside and local is not state:
                    effects.append(effect)
                else:
                    self.apply(local, effect)
        return effects

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
            case c_ast.Cast(to_type=c_ast.Typename()):
                return []  # (void)x;
            case c_ast.FuncCall(name=c_ast.ID(name="free")):
                return []
            case c_ast.FuncCall(name=c_ast.ID(name="memset")):
                return self.zeros(node, state)
            case c_ast.FuncCall(name=c_ast.ID(name=name)) if self._is_empty(name):
                return []
            case _:
                raise _refused(node, type(node).__name__)

    def _is_empty(self, name: str) -> bool:
        definition = self.machine.definitions.get(name)
        return (
            definition is not None
            and not definition.body.block_items
            and isinstance(self.machine.type_of(definition.decl.type.type), Void)
        )

    def declare(self, node: c_ast.Decl, state: State) -> None:
        if isinstance(node.type, c_ast.ArrayDecl):
            of = self.machine.type_of(node.type.type)
            if not isinstance(of, Number) or node.init is not None:
                raise _refused(node, "an array of vectors")
            state.arrays[node.name] = Cells(of.dtype, None, None)
            return
        of = self.machine.type_of(node.type)
        if isinstance(of, Pointer):
            if not isinstance(of.to, Number) or not isinstance(node.init, c_ast.FuncCall):
                raise _refused(node, "a pointer into an array")
            zeroed = self._allocates(node.init.name.name)
            if zeroed is None:
                raise _refused(node, "a pointer into an array")
            state.arrays[node.name] = Cells(of.to.dtype, None, (lambda _: 0) if zeroed else None)
            return
        if not isinstance(of, Number):
            raise _refused(node, "a vector")
        if not of.is_float and node.name != "failed" and node.init is not None and self._is_index(node.init, state):
            state.indices[node.name] = self.index(node.init, state)
            return
        state.scalars[node.name] = of.dtype, None if node.init is None else self.element(node.init, state, of.dtype)

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
                init=c_ast.DeclList(decls=[c_ast.Decl(name=name, init=first)]),
                cond=c_ast.BinaryOp(op="<", left=c_ast.ID(name=tested), right=last),
                next=c_ast.UnaryOp(op="p++", expr=c_ast.ID(name=stepped)),
            ) if name == tested == stepped:
                pass
            case _:
                raise _refused(node, "a loop that does not count by one")
        self.fresh += 1
        unique = f"{name}:{self.fresh}"
        low, high = self.index(first, state), self.index(last, state)
        inside = state.inside()
        inside.indices[name] = lambda env: env[unique]
        body = node.stmt.block_items or [] if isinstance(node.stmt, c_ast.Compound) else [node.stmt]
        binder = Binder(unique, low, high)
        made = self.nested(body, inside)
        targets = {effect.target for effect in made}
        if read := targets & self._reads(node.stmt):
            raise _refused(node, f"the loop reads {', '.join(sorted(read))}, which it writes")
        for target in targets:
            ops = {effect.op for effect in made if effect.target == target}
            if len(ops) > 1:
                return self._mixed(node, binder, made, target)
        return [Effect(e.target, e.op, e.position, e.value, (binder, *e.binders), e.conditions, e.node) for e in made]

    def _mixed(self, node: Any, binder: Binder, made: list[Effect], target: str) -> list[Effect]:
        """Return the effects of a loop that stores and adds to cells that belong to one iteration each."""
        for effect in made:
            if effect.target == target and not any(self._depends(position, binder) for position in effect.position):
                raise _refused(node, f"{target} is stored and added to in different iterations")
        return [Effect(e.target, e.op, e.position, e.value, (binder, *e.binders), e.conditions, e.node) for e in made]

    def _depends(self, value: Value, binder: Binder) -> bool:
        used: list[str] = []

        class Watching(dict[str, IndexExpr]):
            def __missing__(self, name: str) -> IndexExpr:
                used.append(name)
                return IndexExpr(index(Size(f"any_{name.replace(':', '_')}")))

        value(Watching())
        return binder.name in used

    def branch(self, node: c_ast.If, state: State) -> list[Effect]:
        if self._is_failure(node):
            return []
        condition = self.condition(node.cond, state)
        body = node.iftrue.block_items or [] if isinstance(node.iftrue, c_ast.Compound) else [node.iftrue]
        made = [self._under(effect, condition) for effect in self.nested(body, state)]
        if node.iffalse is not None:
            other = node.iffalse.block_items or [] if isinstance(node.iffalse, c_ast.Compound) else [node.iffalse]
            made += [self._under(effect, lambda env: ~condition(env)) for effect in self.nested(other, state)]
        return made

    def _under(self, e: Effect, condition: Value) -> Effect:
        return Effect(e.target, e.op, e.position, e.value, e.binders, (*e.conditions, condition), e.node)

    def _is_failure(self, node: c_ast.If) -> bool:
        """Return whether a branch is taken only if an allocation fails: its condition compares pointers with NULL."""

        def nulls(test: Any) -> bool:
            match test:  # type: ignore[exhaustive-match]
                case c_ast.BinaryOp(op="||", left=left, right=right):
                    return nulls(left) and nulls(right)
                case c_ast.BinaryOp(op="==", right=c_ast.ID(name="NULL")):
                    return True
            return False

        return nulls(node.cond) and node.iffalse is None

    def _accumulated(self, node: c_ast.Assignment) -> tuple[str, Any] | None:
        """Return the operation and the operand of an accumulation."""
        if node.op in ("+=", "*="):
            return "add" if node.op == "+=" else "mul", node.rvalue
        match node.rvalue:
            case c_ast.FuncCall(name=c_ast.ID(name=name), args=c_ast.ExprList(exprs=[x, y])) if node.op == "=":
                op = self.helper(name)
                if op in ("min", "max") and _same(x, node.lvalue):
                    return op, y
        return None

    def assignment(self, node: c_ast.Assignment, state: State) -> Effect:
        name, position = self.place(node.lvalue, state)
        dtype = state.arrays[name].dtype if name in state.arrays else state.scalars[name][0]
        accumulated = self._accumulated(node)
        if accumulated is not None:
            op, operand = accumulated
            return Effect(name, op, position, self.element(operand, state, dtype), node=node)
        if node.op == "-=":
            value = self.element(node.rvalue, state, dtype)
            return Effect(name, "add", position, lambda env: -value(env), node=node)
        if node.op != "=":
            raise _refused(node, f"the assignment {node.op}")
        return Effect(name, "store", position, self.element(node.rvalue, state, dtype), node=node)

    def zeros(self, node: c_ast.FuncCall, state: State) -> list[Effect]:
        target = node.args.exprs[0]
        if not isinstance(target, c_ast.ID) or target.name not in state.arrays:
            raise _refused(node, "memset of a part of an array")
        array = state.arrays[target.name]
        if array.extents is None or any(extent is None for extent in array.extents):
            raise _refused(node, "memset of an array of unknown shape")
        return [Effect(target.name, "zeros", (), lambda _: 0, node=node)]

    # -- effects ------------------------------------------------------------------------------------------------------

    def apply(self, state: State, effect: Effect) -> None:
        """Change the state by an effect."""
        name = effect.target
        if name in state.scalars:
            dtype, before = state.scalars[name]
            outer = before

            def whole(env: Env) -> Any:
                base = None if outer is None else lambda _: outer(env)
                return self._changed(Cells(dtype, (), base), effect, env)([])

            state.scalars[name] = dtype, whole
            return
        array = state.arrays[name]
        if effect.op == "zeros":
            state.arrays[name] = Cells(array.dtype, array.extents, lambda _: 0)
            return
        state.arrays[name] = Cells(array.dtype, array.extents, self._changed(array, effect, {}))

    def _changed(self, array: Cells, effect: Effect, outer: Env) -> Read:
        """Return how elements are read after an effect."""
        before = array.read

        def read(at: Sequence[IndexExpr]) -> Any:
            if len(at) != len(effect.position):
                raise _refused(effect.node, "an array is accessed with another number of dimensions")
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
            return self._read(array, effect, at, env, free, equations, conditions, before)

        return read

    def _read(
        self, array: Cells, effect: Effect, at: Sequence[IndexExpr], env: dict[str, IndexExpr], free: list[Binder],
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
            found = [part for part in parts if not self._holds(part, array, at)]
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

        def folded(rest: list[Binder]) -> Any:
            if rest:
                binder, *others = rest
                return atl.reduce(
                    FOLDS[effect.op],
                    (binder.low(env), binder.high(env)),
                    lambda i: with_index(binder, i, others),
                )
            test = tests({binder.name for binder in free})
            if test is None:
                return effect.value(env)
            return atl.guard(test, self._under_known((test,), lambda: effect.value(env)))

        def with_index(binder: Binder, i: IndexExpr, others: list[Binder]) -> Any:
            env[binder.name] = i
            return self._under_known((binder.low(env) <= i, i < binder.high(env)), lambda: folded(others))

        change, old = folded(free), before(at)
        for binder in free:
            env.pop(binder.name, None)
        if effect.op == "add":
            return change if _is_zero(old) else old + change
        if effect.op == "mul":
            return old * change
        if _is_infinite(old):
            return change
        return atl.maximum(old, change) if effect.op == "max" else atl.minimum(old, change)

    def _solve(self, position: Value, wanted: IndexExpr, binders: Sequence[Binder], env: dict[str, IndexExpr]) -> bool:
        """Solve `position = wanted` for a loop variable, if it is that variable plus what is known."""
        for binder in binders:
            if binder.name in env:
                continue
            try:
                zero, one = (position({**env, binder.name: IndexExpr(index_of(c))}) for c in (0, 1))
                far = position({**env, binder.name: IndexExpr(index_of(7))})
            except KeyError:
                continue
            if (one - zero).node == index_of(1) and (far - zero).node == index_of(7):
                env[binder.name] = wanted - zero
                return True
        return False

    def _holds(self, condition: Any, array: Cells, at: Sequence[IndexExpr]) -> bool:
        """Return whether a condition holds for all indices within the extents of an array."""
        del array, at
        try:
            return proves(self.facts.assume(*(each.node for each in self.known)), condition.node)
        except ATLError:
            return False

    # -- expressions --------------------------------------------------------------------------------------------------

    def place(self, node: Any, state: State) -> tuple[str, tuple[Value, ...]]:
        match node:
            case c_ast.ID(name=name) if name in state.scalars:
                return name, ()
            case c_ast.UnaryOp(op="*", expr=c_ast.ID(name=name)) if name in state.arrays:
                return name, ()
            case c_ast.ArrayRef(name=c_ast.ID(name=name), subscript=subscript) if name in state.arrays:
                return name, self.positions(subscript, state, state.arrays[name])
        raise _refused(node, "an access that is not to an element")

    def positions(self, node: Any, state: State, array: Cells) -> tuple[Value, ...]:
        """Split an address (i * m + j) * k + l into the positions i, j, l."""
        extents = array.extents
        if extents is None:
            extents = array.extents = (None, *self._guessed(node, state))
        if len(extents) == 1:
            return (self.index(node, state),)
        return self._split(node, state, [IndexExpr(index_of(0)) if each is None else each for each in extents])

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
                        if (self.index(one, state)({}) - extent).node == index_of(0):
                            return sign, other
                    except (KeyError, NotRaised):
                        pass
                # (a * b) * c: a factor further inside
                inner = self._factored(sign, left, state, extent)
                if inner is not None:
                    return sign, c_ast.BinaryOp("*", inner[1], right, node.coord)
            case c_ast.Constant() | c_ast.ID():
                try:
                    if (self.index(node, state)({}) - extent).node == index_of(0):
                        return sign, c_ast.Constant("int", "1", node.coord)
                except (KeyError, NotRaised):
                    pass
        return None

    def _sum(self, parts: Sequence[tuple[int, Any]], state: State) -> Value:
        made = [(sign, self.index(node, state)) for sign, node in parts]

        def total(env: Env) -> IndexExpr:
            found = IndexExpr(index_of(0))
            for sign, value in made:
                found = found + value(env) if sign > 0 else found - value(env)
            return found

        return total

    def index(self, node: Any, state: State) -> Value:
        match node:  # type: ignore[exhaustive-match]
            case c_ast.Constant(type="int", value=text):
                whole = IndexExpr(index_of(int(text, 0)))
                return lambda _: whole
            case c_ast.ID(name=name) if name in state.indices:
                return state.indices[name]
            case c_ast.BinaryOp(op="+" | "-" | "*" | "/" | "%" as op, left=left, right=right):
                x, y = self.index(left, state), self.index(right, state)
                return lambda env: _arithmetic(op, x(env), y(env))
            case c_ast.UnaryOp(op="-", expr=inner):
                value = self.index(inner, state)
                return lambda env: -value(env)
            case c_ast.Cast(expr=inner):
                return self.index(inner, state)
            case c_ast.ArrayRef(name=c_ast.ID(name=array)) if self._is_input_of_integers(array, state):
                name, position = self.place(node, state)
                read = state.arrays[name].read
                assert read is not None
                return lambda env: IndexExpr(as_index(read([each(env) for each in position])))
            case c_ast.FuncCall(name=c_ast.ID(name=name), args=c_ast.ExprList(exprs=[left, right])):
                x, y = self.index(left, state), self.index(right, state)
                match self.helper(name):  # type: ignore[exhaustive-match]
                    case "min":
                        return lambda env: atl.imin(x(env), y(env))
                    case "max":
                        return lambda env: atl.imax(x(env), y(env))
        raise _refused(node, "an index that is not made of loop variables and sizes")

    def _is_input_of_integers(self, name: str, state: State) -> bool:
        array = state.arrays.get(name)
        inputs = {each.name for each in self.of.program.inputs}
        return name in inputs and array is not None and array.dtype in ("int32", "int64")

    def condition(self, node: Any, state: State) -> Value:
        match node:  # type: ignore[exhaustive-match]
            case c_ast.BinaryOp(op="&&" | "||" as op, left=left, right=right):
                x, y = self.condition(left, state), self.condition(right, state)
                return (lambda env: x(env) & y(env)) if op == "&&" else (lambda env: x(env) | y(env))
            case c_ast.BinaryOp(op="<" | "<=" | ">" | ">=" | "==" | "!=" as op, left=left, right=right):
                x, y = self.index(left, state), self.index(right, state)
                return lambda env: _compared(op, x(env), y(env))
            case c_ast.UnaryOp(op="!", expr=inner):
                value = self.condition(inner, state)
                return lambda env: ~value(env)
        raise _refused(node, "a condition that depends on elements")

    def element(self, node: Any, state: State, dtype: str) -> Value:
        """Return the value of an expression, of this element type."""
        match node:  # type: ignore[exhaustive-match]
            case c_ast.Constant():
                number = _literal(_number(node.value))
                return lambda _: number
            case c_ast.ID(name="INFINITY"):
                return lambda _: float("inf")
            case c_ast.UnaryOp(op="-", expr=c_ast.ID(name="INFINITY")):
                return lambda _: float("-inf")
            case c_ast.ID(name=name) if name in state.scalars:
                found = state.scalars[name][1]
                if found is None:
                    raise _refused(node, f"{name} has no value")
                return found
            case c_ast.ArrayRef() | c_ast.UnaryOp(op="*"):
                name, position = self.place(node, state)
                read = state.arrays[name].read
                if read is None:
                    raise _refused(node, f"{name} has no values")
                return lambda env: read([each(env) for each in position])
            case c_ast.BinaryOp(op="+" | "-" | "*" | "/" as op, left=left, right=right):
                x, y = self.element(left, state, dtype), self.element(right, state, dtype)
                return lambda env: _arithmetic(op, x(env), y(env))
            case c_ast.UnaryOp(op="-", expr=inner):
                value = self.element(inner, state, dtype)
                return lambda env: -value(env)
            case c_ast.TernaryOp(cond=cond, iftrue=yes, iffalse=no):
                x, y = self.element(yes, state, dtype), self.element(no, state, dtype)
                test = self.condition(cond, state)
                return lambda env: _selected(test(env), x(env), y(env))
            case c_ast.FuncCall(name=c_ast.ID(name=name), args=c_ast.ExprList(exprs=operands)):
                return self._call(node, name, [self.element(each, state, dtype) for each in operands])
            case c_ast.Cast(to_type=to, expr=inner):
                target = self.machine.type_of(to)
                if isinstance(target, Number) and self._is_index(inner, state):
                    place = self.index(inner, state)
                    return lambda env: (
                        atl.cast(target.dtype, atl.value(place(env)))
                        if target.dtype != dtype
                        else atl.value(place(env))
                    )
        raise _refused(node, "an expression of elements")

    def _call(self, node: Any, name: str, operands: list[Value]) -> Value:
        op = self.helper(name)
        known = self.of.known.get(name)
        if known is not None and known.op not in ("cast", "same"):
            op = known.op
        functions: dict[str | None, Callable[..., Any]] = {
            "max": atl.maximum, "min": atl.minimum, "abs": atl.abs, "sqrt": atl.sqrt, "exp": atl.exp, "log": atl.log,
            "tanh": atl.tanh,
        }  # fmt: skip
        if op not in functions and op != "same":
            raise _refused(node, f"a call of {name}")
        function = functions.get(op, lambda x: x)
        return lambda env: function(*(operand(env) for operand in operands))  # type: ignore[no-untyped-call]

    def helper(self, name: str) -> str | None:
        """Return the operation that a function of the text computes, found by executing it on symbols."""
        library = {"fabs": "abs", "fabsf": "abs", "sqrt": "sqrt", "sqrtf": "sqrt"}
        if name in library:
            return library[name]
        if name not in self.helpers:
            self.helpers[name] = self._operation(name)
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
                return "same"
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


def index_of(value: int) -> Index:
    """Return a constant."""
    return constant(value)


def _same(x: Any, y: Any) -> bool:
    """Return whether two expressions are written alike."""
    return (
        type(x) is type(y)
        and [getattr(x, name) for name in x.attr_names] == [getattr(y, name) for name in y.attr_names]
        and len(x.children()) == len(y.children())
        and all(_same(a, b) for (_, a), (_, b) in zip(x.children(), y.children(), strict=True))
    )


def _number(text: str) -> float:
    bare = text.rstrip("fFlL") if not text.lower().startswith("0x") else text
    return float.fromhex(bare) if bare.lower().startswith("0x") else float(bare)


def _literal(value: float) -> int | float:
    return int(value) if value.is_integer() else value


def _is_zero(value: Any) -> bool:
    return isinstance(value, int | float) and value == 0


def _is_infinite(value: Any) -> bool:
    return isinstance(value, float) and value in (float("inf"), float("-inf"))


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
        case _:
            return x // y if isinstance(x, IndexExpr) else x / y


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
