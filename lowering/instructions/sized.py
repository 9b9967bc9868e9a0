"""Matching of sized instructions: the sizes of a call, and the strides of its operands, are read off the loops.

The loops that the result runs over correspond to loops directly around the marked one, in any order. A stride is the
coefficient of a loop variable in the address of an operand. That the address is the sum of these products is proved for
all iterations. A condition of the instruction is proved, or the call tests it. It is refused if it fails whenever all
sizes are at least 2: such a call would never be made.

A call is made only if all sizes are at least 1. So each operand then has an element, which the loops access.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

from atl.core.index import ONE, ZERO, Index, Leaf, Size, Var, constant, factor_of, index, map_leaves
from atl.core.marks import CallMark, LoopMark
from atl.core.predicate import FALSE, TRUE, Predicate, at_most, conjunction, disjunction, equal, negation, substitute
from atl.prove import Facts, Proved, Refuted, holds, prove, simplify, simplify_predicate
from atl.text.printing import show_index, show_predicate
from lowering.instructions.instruction import OUT, Instruction, stride_name
from lowering.instructions.matching import Around, Mismatch, Pair, pairings
from lowering.instructions.registry import definition_of
from lowering.nest import loopnest as ln


@dataclass(frozen=True, slots=True)
class Place:
    """A marked loop in a block, with its term: `target` gets the sum, or the term if the instruction has no sum.

    The statements of the block from `first` to `last` compute it. It `adds` to the target, or stores.
    """

    block: ln.Block
    first: int
    last: int
    loop: ln.For | None
    term: ln.ScalarExpr
    target: ln.Cell
    adds: bool
    covered: tuple[ln.For, ...]
    facts: Facts

    @property
    def loops(self) -> tuple[ln.For, ...]:
        """The loops that a call replaces, with that of the sum at the end."""
        return self.covered if self.loop is None else (*self.covered, self.loop)

    def with_call(self, call: ln.InstructionCall) -> ln.Block:
        """Return the statements in place of the outermost covered loop, or in place of those from `first` to `last`.

        A sum without covered loops is added to its target, since a call gets no variable of the block.
        """
        if self.covered:
            return (replace(self.covered[0], call=call),)
        assert self.loop is not None
        added = replace(self.loop, body=(ln.Accumulate(self.target, "add", self.term),), call=call)
        return (added,) if self.adds else (ln.Assign(self.target, ln.Number(0, self.target.buffer.dtype)), added)


def place_of_call(instruction: Instruction, loop: ln.For, block: ln.Block, around: Around) -> Place:
    """Return the place of a marked loop. Raises `Mismatch` if its form is not that of the program."""
    at = next(number for number, statement in enumerate(block) if statement is loop)
    if instruction.form.sum is None:
        body = loop.body
        if len(body) == 1 and isinstance(body[0], ln.Assign) and isinstance(body[0].target, ln.Cell):
            return _placed(instruction, body, (0, 0), (None, body[0].value, body[0].target, False), around.within(loop))
        raise Mismatch(
            f"the loop {loop.variable.name} does more than store one element",
            "the innermost loop of a tensor whose elements are stored without a condition",
        )
    match (block[at - 1] if at else None, loop.body, block[at + 1] if at + 1 < len(block) else None):
        case (_, (ln.Accumulate(ln.Cell() as target, "add", term),), _):
            return _placed(instruction, block, (at, at), (loop, term, target, True), around)
        case (
            ln.Declare(total, ln.Number(0)),
            (ln.Accumulate(ln.Scalar() as folded, "add", term),),
            ln.Assign(ln.Cell() as target, ln.Load(stored))
            | ln.Accumulate(ln.Cell() as target, "add", ln.Load(stored)),
        ) if folded == total == stored:
            adds = isinstance(block[at + 1], ln.Accumulate)
            return _placed(instruction, block, (at - 1, at + 1), (loop, term, target, adds), around)
    if len(loop.body) != 1 or isinstance(loop.body[0], ln.If):
        what = "has a condition" if isinstance(loop.body[0], ln.If) else "computes more than one sum"
        raise Mismatch(
            f"the loop {loop.variable.name} {what}",
            "a single sum, whose terms have no condition",
            suggestions=("s.pack(…) replaces a condition on an operand by zeros in a copy",),
        )
    _check_single(loop, around)
    raise Mismatch(
        f"the sum over {loop.variable.name} is an operand of another operation",
        "a sum that is stored in an element of a tensor, or added to one",
        suggestions=(f's.stage("{loop.variable.name}") stores the sums in a let first',),
    )


def _check_single(loop: ln.For, around: Around) -> None:
    """Raise `Mismatch` if a sum has terms that are sums, or is such a term."""
    within = around.loops
    if isinstance(loop.body[0], ln.For):
        outer, inner = loop, loop.body[0]
    elif within and within[-1].body == (loop,):
        within, outer, inner = within[:-1], within[-1], loop
    else:
        return
    results = [each.variable.name for each in within if each.mark is LoopMark.NONE]
    raise Mismatch(
        f"the terms of the sum over {outer.variable.name} are sums over {inner.variable.name}",
        "a single sum, directly inside the loops of the result",
        suggestions=tuple(
            f's.interchange("{name}") moves the sum over {outer.variable.name} outside of {name}'
            for name in results[-1:]
        ),
    )


def _placed(
    instruction: Instruction,
    block: ln.Block,
    ends: tuple[int, int],
    found: tuple[ln.For | None, ln.ScalarExpr, ln.Cell, bool],
    around: Around,
) -> Place:
    loop, term, target, adds = found
    count = len(instruction.form.loops)
    covered = around.loops[len(around.loops) - count :]
    wanted = f"{count} loop{'s' * (count != 1)} directly around it, which do nothing else"
    if len(covered) < count:
        there = "there is 1 loop" if len(covered) == 1 else f"there are {len(covered)} loops"
        raise Mismatch(f"{there} around the {'sum' if loop else 'element'}", wanted)
    inner: ln.Block = block
    if count and loop is not None and (ends[0] > 0 or ends[1] < len(block) - 1):
        raise Mismatch(f"the loop {covered[-1].variable.name} computes more than the sum", wanted)
    for outer in reversed(covered):
        own = loop is None and outer is covered[-1] and isinstance(outer.mark, CallMark)
        if outer.body != inner:
            raise Mismatch(f"the loop {outer.variable.name} contains more than the next loop", wanted)
        if not own and outer.mark not in (LoopMark.NONE, LoopMark.UNROLL):
            raise Mismatch(
                f"the loop {outer.variable.name} is marked {outer.mark.value}, and a call would compute it", wanted
            )
        inner = (outer,)
    facts = around.facts if loop is None else around.facts.assume(loop.range)
    return Place(block, *ends, loop, term, target, adds, covered, facts)


def sized_call(instruction: Instruction, place: Place, outside: Facts) -> ln.InstructionCall:
    """Return the call of an instruction at a place; `outside` holds around the covered loops. Raises `Mismatch`."""
    form = instruction.form
    if form.sum is not None and instruction.result != "either" and place.adds != (instruction.result == "added"):
        raise Mismatch(
            f"the sums are {'added to' if place.adds else 'stored in'} {place.target.buffer.name}",
            f"sums that are {instruction.result}, as {instruction.name} does; "
            f'declare it with result="either" if its text can do both',
        )
    if place.target.buffer.dtype != form.result.buffer.dtype:
        raise Mismatch(
            f"{place.target.buffer.name} has elements of {place.target.buffer.dtype}",
            f"elements of {form.result.buffer.dtype}",
        )
    variables = frozenset(loop.variable.uid for loop in place.loops)
    for loop in place.loops:
        for what, bound in (("starts", loop.low), ("ends", loop.high)):
            if bound.free & variables:
                raise Mismatch(
                    f"the loop {loop.variable.name} {what} at {show_index(bound)}, which depends on another loop",
                    "a range that is the same for all elements of the result",
                )
    first: Mismatch | None = None
    addresses: dict[ln.Cell, _Address] = {}
    for order in permutations(place.covered):
        chosen = order if place.loop is None else (*order, place.loop)
        for pairs in pairings(form.term, place.term):
            try:
                return _Match(instruction, place, outside, chosen, addresses).call(
                    ((OUT, form.result, place.target), *pairs)
                )
            except Mismatch as error:
                first = first or error
    raise first or Mismatch(
        f"the term is not that of {instruction.name}",
        f"the term of {str(instruction.program).partition(':=')[2].strip()}",
    )


@dataclass(frozen=True, slots=True)
class _Address:
    """The address of a cell in all iterations, in the first iteration of all covered loops, and its stride for each."""

    whole: Index
    first: Index
    strides: Mapping[Var, Index]


def _address(cell: ln.Cell, loops: Sequence[ln.For], facts: Facts) -> _Address:
    whole = simplify(facts, cell.address)
    start = {loop.variable: loop.low for loop in loops}
    first = _at(whole, start)
    strides: dict[Var, Index] = {}
    for loop in loops:
        growth = factor_of(whole, loop.variable)
        if growth is None:
            strides[loop.variable] = _at(whole, start | {loop.variable: loop.low + 1}) - first
        else:
            strides[loop.variable] = _at(growth, start)
    return _Address(whole, first, strides)


@dataclass(frozen=True, slots=True)
class _Match:
    """The match of an instruction at a place, whose declared loops correspond to `loops`, in order.

    `addresses` caches the addresses of cells from earlier matches at this place, with loops in another order.
    """

    instruction: Instruction
    place: Place
    outside: Facts
    loops: tuple[ln.For, ...]
    addresses: dict[ln.Cell, _Address]

    def call(self, pairs: Sequence[Pair]) -> ln.InstructionCall:
        found: dict[str, ln.CallOperand] = {}
        for name, declared, cell in pairs:
            operand = self._operand(name, declared, cell)
            if found.setdefault(name, operand) != operand:
                raise Mismatch(f"the operand {name} is read at two places", "one place")
            if name != OUT and ln.key(cell.buffer) == ln.key(self.place.target.buffer):
                raise Mismatch(
                    f"{cell.buffer.name} is both the result and the operand {name}", "a result in other storage"
                )
        names = (OUT, *(array.name for array in self.instruction.program.inputs))
        sizes, equalities = self._sizes()
        condition = self._condition(sizes, equalities, found)
        own = self.instruction
        return ln.InstructionCall(
            own.name,
            definition_of(own),
            tuple(
                replace(found[name], strides=found[name].strides if own.passes_strides(name) else ()) for name in names
            ),
            own.requires,
            own.libraries,
            condition,
            tuple(sizes[size] for size in own.program.sizes),
            self.place.adds if own.adds_on_request else None,
        )

    def _operand(self, name: str, declared: ln.Cell, cell: ln.Cell) -> ln.CallOperand:
        """Return the address of the first element of an operand and its strides. Raises `Mismatch`.

        The address is proved to be a sum of the strides, each times the number of an iteration.
        """
        corresponding = dict(zip((loop.variable for loop in self.instruction.form.all_loops), self.loops, strict=True))
        if cell not in self.addresses:
            self.addresses[cell] = _address(cell, self.loops, self.place.facts)
        known = self.addresses[cell]
        address, first = known.whole, known.first
        strides: list[Index] = []
        local = ZERO
        for position, _ in declared.pairs:
            assert isinstance(position.atom, Var)
            loop = corresponding[position.atom]
            stride = known.strides[loop.variable]
            strides.append(stride)
            local = local + stride * (index(loop.variable) - loop.low)
        answer = prove(self.place.facts, equal(address - first, local), thorough=False)
        if not isinstance(answer, Proved):
            numbers = dict(answer.model.numbers) if isinstance(answer, Refuted) else None
            read = ", ".join(loop.variable.name for loop in self.loops)
            raise Mismatch(
                f"{cell.buffer.name} is not the operand {name} of {self.instruction.name}: "
                f"its element for ({read}) is at the address {show_index(address)}",
                f"the address {show_index(first + local)}, which grows by a fixed stride along each dimension of {name}"
                + ("" if isinstance(answer, Refuted) else " (not proved equal)"),
                numbers,
            )
        return ln.CallOperand(cell.buffer, first, tuple(strides), self.instruction.aligned.get(name, 1))

    def _sizes(self) -> tuple[Mapping[str, Index], list[Predicate]]:
        """Return the value of each size, and the conditions that extents are equal to sizes and constants."""
        sizes: dict[str, Index] = {}
        equalities: list[Predicate] = []
        for declared, loop in zip(self.instruction.form.all_loops, self.loops, strict=True):
            extent = loop.high - loop.low
            atom = declared.high.atom
            if isinstance(atom, Size):
                if (known := sizes.setdefault(atom.name, extent)) != extent:
                    equalities.append(equal(known, extent))
            else:
                equalities.append(equal(declared.high, extent))
        return sizes, equalities

    def _condition(
        self, sizes: Mapping[str, Index], equalities: Sequence[Predicate], operands: Mapping[str, ln.CallOperand]
    ) -> Predicate:
        """Return the part of the conditions that is not proved. Raises `Mismatch` for a condition that fails."""
        values = {
            **sizes,
            **{
                stride_name(name, at): stride
                for name, each in operands.items()
                for at, stride in enumerate(each.strides)
            },
        }

        def value(leaf: Leaf) -> Index:
            return values[leaf.name] if isinstance(leaf, Size) else index(leaf)

        whole = self.outside.assume(*(at_most(constant(2), size) for size in sizes.values()))
        facts, tested = self.outside, []
        wanted: list[tuple[str, Predicate | None, Predicate]] = [
            *(("", None, at_most(ONE, size)) for size in sizes.values()),
            *(("", None, each) for each in equalities),
            *((name, stated, substitute(stated, value)) for name, stated in self.instruction.requirements),
        ]
        if self.place.adds:
            wanted.append((OUT, None, self._distinct(operands[OUT].strides)))
        for name, stated, predicate in wanted:
            # Conditions on sizes alone are usually unknown; the prover would search for counterexamples.
            left = simplify_predicate(facts, predicate) if name else predicate
            if left == TRUE or left.identity in facts.known:
                continue
            if left == FALSE or (name and holds(whole, negation(predicate))):
                raise self._failed(name, stated, predicate, operands)
            tested.append(left)
            facts = facts.assume(left)
        return conjunction(tested)

    def _distinct(self, strides: Sequence[Index]) -> Predicate:
        """Return a condition that the elements of the result are distinct: in some order, each stride spans the next.

        Elements that are stored are distinct anyway, because a program stores each element once.
        """
        by_variable = dict(zip((each.variable for each in self.instruction.form.all_loops), self.loops, strict=True))
        along = [by_variable[position.atom] for position, _ in self.instruction.form.result.pairs]  # type: ignore[index]
        extents = [loop.high - loop.low for loop in along]
        if not strides:
            return TRUE
        orders: list[Predicate] = []
        for order in permutations(zip(strides, extents, strict=True)):
            spans = [stride * extent for stride, extent in order[1:]]
            orders.append(
                conjunction(at_most(span, stride) for (stride, _), span in zip(order, (*spans, ONE), strict=True))
            )
        return disjunction(orders)

    def _failed(
        self,
        name: str,
        stated: Predicate | None,
        predicate: Predicate,
        operands: Mapping[str, ln.CallOperand],
    ) -> Mismatch:
        """Return the error of a condition that fails, with the strides of its operand."""
        of = self.instruction.name
        if stated is None and name == OUT:
            shared = self.place.target.buffer.name
            return Mismatch(
                f"iterations that {of} computes at once add to one element of {shared}",
                f"a different element of {shared} in each iteration of the loops around the sum",
            )
        if stated is None:
            return Mismatch(f"the loops have other extents than those of {of}", show_predicate(predicate))
        required = f"{show_predicate(stated)}, which is here {_shown(predicate)}"
        if name not in operands:
            return Mismatch(f"the sizes are not those of {of}", required)
        operand = operands[name]
        found = ", ".join(f"{stride_name(name, at)} = {show_index(e)}" for at, e in enumerate(operand.strides))
        return Mismatch(f"{operand.buffer.name} as the operand {name} of {of} has the strides {found}", required)


def _shown(predicate: Predicate) -> str:
    return "never true" if predicate == FALSE else f"{show_predicate(predicate)}: false if all sizes are at least 2"


def _at(e: Index, values: Mapping[Var, Index]) -> Index:
    """Return the expression where variables have these values."""

    if not any(variable.uid in e.free for variable in values):
        return e

    def value(leaf: Leaf) -> Index:
        return values[leaf] if isinstance(leaf, Var) and leaf in values else index(leaf)

    return map_leaves(e, value)


def marked_loops(block: ln.Block, around: Around) -> Iterator[tuple[ln.For, str, ln.Block, Around]]:
    """Yield each loop marked with an instruction, the instruction's name, the block and what is around it."""
    for statement in block:
        if isinstance(statement, ln.For) and isinstance(statement.mark, CallMark):
            yield statement, statement.mark.name, block, around
        elif isinstance(statement, ln.For | ln.If):
            yield from marked_loops(statement.body, around.within(statement))
