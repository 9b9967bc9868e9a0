"""Random arguments of rules, valid or not, in a context with binders."""

from __future__ import annotations

from typing import Any, Final

import atl
from atl import IndexExpr, Tensor
from atl.core.index import Index, bound, constant
from atl.core.predicate import FALSE, TRUE, Predicate
from atl.core.terms import Constant, Input, Local, Padding, Type, Value
from atl.errors import ATLError
from atl.surface.values import Condition
from proofs_tests.attacks.declarations import Declarations, condition, valid_expression
from proofs_tests.programs.choices import Choices, chance, choose
from rewrites.metavariables import Kind
from rewrites.rule import Rule
from rewrites.rule_arguments import Argument, Parameter, abstracted
from rewrites.rule_checking.samples import Sample, drawn_statement

LIKELY: Final = 65
"""Percentage of indices that repeat an earlier one."""


class OddArguments(Sample):
    """Random arguments with symbolic sizes, bound indices, array elements and expressions without a meaning."""

    def __init__(
        self, rule: Rule, choices: Choices, declarations: Declarations, indices: int = 0, tensors: tuple[Type, ...] = ()
    ) -> None:
        super().__init__(drawn_statement(rule, choices), choices)
        self.declarations = declarations
        self.pool: list[Index] = [bound(position) for position in range(indices)]
        self.tensors = [Tensor(Local(position, of)) for position, of in enumerate(reversed(tensors))]
        self.indices: list[Index] = [
            self.expression(0),
            choose(choices, (*map(constant, range(4)), self.expression(1))),
        ]

    def expression(self, depth: int, given: tuple[Any, ...] = ()) -> Index:
        """Return an index expression over the context and the given indices."""
        more = [one.node for one in given if isinstance(one, IndexExpr)]
        return valid_expression(self.choices, self.declarations, [*self.pool, *more, *more], depth)

    def index_argument(self) -> Index:
        choices = self.choices
        if chance(choices, LIKELY):
            made = choose(choices, self.indices)
            return made + choices.integer(-1, 1) if chance(choices, 15) else made
        made = self.expression(choices.integer(0, 2)) if chance(choices, 60) else constant(choices.integer(-1, 4))
        self.indices.append(made)
        return made

    def predicate(self, given: tuple[Any, ...] = ()) -> Predicate:
        more = [one.node for one in given if isinstance(one, IndexExpr)]
        while True:
            try:
                return condition(self.choices, self.declarations, [*self.pool, *more, *more])
            except ATLError:
                continue

    def _predicate(self, given: tuple[Any, ...]) -> Any:
        return Condition(self.predicate(given))

    def argument(self, name: str, kind: Kind) -> Argument:
        match kind.sort:
            case "index":
                return self.index_argument()
            case "condition" if not kind.parameters:
                drawn = self.predicate()
                return choose(self.choices, (TRUE, FALSE, drawn, drawn, drawn, drawn, drawn, drawn))
            case "condition":
                return abstracted(tuple("index" for _ in kind.parameters), lambda *at: self._predicate(at))
            case "tensor":
                return self._drawn(name, kind)

    def _drawn(self, name: str, kind: Kind) -> Argument:  # noqa: ARG002 (as it is drawn by its kind alone)
        extents = self.extents(kind)
        parameters: list[Parameter] = [
            "index" if parameter.sort == "index" else Type(self.declarations.dtype, tuple(self.extents(parameter)))
            for parameter in kind.parameters
        ]
        made = abstracted(tuple(parameters), lambda *given: self.shaped(extents, given, 2))
        return made if parameters else made.body

    def extents(self, kind: Kind) -> list[Index]:
        more = map(constant, self.shapes.get(kind.group, ()))
        return [*(choose(self.choices, self.indices) for _ in range(kind.rank)), *more]

    def shaped(self, extents: list[Index], given: tuple[Any, ...], depth: int) -> Tensor:
        """Return a tensor of these extents, which may be negative, made of the given indices and tensors."""
        if not extents:
            return self.scalar(given, depth)
        choices, (first, *rest) = self.choices, extents
        whole = Type(self.declarations.dtype, tuple(extents))
        alike = [one for one in self._given_tensors(given) if one.node.type == whole]
        if alike and chance(choices, 40):
            return choose(choices, alike)
        less = depth - 1
        match choices.integer(0, 12) if depth > 0 else 12:
            case 7:
                none = tuple(map(IndexExpr, rest))
                return atl.rec(
                    IndexExpr(first),
                    lambda p, y: self.shaped(rest, (*given, p, y), less),
                    of=none,
                    dtype=self.declarations.dtype,
                )
            case 0:
                pad, by = choose(choices, (atl.padl, atl.padr)), self.indices[0]
                return pad(IndexExpr(by), self.shaped([first - by, *rest], given, less))
            case 1:
                cut = choose(choices, (atl.truncl, atl.truncr))
                return cut(1, self.shaped([first + 1, *rest], given, less))
            case 2:
                return atl.guard(self._predicate(given), self.shaped(extents, given, less))
            case 3:
                return Tensor(Padding(whole))
            case 4:
                low = self.expression(0, given)
                ends = IndexExpr(low), IndexExpr(low + first)
                return atl.gen(ends, lambda i: self.shaped(rest, (*given, i), less))
            case 5 if rest:
                return atl.transpose(self.shaped([rest[0], first, *rest[1:]], given, less))
            case 6:
                return atl.place(IndexExpr(first), IndexExpr(self.expression(0, given)), self.shaped(rest, given, less))
            case _:
                return atl.gen(IndexExpr(first), lambda i: self.shaped(rest, (*given, i), less))

    def _given_tensors(self, given: tuple[Any, ...]) -> list[Tensor]:
        inputs = [Tensor(Input(self.declarations.inputs[name])) for name in ("x", "y", "s")]
        return [*(one for one in given if isinstance(one, Tensor)), *self.tensors, *inputs]

    def scalar(self, given: tuple[Any, ...], depth: int) -> Tensor:
        choices, less = self.choices, depth - 1
        match choices.integer(0, 12) if depth > 0 else 0:
            case 8:
                test = self.scalar(given, less) < self.scalar(given, less)
                return atl.where(test, self.scalar(given, less), self.scalar(given, less))
            case 1:
                return atl.guard(self._predicate(given), self.scalar(given, less))
            case 2:
                monoid: Any = choose(choices, ("sum", "sum", "max", "product"))
                ends = IndexExpr(self.expression(0)), IndexExpr(self.expression(0))
                return atl.reduce(monoid, ends, lambda k: self.scalar((*given, k), less))
            case 3:
                return self.scalar(given, less) * self.scalar(given, less)
            case 4:
                return self.scalar(given, less) - self.scalar(given, less)
            case 5:
                return atl.select(self._predicate(given), self.scalar(given, less), self.scalar(given, less))
            case 6:
                return atl.let(self.scalar(given, less), lambda x: x + self.scalar((*given, x), less))
            case 7:
                return atl.maximum(self.scalar(given, less), self.scalar(given, less))
            case _:
                return self.number(given)

    def number(self, given: tuple[Any, ...]) -> Tensor:
        """Return an element of a tensor at any index, a literal, or the value of an index."""
        match self.choices.integer(0, 9):
            case 0:
                return Tensor(Constant(self.choices.integer(-2, 3), self.declarations.dtype))
            case 1:
                return Tensor(Value(self.expression(1, given), self.declarations.dtype))
            case _:
                out = choose(self.choices, self._given_tensors(given))
                while out.rank:
                    out = out[IndexExpr(self.expression(choose(self.choices, (0, 0, 1)), given))]
                return out if out.dtype == self.declarations.dtype else atl.cast(self.declarations.dtype, out)
