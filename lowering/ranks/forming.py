"""From a term with device loops to the steps of one rank.

The program of one rank is an instance of the term: the index of a device loop is the rank's coordinate. A tensor that a
device loop fills is sharded; a rank holds the element of its coordinate. A term that reads only what the rank holds is
computed in one `Local` step. A let that reads a part of another rank is an exchange. Its form follows from the owner of
what is read, an expression of the rank. All reads are proved to have this owner.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from atl.checks.scope import Scope, child_scopes, initial_facts
from atl.checks.wellformed import make_program
from atl.core.index import ONE, ZERO, Array, Bound, Index, Read, Size, Var, atoms, index, map_leaves, shift, size
from atl.core.marks import DEVICES, LoopMark
from atl.core.predicate import Predicate, conjunction, conjuncts, equal, expressions, within
from atl.core.program import Program
from atl.core.substitution import instantiate, instantiate_tensor
from atl.core.terms import Concat, Expr, Gen, Guard, Input, Let, Reduce, Type, Value
from atl.core.traversal import children, indices_in, subterms
from atl.errors import IllegalExchange, InvalidArgument, MeshError
from atl.prove import Facts, Proved, Refuted, prove, proves, simplify
from atl.text.printing import show, show_index, show_predicate
from lowering.nest import loopnest as ln
from lowering.pipeline import lower
from lowering.places import axes_of, owner_form, repeated_axis
from lowering.ranks import steps as st
from lowering.ranks.mesh import letter_of
from lowering.ranks.reads import Axes, ShardedRead, read_locally, sharded_reads, sizes_of, with_sizes, without_reads
from lowering.targets.legality import raise_all

OWNERS: Final = "int64"
"""The element type of numbers of ranks."""


def form(program: Program) -> st.RankProgram:
    """Return the program of one rank.

    Raises `MeshError`, `IllegalExchange`, `IllegalMark` for data races and repeated axes, `InvalidArgument`, and what
    `lower` raises.

    >>> import atl
    >>> rows = atl.parse("f (x : float32[P | device.x, n]) : float32[P, n] := ⊞[d < P | device.x] ⊞[i < n] 2 * x[d, i]")
    >>> print(form(rows))
    out := ⊞[i < n] 2 * x[i]
    result: out
    """
    if program.results or program.assembly is not None:
        raise InvalidArgument(
            f"{program.name} has {'several results' if program.results else 'a sparse result'}",
            required="one dense result, of which each rank computes a part",
        )
    nest = lower(program)
    check_axes(nest)
    return _Former(program).form()


def check_axes(nest: ln.LoopNest) -> None:
    """Raise `IllegalMark` for nested device loops along one axis."""
    raise_all(repeated_axis(around, loop) for around, _, loop in axes_of(nest) if loop.mark in DEVICES)


@dataclass(slots=True)
class _Former:
    """The state of forming: what is sharded, on which axes the ranks hold different values, and the steps so far."""

    program: Program
    sharded: dict[str, Axes] = field(init=False)
    varies: dict[str, frozenset[LoopMark]] = field(init=False, default_factory=dict)
    axes: dict[LoopMark, Index] = field(init=False)
    ranks: dict[LoopMark, str] = field(init=False)
    peers: dict[LoopMark, str] = field(init=False)
    facts: Facts = field(init=False)
    taken: set[str] = field(init=False)
    given: list[Predicate] = field(init=False)
    steps: list[st.Step] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        program = self.program
        self.sharded = {each.name: each.axes for each in program.sharded}
        self.taken = {*program.sizes, *(array.name for array in program.inputs)}
        self.facts = initial_facts(program.assumptions, program.inputs)
        self.axes = self._extents()
        self.ranks = {axis: self._fresh(f"rank_{letter_of(axis)}") for axis in self.axes}
        self.peers = {axis: self._fresh(f"peer_{letter_of(axis)}") for axis in self.axes}
        self.given = [within(ZERO, size(self.ranks[axis]), extent) for axis, extent in self.axes.items()]
        self.facts = self.facts.assume(*self.given)

    # -- the mesh -----------------------------------------------------------------------------------------------------

    def _extents(self) -> dict[LoopMark, Index]:
        """Return the number of ranks along each axis. Raises `MeshError` if two places disagree."""
        found: dict[LoopMark, tuple[Index, str]] = {}
        for axis, extent, where in self._uses():
            known, first = found.setdefault(axis, (extent, where))
            answer = prove(self.facts, equal(known, extent))
            if not isinstance(answer, Proved):
                raise MeshError(
                    f"{where} has {show_index(extent)} parts along {axis.value}, {first} has {show_index(known)}",
                    required=f"{show_index(extent)} = {show_index(known)}: one extent for each axis",
                    numbers=answer.model.numbers if isinstance(answer, Refuted) else None,
                )
        if not found:
            raise MeshError(
                f"{self.program.name} has neither a device loop nor a sharded input",
                required="loops or dimensions marked device.x, device.y or device.z",
                suggestions=('s.distribute("i", "x") marks a loop', 's.shard("A", …) shards an input'),
            )
        return {axis: found[axis][0] for axis in DEVICES if axis in found}

    def _uses(self) -> Iterator[tuple[LoopMark, Index, str]]:
        arrays = {array.name: array for array in self.program.inputs}
        for name, axes in self.sharded.items():
            for axis, extent in zip(axes, arrays[name].shape, strict=True):
                if axis is not LoopMark.NONE:
                    yield axis, extent, f"the input {name}"
        for term in subterms(self.program.body):
            if isinstance(term, Gen | Reduce) and term.mark in DEVICES:
                assert isinstance(term.mark, LoopMark)
                extent = term.high - term.low
                if extent.loose or not proves(self.facts, equal(term.low, ZERO)):
                    raise MeshError(
                        f"the loop {term.name} is marked {term.mark.value}, but is not over all ranks of an axis",
                        required=f"a range from 0 to a number of ranks; it begins at {show_index(term.low)} and has "
                        f"{show_index(extent)} iterations",
                        suggestions=(f's.mark("{term.name}", None) removes the mark',),
                    )
                yield term.mark, extent, f"the loop {term.name}"

    def _fresh(self, name: str) -> str:
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    def new(self, name: str) -> str:
        """Return a name for a tensor, with a number if the name is used already."""
        number, made = 1, name
        while made in self.taken:
            number += 1
            made = f"{name}_{number}"
        self.taken.add(made)
        return made

    # -- terms --------------------------------------------------------------------------------------------------------

    def form(self) -> st.RankProgram:
        """Return the steps for the whole program."""
        body = self.program.body
        while isinstance(body, Let):
            body = self._bound(body)
        result, part = self._owners(body)
        out = self._value(part, "out")
        return st.RankProgram(self.program, self.axes, result, tuple(self.steps), out, self.ranks, self.peers)

    def _owners(self, e: Expr) -> tuple[Axes, Expr]:
        """Return the axes of the outermost device loops, and the part of this rank."""
        found: list[LoopMark] = []
        while isinstance(e, Gen) and e.mark in DEVICES:
            assert isinstance(e.mark, LoopMark)
            found.append(e.mark)
            e = instantiate(e.body, size(self.ranks[e.mark]))
        return tuple(found), e

    def _bound(self, let: Let) -> Expr:
        """Compute the value of a let, sharded if device loops fill it; return the body that reads it."""
        axes, part = self._owners(let.value)
        name = self._value(part, let.name)
        if axes:
            self.sharded[name] = (*axes, *(LoopMark.NONE for _ in part.type.shape))
            self.varies[name] -= set(axes)
        of = let.value.type
        return instantiate_tensor(let.body, Input(Array(name, of.shape, of.dtype or self.program.dtype)))

    def _value(self, e: Expr, name: str) -> str:
        """Add the steps that compute a term, and return the name of its value."""
        if isinstance(e, Let):
            return self._value(self._bound(e), name)
        if not self._foreign(e):
            return self._add(st.Local(self.new(name), self.program_of(e, name)), e)
        if isinstance(e, Gen | Guard | Concat) and isinstance((within_loops := _outer_layers(e))[1], Concat):
            return self._joined(e, *within_loops, name)
        if isinstance(e, Reduce) and _has_let(e.body):
            return self._repeated(e, name)
        if (inner := self._inner_exchange(e)) is not None:
            raise self._misplaced(e, *inner)
        return self._add(_Exchange(self, e, name).step(), e)

    def _add(self, step: st.Step, e: Expr) -> str:
        self.steps.append(step)
        self.varies[step.into] = self.dependence(e)
        return step.into

    def _joined(self, e: Expr, layers: Sequence[Gen | Guard], inner: Expr, name: str) -> str:
        """Add the concatenation of the parts of a term: ⊞[i < n] (a ++ b), along the dimension after the loops."""
        assert isinstance(inner, Concat)
        parts = [self._value(_within_layers(layers, part), name) for part in (inner.left, inner.right)]
        dimension = sum(isinstance(layer, Gen) for layer in layers)
        return self._add(st.Join(self.new(name), parts[0], parts[1], dimension), e)

    def _repeated(self, e: Reduce, name: str) -> str:
        """Add the loop over the terms of a reduction in which there are exchanges."""
        for end in (e.low, e.high):
            if self.depends_on_rank(end):
                raise IllegalExchange(
                    f"the loop {e.name} contains an exchange, and its number of iterations depends on the rank",
                    required=f"a range that is the same on all ranks; it ends at {show_index(end)}",
                    suggestions=("move the exchange out of the loop: s.hoist(…)",),
                )
        counter = self.new(e.name)
        outside, given, facts = self.steps, self.given, self.facts
        self.steps = []
        condition = within(e.low, size(counter), e.high)
        self.given, self.facts = [*given, condition], facts.assume(condition)
        term = self._value(instantiate(e.body, size(counter)), name)
        inside, self.steps, self.given, self.facts = self.steps, outside, given, facts
        of = self.typed(e.type)
        step = st.Repeat(self.new(name), e.monoid, counter, e.low, e.high, tuple(inside), term, of)
        return self._add(step, e)

    def _inner_exchange(self, e: Expr) -> tuple[Expr, Let] | None:
        """Return a let inside a term whose value reads parts of other ranks, and the innermost term around it."""
        stack: list[tuple[Expr, Expr, Scope]] = [(e, e, Scope(self.facts))]
        while stack:
            around, at, scope = stack.pop()
            if isinstance(at, Let):
                value = child_scopes(at, scope)[0]
                if any(not self.is_own(read) for read in sharded_reads(at.value, value, self.sharded)):
                    return around, at
            stack += (
                (at if isinstance(at, Gen | Reduce | Guard) else around, child.expr, below)
                for child, below in zip(children(at), child_scopes(at, scope), strict=True)
            )
        return None

    def _misplaced(self, e: Expr, around: Expr, let: Let) -> IllegalExchange:
        for term in subterms(e):
            if (
                isinstance(term, Guard)
                and any(map(self.depends_on_rank, expressions(term.predicate)))
                and _contains(term, let)
            ):
                answer = prove(self.facts, term.predicate) if not term.predicate.loose else None
                return IllegalExchange(
                    f"the exchange {let.name} is under the condition {_condition(term)}, which depends on the rank",
                    required="exchanges outside of such conditions, so that all ranks make the same calls",
                    numbers=answer.model.numbers if isinstance(answer, Refuted) else None,
                    suggestions=(f's.hoist("{let.name}") moves it out of the condition',),
                )
        inside = around.name if isinstance(around, Gen | Reduce) else type(around).__name__.lower()
        return IllegalExchange(
            f"the exchange {let.name} is inside {inside}, which is not a loop over the terms of a reduction",
            required="exchanges outside of loops that fill tensors, and outside of operators",
            suggestions=(
                f's.hoist("{let.name}") moves it outwards',
                f's.stage("{let.name}", at=…) copies what is read',
            ),
        )

    # -- reads --------------------------------------------------------------------------------------------------------

    def reads(self, e: Expr) -> list[ShardedRead]:
        """Return the reads of sharded tensors in a closed term."""
        return list(sharded_reads(e, Scope(self.facts), self.sharded))

    def _foreign(self, e: Expr) -> list[ShardedRead]:
        return [read for read in self.reads(e) if not self.is_own(read)]

    def is_own(self, read: ShardedRead) -> bool:
        """Return whether a read is proved to be of the part that this rank holds."""
        return all(
            owner is not None and self.is_at(read, owner, size(self.ranks[axis])) for axis, owner in read.owner.items()
        )

    def is_at(self, read: ShardedRead, owner: Index, wanted: Index) -> bool:
        """Return whether the owner of a read is proved to be `wanted`, an expression in the read's scope."""
        found = read.scope.index(owner)
        return found == wanted or proves(read.scope.facts, equal(found, wanted))

    def dependence(self, e: Expr) -> frozenset[LoopMark]:
        """Return the axes along which ranks may have different values of a term."""
        of_size = {name: axis for axis, name in self.ranks.items()}
        found = {of_size[name] for name in sizes_of(e) if name in of_size}
        for array in _arrays(e):
            found |= self.varies.get(array.name, frozenset())
        return frozenset(found)

    def depends_on_rank(self, expression: Index) -> bool:
        return any(isinstance(atom, Size) and atom.name in self.ranks.values() for atom in atoms(expression))

    # -- programs -----------------------------------------------------------------------------------------------------

    def program_of(self, e: Expr, name: str, given: Sequence[Predicate] = (), *, local: bool = True) -> Program:
        """Return the program that computes a term from what a rank holds."""
        body = read_locally(e, self.sharded) if local else e
        for term in subterms(body):
            if isinstance(term, Gen | Reduce) and term.mark in DEVICES:
                raise IllegalExchange(
                    f"the loop {term.name} is marked {term.mark.value}, but each rank runs all of its iterations",
                    required="device loops around the result or the value of a let, with only device loops around them",
                    suggestions=(f's.mark("{term.name}", None) removes the mark', "s.lbind(…) makes it a let"),
                )
        arrays = dict.fromkeys(_arrays(body))
        known = [
            part
            for condition in (*self.program.assumptions, *self.given, *given)
            for part in conjuncts(condition)
            if all(atom.array in arrays for each in expressions(part) for atom in atoms(each) if isinstance(atom, Read))
        ]
        return make_program(name, tuple(arrays), body, known)

    def typed(self, of: Type) -> Type:
        return Type(of.dtype or self.program.dtype, of.shape)


def _arrays(e: Expr) -> Iterator[Array]:
    """Yield the arrays that a term reads."""
    for term in subterms(e):
        if isinstance(term, Input):
            yield term.array
        for expression in indices_in(term):
            yield from (atom.array for atom in atoms(expression) if isinstance(atom, Read))


def _has_let(e: Expr) -> bool:
    return any(isinstance(term, Let) for term in subterms(e))


def _contains(e: Expr, inner: Expr) -> bool:
    return any(term is inner for term in subterms(e))


def _condition(guard: Guard) -> str:
    return f"[{show_predicate(guard.predicate)}]" if not guard.predicate.loose else "of a guard"


# -- exchanges --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Exchange:
    """Finds the form of an exchange from the owners of what its term reads."""

    former: _Former
    e: Expr
    name: str
    reads: list[ShardedRead] = field(init=False)
    tried: list[tuple[ShardedRead, Index, Index, Mapping[str, object]]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.reads = self.former.reads(self.e)

    def step(self) -> st.Exchange:
        """Return the exchange. Raises `IllegalExchange` if the owner has no known form."""
        made = self._copied() or self._gathered() or self._folded() or self._counted()
        if made is None:
            raise self._of_no_form()
        return made

    @property
    def _type(self) -> Type:
        return self.former.typed(self.e.type)

    # -- one owner ----------------------------------------------------------------------------------------------------

    def _copied(self) -> st.Copy | None:
        """Return the exchange if all reads are of one rank, which does not depend on the loops of the term."""
        former = self.former
        owner: dict[LoopMark, Index] = {}
        for axis in former.axes:
            of_axis = [(read, read.owner[axis]) for read in self.reads if axis in read.owner]
            if not of_axis:
                owner[axis] = size(former.ranks[axis])
                continue
            found = self._common_owner(axis, of_axis)
            if found is None:
                return None
            owner[axis] = found
        self._check_held(frozenset(axis for axis in owner if owner[axis] != size(former.ranks[axis])))
        moving = {axis: (at, size(former.ranks[axis])) for axis, at in owner.items() if at != size(former.ranks[axis])}
        message = self._message(owner)
        kind = owner_form(moving.values(), former.depends_on_rank)
        if kind == "broadcast" and sizes_of(message.body) & set(former.peers.values()):
            kind = "copy"  # each rank gets a different message
        inside = [within(ZERO, at, former.axes[axis]) for axis, at in owner.items()]
        absent = None
        if not all(proves(former.facts, condition) for condition in inside):
            absent = former.program_of(without_reads(self.e, former.sharded), self.name, local=False)
        return st.Copy(former.new(self.name), kind, owner, message, absent, self._type)

    def _common_owner(self, axis: LoopMark, of_axis: Sequence[tuple[ShardedRead, Index | None]]) -> Index | None:
        """Return the proved common owner of reads along an axis, an expression without the indices of loops."""
        former = self.former
        rank = size(former.ranks[axis])
        candidates: dict[Index, None] = {}
        for read, at in of_axis:
            if at is None:
                return None
            simple = simplify(read.scope.facts, read.scope.index(at))
            if not any(isinstance(atom, Var | Read) for atom in atoms(simple)):
                candidates[simple] = None
        candidates.update(dict.fromkeys((rank, rank - 1, rank + 1)))
        for candidate in candidates:
            if all(self._proved(read, at, candidate) for read, at in of_axis if at is not None):
                return candidate
        return None

    def _proved(self, read: ShardedRead, at: Index, candidate: Index) -> bool:
        if self.former.is_at(read, at, candidate):
            return True
        answer = prove(read.scope.facts, equal(read.scope.index(at), candidate))
        if isinstance(answer, Refuted):
            self.tried.append((read, at, candidate, answer.model.numbers))
        return False

    def _message(self, owner: Mapping[LoopMark, Index]) -> Program:
        """Return the program by which the owner computes the message for the rank at the coordinates `peer_x`, ….

        The program uses the coordinate of the owner on axes where both have the same coordinate.
        """
        former = self.former
        moving = [axis for axis, at in owner.items() if at != size(former.ranks[axis])]
        renamed = {former.ranks[axis]: size(former.peers[axis]) for axis in moving}
        seen = with_sizes(self.e, renamed)
        given = [within(ZERO, size(former.peers[axis]), former.axes[axis]) for axis in moving]
        given += [equal(_renamed(owner[axis], renamed), size(former.ranks[axis])) for axis in moving]
        return former.program_of(seen, self.name, given)

    def _check_held(self, moving: frozenset[LoopMark]) -> None:
        """Raise `IllegalExchange` if the message needs a value that the sender does not hold."""
        for array in _arrays(self.e):
            varying = self.former.varies.get(array.name, frozenset()) & moving
            if varying:
                raise IllegalExchange(
                    f"the exchange {self.name} reads parts of other ranks along {_letters(varying)} together with "
                    f"{array.name}, of which each rank has its own value",
                    required="a message that its sender can compute",
                    suggestions=("exchange what is read alone, and combine it with own values afterwards",),
                )

    # -- all owners along an axis -------------------------------------------------------------------------------------

    def _gathered(self) -> st.Gather | None:
        """Return the exchange if a loop of the term runs over all owners."""
        around: list[Gen] = []
        inner = self.e
        while isinstance(inner, Gen):
            axis = self._axis_of(inner, len(around))
            if axis is not None:
                message, same = self._from_each(axis, len(around))
                of = self._type
                dimension = len(around)
                part = Type(of.dtype, (*of.shape[:dimension], *of.shape[dimension + 1 :]))
                kind: st.GatherForm = "all-gather" if same else "all-to-all"
                return st.Gather(self.former.new(self.name), kind, axis, dimension, message, part, of)
            around.append(inner)
            inner = inner.body
        return None

    def _folded(self) -> st.Fold | None:
        """Return the exchange if a reduction of the term runs over all owners."""
        around, inner = _outer_layers(self.e)
        if not isinstance(inner, Reduce):
            return None
        axis = self._axis_of(inner, sum(isinstance(each, Gen) for each in around))
        if axis is None:
            return None
        message, same = self._from_each(axis, len(around))
        kind: st.FoldForm = "all-reduce" if same else "reduce-scatter"
        return st.Fold(self.former.new(self.name), kind, axis, inner.monoid, message, self._type)

    def _axis_of(self, loop: Gen | Reduce, depth: int) -> LoopMark | None:
        """Return the axis whose ranks a loop at this depth runs over, if every read is of that rank."""
        former = self.former
        if loop.low != ZERO or loop.high.loose or not self.reads:
            return None
        for axis, extent in former.axes.items():
            over_all = loop.high == extent or proves(former.facts, equal(loop.high, extent))
            if over_all and all(self._is_of_loop(read, axis, depth) for read in self.reads):
                return axis
        return None

    def _is_of_loop(self, read: ShardedRead, axis: LoopMark, depth: int) -> bool:
        """Return whether a read is of the rank whose coordinate is the loop's index, and otherwise this rank's."""
        former = self.former
        if axis not in read.owner or read.depth <= depth:
            return False
        for other, at in read.owner.items():
            wanted = read.scope.indices[depth] if other is axis else size(former.ranks[other])
            if at is None or not former.is_at(read, at, wanted):
                return False
        return True

    def _from_each(self, axis: LoopMark, depth: int) -> tuple[Program, bool]:
        """Return the program of the message that a rank sends to `peer`, and whether it is the same for all.

        `depth` is the number of loops and guards around the loop over the owners.
        """
        former = self.former
        self._check_held(frozenset((axis,)))
        peer = size(former.peers[axis])
        renamed = {former.ranks[axis]: peer}
        layers, inner = _outer_layers(with_sizes(self.e, renamed), depth)
        assert isinstance(inner, Gen | Reduce)
        seen = _within_layers(layers, instantiate(inner.body, size(former.ranks[axis])))
        given = [within(ZERO, peer, former.axes[axis])]
        message = former.program_of(seen, self.name, given)
        return message, former.peers[axis] not in sizes_of(message.body)

    # -- single elements ----------------------------------------------------------------------------------------------

    def _counted(self) -> st.Counts | None:
        """Return the exchange if each element is of one rank, which depends on the loops around it."""
        former = self.former
        layers, _ = _outer_layers(self.e)
        loops = sum(isinstance(each, Gen) for each in layers)
        owner = self._element_owner(loops)
        if owner is None or not loops:
            return None
        moving = [axis for axis, at in owner.items() if at != size(former.ranks[axis])]
        self._check_held(frozenset(moving))
        number = ZERO
        for axis, extent in former.axes.items():
            number = number * extent + owner[axis]
        scope = Scope(former.facts)
        at = self.e
        for layer in layers:
            scope = child_scopes(at, scope)[0]
            at = layer.body
        inside = [within(ZERO, owner[axis], former.axes[axis]) for axis in moving]
        open_ = [each for each in inside if not proves(scope.facts, scope.predicate(each))]
        numbered: Expr = Value(number + ONE, OWNERS)
        if open_:
            numbered = Guard(conjunction(open_), numbered)
        owners = _within_layers(layers, numbered)
        absent = former.program_of(without_reads(self.e, former.sharded), self.name, local=False) if open_ else None
        renamed = {former.ranks[axis]: size(former.peers[axis]) for axis in moving}
        seen, element = _outer_layers(with_sizes(self.e, renamed), len(layers))
        theirs = conjunction([equal(_renamed(owner[axis], renamed), size(former.ranks[axis])) for axis in moving])
        given = [within(ZERO, size(former.peers[axis]), former.axes[axis]) for axis in moving]
        message = former.program_of(_within_layers(seen, Guard(theirs, element)), self.name, given)
        return st.Counts(
            former.new(self.name),
            former.program_of(owners, self.name),
            owners,
            message,
            absent,
            tuple(axis for axis in former.axes if axis in moving),
            self._type,
        )

    def _element_owner(self, loops: int) -> dict[LoopMark, Index] | None:
        """Return the owner of an element by axis, over the indices of the outer loops, if all reads have the same."""
        former = self.former
        owner: dict[LoopMark, Index] = {}
        for axis in former.axes:
            found: dict[Index, None] = {}
            for read in self.reads:
                if axis not in read.owner:
                    continue
                at, inner = read.owner[axis], read.depth - loops
                if at is None or any(isinstance(atom, Bound) and atom.position < inner for atom in atoms(at)):
                    return None
                if any(isinstance(atom, Read) for atom in atoms(at)):
                    return None
                found[shift(at, -inner)] = None
            if len(found) > 1:
                return None
            owner[axis] = next(iter(found), size(former.ranks[axis]))
        return owner

    # -- errors -------------------------------------------------------------------------------------------------------

    def _of_no_form(self) -> IllegalExchange:
        former = self.former
        foreign = [read for read in self.reads if not former.is_own(read)]
        read = foreign[0]
        text = show(read.term) if read.term is not None and not read.term.loose else read.name
        own = next((each for each in self.reads if former.is_own(each)), None)
        exchange = (f's.exchange("{read.name}", at=…) copies what a rank reads', "s.distribute, s.reduce_over")
        for axis, at in read.owner.items():
            rank = size(former.ranks[axis])
            if at is None or former.is_at(read, at, rank):
                continue
            owner = read.scope.index(at)
            near = prove(read.scope.facts, within(rank - 1, owner, rank + 2))
            far = prove(read.scope.facts, within(rank - 2, owner, rank + 3))
            if isinstance(near, Refuted) and not isinstance(far, Refuted):
                return IllegalExchange(
                    f"the halo of {read.name} is wider than a shard: rank {near.model.value(rank)} along "
                    f"{letter_of(axis)} reads a part of rank {near.model.value(owner)}",
                    required=f"reads of the neighbours only: {show_index(rank - 1)} <= {show_index(owner)} <= "
                    f"{show_index(rank + 1)}",
                    numbers=near.model.numbers,
                    suggestions=("state that shards are large enough: given=[b >= …]",),
                )
            if own is None:
                answer = prove(read.scope.facts, equal(owner, rank))
                return IllegalExchange(
                    f"the owner of {text} has no known form: it is {show_index(owner)} along {letter_of(axis)}",
                    required="one owner for all that is read, a loop over all owners, or a single element of one owner",
                    numbers=answer.model.numbers if isinstance(answer, Refuted) else None,
                    suggestions=("s.split_loop at the borders of the parts separates the owners", *exchange[:1]),
                )
        numbers = None
        for axis, at in read.owner.items():
            if at is not None:
                answer = prove(read.scope.facts, equal(read.scope.index(at), size(former.ranks[axis])))
                numbers = answer.model.numbers if isinstance(answer, Refuted) else numbers
        return IllegalExchange(
            f"{self.name} reads a part of {read.name} that another rank holds, outside of an exchange",
            required="a let or a result that reads only one other rank, or all of them",
            numbers=numbers,
            suggestions=exchange,
        )


def _outer_layers(e: Expr, most: int | None = None) -> tuple[tuple[Gen | Guard, ...], Expr]:
    """Return the loops and guards around a term, at most `most` of them, and the term inside."""
    found: list[Gen | Guard] = []
    while isinstance(e, Gen | Guard) and (most is None or len(found) < most):
        found.append(e)
        e = e.body
    return tuple(found), e


def _within_layers(layers: Sequence[Gen | Guard], e: Expr) -> Expr:
    for layer in reversed(layers):
        e = Gen(layer.low, layer.high, e, layer.name) if isinstance(layer, Gen) else Guard(layer.predicate, e)
    return e


def _renamed(expression: Index, sizes: Mapping[str, Index]) -> Index:
    return map_leaves(
        expression, lambda leaf: sizes[leaf.name] if isinstance(leaf, Size) and leaf.name in sizes else index(leaf)
    )


def _letters(axes: frozenset[LoopMark]) -> str:
    return " and ".join(letter_of(axis) for axis in DEVICES if axis in axes)
