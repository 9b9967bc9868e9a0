"""The traffic of a distributed program: the words and messages that a rank receives, as formulas.

A word is one element of a tensor. Formulas are terms over the sizes of the program and the coordinates of the rank, and
equal what the engines count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final, TypeAlias, assert_never

from atl.checks.scope import initial_facts
from atl.checks.wellformed import make_program
from atl.core.index import ONE, ZERO, Bound, Index, Size, bound, ceildiv, imax, imin, index, size
from atl.core.predicate import Predicate, at_most, conjunction, conjuncts, disjunction, equal, negation, within
from atl.core.substitution import transform
from atl.core.terms import Expr, Gen, Guard, Reduce, Select, Type, Value
from atl.errors import ArgumentError, InvalidArgument, brief
from atl.meaning.arguments import checked_size
from atl.meaning.interpret import evaluate
from atl.prove import Facts, proves, simplify
from atl.text.printing import show
from lowering.ranks import steps as st
from lowering.ranks.kernel import check_axes, check_sizes, sizes_in
from lowering.ranks.mesh import Coordinates, Mesh
from lowering.ranks.reads import reads_arrays, sizes_of

WORDS: Final = "int64"
"""The element type of numbers of words."""


@dataclass(frozen=True, slots=True)
class ExchangeTraffic:
    """The words and messages that a rank receives in one exchange, in all iterations of the loops around it."""

    into: str
    form: str
    words: Expr
    messages: Expr


@dataclass(frozen=True, slots=True)
class Traffic:
    """The traffic of each exchange of a program, in order. It prints as a table of formulas.

    The coordinates of the rank are the sizes `rank_x`, `rank_y` and `rank_z`.
    """

    program: st.RankProgram
    exchanges: tuple[ExchangeTraffic, ...]

    def __str__(self) -> str:
        if not self.exchanges:
            return f"{self.program.program.name}: no exchanges"
        rows = [("exchange", "words received", "messages received")]
        rows += [(f"{each.form} {each.into}", _text(each.words), _text(each.messages)) for each in self.exchanges]
        widths = [max(len(row[column]) for row in rows) for column in range(2)]
        return "\n".join(f"{row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]}" for row in rows)

    __repr__ = __str__

    def of(self, mesh: Mesh, **sizes: int) -> tuple[list[int], list[int]]:
        """Return the words and the messages that each rank of a mesh receives at these sizes.

        >>> import atl
        >>> rows = atl.parse(
        ...     "f (x : float32[P | device.x, b]) : float32[P, b] := "
        ...     "⊞[d < P | device.x] let last := ⊞[i < b] x[P - 1, i] in ⊞[i < b] x[d, i] + last[i]")
        >>> traffic = atl.reschedule(rows).traffic()
        >>> traffic
        exchange        words received        messages received
        broadcast last  [P ≠ rank_x + 1] · b  [P ≠ rank_x + 1] · 1
        >>> traffic.of(atl.Mesh(x=3), P=3, b=10)
        ([10, 10, 0], [1, 1, 0])

        Raises `MeshError` for a mesh that does not have the axes and numbers of ranks of the program, and
        `ArgumentError` and `AssumptionError` for sizes.
        """
        steps, program = self.program, self.program.program
        if not isinstance(mesh, Mesh):
            raise InvalidArgument(f"mesh={brief(mesh)}", required="a mesh of ranks: atl.Mesh(x=4)")
        check_axes(steps, mesh)
        unknown = next((name for name in sizes if name not in program.sizes), None)
        if unknown is not None:
            raise ArgumentError(
                f"{program.name} has no size {unknown}", required=f"sizes among {', '.join(program.sizes) or 'none'}"
            )
        sizes = {name: checked_size(program, name, value) for name, value in sizes.items()}
        missing = [name for extent in steps.axes.values() for name in sizes_in(extent) if name not in sizes]
        if missing:
            raise ArgumentError(f"missing size {missing[0]}", required="numbers for all sizes of the formulas")
        check_sizes(steps, mesh, sizes)
        found = [self._of_rank(mesh, at, sizes) for at in mesh.all()]
        return [words for words, _ in found], [messages for _, messages in found]

    def _of_rank(self, mesh: Mesh, at: Coordinates, sizes: Mapping[str, int]) -> tuple[int, int]:
        names = [self.program.ranks[axis] for axis in mesh.extents]
        known = {**sizes, **dict(zip(names, at, strict=True))}
        given = [at_most(ONE, extent) for extent in self.program.axes.values()]
        given += [each for each in self.program.program.assumptions if not reads_arrays(each)]
        words = sum(_value(each.words, known, given) for each in self.exchanges)
        return words, sum(_value(each.messages, known, given) for each in self.exchanges)


def _text(formula: Expr) -> str:
    """Return a formula as text, without the element type of its number."""
    text = " ".join(show(formula).split()).replace(f"value(1):{WORDS}", "1").replace("value(0)", "0")
    before, found, number = text.partition("value(")
    return f"{before}{number.removesuffix(f'):{WORDS}')}" if found else text


def _value(formula: Expr, sizes: Mapping[str, int], known: Sequence[Predicate]) -> int:
    """Return the value of a formula at these sizes, which satisfy the `known` conditions."""
    program = make_program("words", (), formula, known)
    missing = [name for name in program.sizes if name not in sizes]
    if missing:
        raise ArgumentError(f"missing size {missing[0]}", required="numbers for all sizes of the formulas")
    given: dict[str, Any] = {name: sizes[name] for name in program.sizes}
    return int(evaluate(program, **given))


def traffic_of(program: st.RankProgram) -> Traffic:
    """Return the formulas of the words and messages that a rank receives."""
    assumed = (*program.program.assumptions, *_ranges(program))
    return Traffic(program, tuple(_Formulas(program, initial_facts(assumed, program.program.inputs)).of(program.steps)))


def _ranges(program: st.RankProgram) -> Iterator[Predicate]:
    for axis, extent in program.axes.items():
        yield within(ZERO, size(program.ranks[axis]), extent)


Around: TypeAlias = tuple[st.Repeat, ...]


@dataclass(frozen=True, slots=True)
class _Formulas:
    program: st.RankProgram
    facts: Facts
    around: Around = ()

    def of(self, steps: Sequence[st.Step]) -> Iterator[ExchangeTraffic]:
        for step in steps:
            match step:
                case st.Local() | st.Join():
                    pass
                case st.Repeat():
                    facts = self.facts.assume(within(step.low, size(step.counter), step.high))
                    yield from _Formulas(self.program, facts, (*self.around, step)).of(step.steps)
                case st.Copy():
                    yield self._copy(step)
                case st.Gather():
                    others = self.program.axes[step.axis] - 1
                    yield self._formula(step, others * _count(step.part), others)
                case st.Fold():
                    yield self._fold(step)
                case st.Counts():
                    yield self._counts(step)
                case _:
                    assert_never(step)

    def _copy(self, step: st.Copy) -> ExchangeTraffic:
        ranks = {axis: size(self.program.ranks[axis]) for axis in step.owner}
        moving = [axis for axis, owner in step.owner.items() if owner != ranks[axis]]
        inside = [within(ZERO, step.owner[axis], self.program.axes[axis]) for axis in moving]
        other = disjunction([negation(equal(step.owner[axis], ranks[axis])) for axis in moving])
        parts = [part for each in (*inside, other) for part in conjuncts(each)]
        open_ = [part for part in parts if not proves(self.facts, part)]
        return self._formula(step, _count(step.type), ONE, conjunction(open_) if open_ else None)

    def _fold(self, step: st.Fold) -> ExchangeTraffic:
        count, extent = _count(step.type), self.program.axes[step.axis]
        match step.form:
            case "reduce-scatter":
                return self._formula(step, (extent - 1) * count, extent - 1)
            case "all-reduce":
                length = ceildiv(count, extent)
                own = imin(length, imax(ZERO, count - size(self.program.ranks[step.axis]) * length))
                return self._formula(step, (extent - 1) * own + (count - own), (extent - 1) * 2)
            case _:
                assert_never(step.form)

    def _formula(
        self, step: st.Exchange, words: Index, messages: Index, condition: Predicate | None = None
    ) -> ExchangeTraffic:
        def term(count: Index) -> Expr:
            known = Value(simplify(self.facts, count), WORDS)
            return self._repeated(known if condition is None else Guard(condition, known))

        return ExchangeTraffic(step.into, step.form, term(words), term(messages))

    def _repeated(self, e: Expr) -> Expr:
        """Return the sum of a number over the loops around an exchange."""
        for loop in reversed(self.around):
            high = loop.high - loop.low
            if isinstance(e, Value) and not _mentions(e, loop.counter):
                e = Value(high * e.index, WORDS)
            else:
                e = Reduce("sum", loop.low, loop.high, _over_counter(e, loop.counter), loop.counter)
        return e

    def _counts(self, step: st.Counts) -> ExchangeTraffic:
        """Count the elements of other ranks, and the other ranks that own one."""
        me = ZERO
        for axis, extent in self.program.axes.items():
            me = me * extent + size(self.program.ranks[axis])
        layers: list[Gen | Guard] = []
        inner = step.owner
        while not isinstance(inner, Value):
            assert isinstance(inner, Gen | Guard)
            layers.append(inner)
            inner = inner.body
        owner = inner.index - 1
        rest = prod((extent for extent in step.type.shape[len(step.owner.type.shape) :]), start=ONE)
        words: Expr = Guard(negation(equal(owner, me)), Value(rest, WORDS))
        ranks = prod(self.program.axes.values(), start=ONE)
        loops = sum(isinstance(layer, Gen) for layer in layers)
        there = conjunction([equal(owner, bound(loops)), negation(equal(bound(loops), me))])
        # A maximum reads padding as zero, so that conditions within it are choices.
        zero = Value(ZERO, WORDS)
        one: Expr = Select(there, Value(ONE, WORDS), zero)
        for layer in reversed(layers):
            if isinstance(layer, Gen):
                words = Reduce("sum", layer.low, layer.high, words, layer.name)
                one = Reduce("max", layer.low, layer.high, one, layer.name)
            else:
                words, one = Guard(layer.predicate, words), Select(layer.predicate, one, zero)
        messages = Reduce("sum", ZERO, ranks, one, "owner")
        return ExchangeTraffic(step.into, step.form, self._repeated(words), self._repeated(messages))


def _count(of: Type) -> Index:
    return prod(of.shape, start=ONE)


def _mentions(e: Expr, name: str) -> bool:
    return name in sizes_of(e)


def _over_counter(e: Expr, counter: str) -> Expr:
    """Return the body of a loop whose index replaces the size `counter`."""

    def leaf(at: object, depth: int) -> Index:
        if isinstance(at, Size) and at.name == counter:
            return bound(depth)
        assert isinstance(at, Size | Bound)
        if isinstance(at, Bound) and at.position >= depth:
            return bound(at.position + 1)
        return index(at)

    return transform(e, leaf)
