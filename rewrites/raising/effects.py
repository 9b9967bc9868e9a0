"""Elements of arrays after stores and accumulations in loops."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import reduce
from typing import Any, Final

import atl
from atl.core import terms
from atl.surface.values import IndexExpr
from rewrites.raising.context import Context, Symbols
from rewrites.raising.elements import is_zero
from rewrites.raising.state import Binder, Cells, Effect, Env, Read, Scalar, State, Value, refused

FOLDS: Final[dict[str, terms.Monoid]] = {"add": "sum", "mul": "product", "max": "max", "min": "min"}


class Effects:
    """The change of a state by effects."""

    def __init__(self, context: Context) -> None:
        self.context = context

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
        env, known = Symbols(self.context), list[Any]()
        for binder in effect.binders:
            known += [binder.low(env) <= env[binder.name], env[binder.name] < binder.high(env)]
        known += [condition(env) for condition in effect.conditions]
        at = [position(env) for position in effect.position]
        self.context.under_known(known, lambda: self.check_within(array, at, effect.node))

    def check_within(self, array: Cells, at: Sequence[IndexExpr], node: Any) -> None:
        """Refuse an access that is not proved to be within an array."""
        for place, extent in zip(at, array.extents or (), strict=True):
            if not self.context.holds(place >= 0) or (extent is not None and not self.context.holds(place < extent)):
                raise refused(node, "an access that is not proved to be within the rows of its array")

    def _changed(self, array: Cells, effect: Effect, outer: Env) -> Read:
        """Return how elements are read after an effect."""
        before = array.read

        def read(at: Sequence[IndexExpr]) -> Any:
            if len(at) != len(effect.position):
                raise refused(effect.node, "an array is accessed with another number of dimensions")
            if array.extents:
                self.check_within(array, at, effect.node)
            env: dict[str, IndexExpr] = dict(outer)
            equations: list[tuple[Value, IndexExpr]] = []
            for position, wanted in zip(effect.position, at, strict=True):
                solved = self._solve(position, wanted, effect.binders, env)
                if not solved:
                    equations.append((position, wanted))
            free = [b for b in effect.binders if b.name not in env]
            if effect.op == "store" and free:
                raise refused(effect.node, "a cell is stored in several iterations")
            return self._read(effect, at, env, free, equations, before)

        return read

    def _read(
        self, effect: Effect, at: Sequence[IndexExpr], env: dict[str, IndexExpr], free: list[Binder],
        equations: list[tuple[Value, IndexExpr]], before: Read | None,
    ) -> Any:  # fmt: skip
        def tests(names: set[str]) -> Any:
            parts: list[Any] = []
            for binder in effect.binders:
                if binder.name in names:
                    continue
                here, low, high = env[binder.name], binder.low(env), binder.high(env)
                parts += [low <= here, here < high]
            parts += [position(env) == wanted for position, wanted in equations]
            parts += [condition(env) for condition in effect.conditions]
            found = [part for part in parts if not self.context.holds(part)]
            return reduce(operator.and_, found) if found else None

        if effect.op == "store":
            test = tests(set())
            if test is None:
                return effect.value(env)
            if before is None:
                raise refused(effect.node, "some cells of the array may have no value")
            value = self.context.under_known((test,), lambda: effect.value(env))
            old_value = self.context.under_known((~test,), lambda: before(at))
            return atl.guard(test, value) if is_zero(old_value) else atl.select(test, value, old_value)
        if before is None:
            raise refused(effect.node, "a cell without a value is added to")
        if effect.op != "add" and not free:
            test, old = tests(set()), before(at)
            changed = _combined(effect.op, old, effect.value(env))
            return changed if test is None else atl.select(test, changed, old)

        def folded(rest: list[Binder]) -> Any:
            if rest:
                binder, *others = rest
                if effect.op != "add" and not self.context.holds(binder.low(env) < binder.high(env)):
                    raise refused(effect.node, "a product or maximum over a loop that may be empty")
                return atl.reduce(
                    FOLDS[effect.op],
                    (binder.low(env), binder.high(env)),
                    lambda i: with_index(binder, i, others),
                )
            test = tests({binder.name for binder in free})
            if test is None:
                return effect.value(env)
            if effect.op != "add":
                raise refused(effect.node, "a product or maximum under a condition")
            return atl.guard(test, self.context.under_known((test,), lambda: effect.value(env)))

        def with_index(binder: Binder, i: IndexExpr, others: list[Binder]) -> Any:
            env[binder.name] = i
            return self.context.under_known((binder.low(env) <= i, i < binder.high(env)), lambda: folded(others))

        change, old = folded(free), before(at)
        for binder in free:
            env.pop(binder.name, None)
        return _combined(effect.op, old, change)

    def _solve(self, position: Value, wanted: IndexExpr, binders: Sequence[Binder], env: dict[str, IndexExpr]) -> bool:
        """Solve `position = wanted` for a loop variable, if it is that variable plus what is known."""
        for binder in binders:
            if binder.name in env:
                continue
            here = self.context.symbol(binder.name)
            try:
                rest = position({**env, binder.name: here}) - here
            except KeyError:
                continue
            if not rest.node.free & here.node.free:
                env[binder.name] = wanted - rest
                return True
        return False


def _combined(op: str, old: Any, change: Any) -> Any:
    """Return an accumulated value, from the value before."""
    match op:
        case "add":
            return change if is_zero(old) else old + change
        case "mul":
            return old * change
        case "max":
            return change if isinstance(old, float) and old == float("-inf") else atl.maximum(old, change)
        case _:
            return change if isinstance(old, float) and old == float("inf") else atl.minimum(old, change)
