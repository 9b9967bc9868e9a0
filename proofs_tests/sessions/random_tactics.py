"""Calls of tactics with random arguments, drawn by the kinds that `rewrites.tactics.arg` gives to parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from random import Random
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import atl
from atl import Tensor
from atl.core.index import Index, Size, atoms, index
from atl.core.substitution import shift_term
from atl.core.terms import MONOIDS, OPERATORS_BY_WORD, Access, Gen, Input, Let, Rec, Reduce, Reshape, Term
from atl.surface.values import IndexExpr
from layouts import antidiagonal, backwards, blocked, column_major, morton, padded, skewed, swizzled
from rewrites import Session
from rewrites.cursors.cursor import Cursor, cursors
from rewrites.kernel import Theorem
from rewrites.rule_arguments import Function
from rewrites.tactics import TACTICS as BY_NAME
from rewrites.tactics import arg
from rewrites.tactics.tactic import Tactic

Call = Callable[[Session, Random], Session | None]
"""A call of a tactic, or None if the goal does not fit."""


@dataclass(slots=True)
class Draws:
    """Random arguments of one call. Later ones depend on the place that the first one selects."""

    s: Session
    random: Random
    first: Cursor | None = None
    loops: list[Cursor] = field(default_factory=list)
    """The loops that the first argument selects."""

    def argument(self, kind: Any) -> Any:
        """Draw an argument of this kind, or None if the goal has none."""
        if get_origin(kind) in (Union, type(int | None)):
            return self.argument(self.random.choice([each for each in get_args(kind) if each is not type(None)]))
        if get_origin(kind) is Literal:
            return self.random.choice(get_args(kind))
        if get_origin(kind) is Sequence:
            drawn = [self.argument(*get_args(kind)) for _ in range(self.random.randint(1, 3))]
            return [each for at, each in enumerate(drawn) if each is not None and each not in drawn[:at]]
        return KINDS[kind](self)

    def place(self, fits: Callable[[Cursor], bool]) -> tuple[int, ...] | None:
        """Draw a path that fits. The first one drawn is the place that other arguments depend on."""
        found = [cursor for cursor in cursors(self.s.goal, top_down=True) if fits(cursor)]
        if not found:
            return None
        chosen = self.random.choice(found)
        if self.first is None:
            self.first, self.loops = chosen, [chosen]
        return chosen.path

    def nested_loops(self) -> tuple[int, ...] | list[tuple[int, ...]] | None:
        """Draw a loop, or that loop and loops directly inside it."""
        one = self.place(is_loop)
        while self.loops and isinstance(inner(self.loops[-1]), Gen | Reduce) and self.random.random() < 0.6:
            self.loops.append(self.loops[-1].child(0))
        return one if len(self.loops) < 2 else [cursor.path for cursor in self.loops]

    def around(self, *kinds: type[Term]) -> tuple[int, ...] | None:
        """Draw a term around the first argument; sometimes any loop."""
        above = [] if self.first is None else [at.path for at in self.first.spine()[:-1] if isinstance(at.term, kinds)]
        return self.random.choice(above) if above and self.random.random() < 0.8 else self.place(is_loop)

    def bound(self) -> IndexExpr | None:
        """Draw an index near the range of the first loop."""
        if self.first is None or not isinstance(self.first.term, Gen | Reduce):
            return None
        low, high = self.first.term.low, self.first.term.high
        choices: list[Index] = [low + self.number(3), high - self.number(2), index(self.number(4))]
        choices += [index(atom) for atom in atoms(high) if isinstance(atom, Size)]
        return IndexExpr(self.random.choice(choices))

    def factors(self) -> Any:
        """Draw a tile size for each loop, or tile sizes on two levels."""
        each = [self.factor() for _ in self.loops]
        sizes = each if self.random.random() < 0.7 else [[2 * factor, 2] for factor in each]
        return sizes if len(sizes) > 1 else sizes[0]

    def factor(self) -> int:
        return self.random.randint(1, 4)

    def number(self, most: int) -> int:
        return self.random.randint(0, most)

    def name(self) -> str:
        return self.random.choice(["i", "row", "buf", "x1"])

    def sum_names(self) -> list[str]:
        """Draw the names of at most one sum."""
        names = [cursor.term.name for cursor in cursors(self.s.goal) if isinstance(cursor.term, Reduce)]
        return self.random.sample(names, min(len(names), self.number(1)))

    def let_or_operator(self) -> Any:
        used = {type(cursor.term.op) for cursor in cursors(self.s.goal) if isinstance(cursor.term, Reshape)}
        words = [word for word, op in OPERATORS_BY_WORD.items() if op in used]
        return self.random.choice(words) if words and self.random.random() < 0.5 else self.place(is_a(Let))

    def formula(self) -> Callable[[IndexExpr], Tensor] | None:
        """Draw a formula for the rows of a recurrence: a fold of a vector up to each row."""
        vectors = [cursor.term for cursor in cursors(self.s.goal) if is_a(Input)(cursor) and cursor.term.type.rank == 1]
        if not vectors:
            return None
        x, fold, more = Tensor(self.random.choice(vectors)), self.random.choice(MONOIDS), self.number(1)
        return lambda p: atl.reduce(fold, p + more, lambda k: x[k])

    def widths(self) -> dict[str, Any]:
        """Draw widths of tiles for one or two of the outermost loops in the step of a recurrence."""
        at = self.first.term.body if self.first is not None and isinstance(self.first.term, Rec) else None
        found: dict[str, Any] = {}
        while isinstance(at, Gen) and len(found) < 1 + self.number(1):
            found[at.name] = self.factor()
            at = at.body
        return found

    def constant_row(self) -> Function | None:
        """Return the first argument as each row of a recurrence."""
        return None if self.first is None else Function(("index",), shift_term(self.first.term, 1))

    def mark(self) -> Any:
        """Draw a mark that the first argument accepts, or its word."""
        if self.first is None or self.first.term.form.mark is None:
            return None
        chosen = self.random.choice(list(self.first.term.form.mark.of))
        return self.random.choice([chosen, chosen.value])

    def layout(self) -> Any:
        """Draw a layout, mostly for the rank of the first argument."""
        rank = len(self.loops)
        if self.first is not None and isinstance(self.first.term, Let | Input):
            rank = (self.first.term.value if isinstance(self.first.term, Let) else self.first.term).type.rank
        tiles = [self.factor() for _ in range(self.random.choice((rank, rank, 2)))]
        some = [padded(self.number(2)), morton(self.random.choice((2, 4))), backwards, column_major, blocked(*tiles)]
        return self.random.choice([*some, skewed, antidiagonal, swizzled(self.random.choice((2, 4)), self.factor())])


def inner(cursor: Cursor) -> Term:
    return cursor.child(0).term


def is_a(*kinds: type[Term]) -> Callable[[Cursor], bool]:
    return lambda cursor: isinstance(cursor.term, kinds)


is_loop = is_a(Gen, Reduce)

KINDS: Final[dict[Any, Callable[[Draws], Any]]] = {
    arg.Term: lambda draws: draws.place(lambda cursor: bool(cursor.path)),
    arg.Scalar: lambda draws: draws.place(lambda cursor: not cursor.term.type.rank),
    arg.Element: lambda draws: draws.place(is_a(Access)),
    arg.Tensor: lambda draws: draws.place(is_a(Let, Input)),
    arg.Operand: lambda draws: draws.place(is_a(Access, Input, Let)),
    arg.Loop: lambda draws: draws.place(is_loop),
    arg.Loops: Draws.nested_loops,
    arg.Sum: lambda draws: draws.place(is_a(Reduce)),
    arg.Let: lambda draws: draws.place(is_a(Let)),
    arg.LetOrOperator: Draws.let_or_operator,
    arg.Binder: lambda draws: draws.place(is_a(Gen, Reduce, Let)),
    arg.Around: lambda draws: draws.around(Gen, Reduce),
    arg.Above: lambda draws: draws.around(Term),
    arg.Inside: lambda draws: draws.around(Gen, Reduce, Let),
    arg.Bound: Draws.bound,
    arg.Factor: Draws.factor,
    arg.Factors: Draws.factors,
    arg.Count: Draws.factor,
    arg.Number: lambda draws: draws.number(1),
    arg.NewName: Draws.name,
    arg.SumNames: Draws.sum_names,
    arg.Mark: Draws.mark,
    arg.Layout: Draws.layout,
    arg.Axis: lambda draws: draws.random.choice(["x", "y", "z"]),
    arg.InstructionName: lambda draws: draws.random.choice(
        ["mma_m16n8k16", "mma_m16n8k32", "vpdpbusd", "sgemm", "sgemv", "sdot", "memcpy_float32", "memcpy_float64"]
    ),
    arg.BlockTile: lambda draws: draws.random.choice([(16, 8, 16), (32, 16, 32), (64, 8, 64)]),
    arg.Recurrence: lambda draws: draws.place(is_a(Rec)),
    arg.Rows: Draws.factor,
    arg.Row: Draws.constant_row,
    arg.NextRow: lambda _: lambda p, y: y[p - 1],
    arg.FirstRows: lambda _: None,
    arg.OfLastRow: lambda _: None,
    arg.Combination: lambda _: lambda a, b: a + b,
    arg.ScanElement: lambda _: None,
    Callable[..., Any]: Draws.formula,
    Theorem: lambda _: None,
}
"""The function that draws an argument, for each kind."""


@cache
def parameters(tactic: Tactic[Any]) -> list[tuple[inspect.Parameter, Any]]:
    """Return the parameters of a tactic after the derivation, each with its kind."""
    kinds = get_type_hints(tactic.function, include_extras=True)
    return [(each, kinds[each.name]) for each in list(inspect.signature(tactic).parameters.values())[1:]]


def call_randomly(tactic: Tactic[Any], s: Session, random: Random) -> Session | None:
    """Call a tactic with random arguments, and with some of the optional ones."""
    draws = Draws(s, random)
    given: list[Any] = []
    options: dict[str, Any] = {}
    for parameter, kind in parameters(tactic):
        if parameter.kind is parameter.VAR_KEYWORD:
            options |= draws.widths()
            continue
        required = parameter.default is parameter.empty
        if not required and random.random() < 0.6:
            continue
        value = draws.argument(kind)
        if value is None and required:
            return None
        if required and parameter.kind is not parameter.KEYWORD_ONLY:
            given.append(value)
        elif value is not None:
            options[parameter.name] = value
    return s.do(tactic, *given, **options)


TACTICS: Final[dict[str, Call]] = {name: partial(call_randomly, tactic) for name, tactic in BY_NAME.items()}
"""The random calls by name of the tactic."""
