"""Running the steps of a rank, and the engine that runs all ranks in this process.

A rank is a generator: it yields a `Round` of messages and is sent those that it receives. Every rank takes the same
steps, so an engine only carries messages. The simulated engine matches each message with a receive, and counts.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, assert_never

import numpy as np
import numpy.typing as npt

from atl.core.index import Index, size, value_at
from atl.core.marks import LoopMark
from atl.core.program import Program
from atl.core.terms import Monoid, Type
from atl.errors import ATLError, DistributedFailure
from lowering.ranks import steps as st
from lowering.ranks.mesh import Coordinates, Mesh

AnyArray: TypeAlias = npt.NDArray[Any]
Compute: TypeAlias = Callable[[Program, Mapping[str, AnyArray], Mapping[str, int]], AnyArray]
"""Function that computes a program from arrays and sizes."""

_FOLDS: Final[Mapping[Monoid, Callable[[AnyArray, AnyArray], AnyArray]]] = {
    "sum": np.add, "product": np.multiply, "max": np.maximum, "min": np.minimum,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Round:
    """The messages of one rank in one exchange: what it sends to each rank, and the shape that it expects from each.

    `what` describes the exchange. A message to oneself is not sent.
    """

    what: str
    sends: Mapping[int, AnyArray]
    receives: Mapping[int, tuple[int, ...]]
    dtype: np.dtype[Any]


Rank: TypeAlias = Generator[Round, Mapping[int, AnyArray], None]


@dataclass(slots=True)
class State:
    """What a rank holds: its coordinates, the values of sizes, and its tensors by name."""

    mesh: Mesh
    at: Coordinates
    sizes: dict[str, int]
    arrays: dict[str, AnyArray]

    @property
    def coordinates(self) -> dict[LoopMark, int]:
        return dict(zip(self.mesh.extents, self.at, strict=True))

    @property
    def number(self) -> int:
        number = self.mesh.number(self.coordinates)
        assert number is not None
        return number


def run(program: st.RankProgram, state: State, compute: Compute) -> Rank:
    """Run the steps of a rank. Its tensors are added to the state."""
    for axis, coordinate in state.coordinates.items():
        state.sizes[program.ranks[axis]] = coordinate
    return _Run(program, state, compute).steps(program.steps)


@dataclass(slots=True)
class _Run:
    program: st.RankProgram
    state: State
    compute: Compute

    def steps(self, steps: Sequence[st.Step]) -> Rank:
        arrays = self.state.arrays
        for step in steps:
            match step:
                case st.Local(into, program):
                    arrays[into] = self._computed(program)
                case st.Join(into, left, right, dimension):
                    arrays[into] = np.concatenate([arrays[left], arrays[right]], axis=dimension)
                case st.Repeat():
                    yield from self._repeat(step)
                case st.Copy():
                    yield from self._copy(step)
                case st.Gather():
                    yield from self._gather(step)
                case st.Fold():
                    yield from self._fold(step)
                case st.Counts():
                    yield from self._counts(step)
                case _:
                    assert_never(step)

    def _computed(self, program: Program, **sizes: int) -> AnyArray:
        return np.asarray(self.compute(program, self.state.arrays, {**self.state.sizes, **sizes}))

    def _shape(self, of: Type) -> tuple[int, ...]:
        return tuple(max(0, self._value(extent)) for extent in of.shape)

    def _value(self, expression: Index, sizes: Mapping[str, int] | None = None) -> int:
        return value_at(expression, self.state.sizes if sizes is None else sizes)

    def _repeat(self, step: st.Repeat) -> Rank:
        low, high = self._value(step.low), self._value(step.high)
        total: AnyArray | None = None
        for counter in range(low, high):
            self.state.sizes[step.counter] = counter
            yield from self.steps(step.steps)
            term = self.state.arrays[step.term]
            total = term if total is None else _FOLDS[step.monoid](total, term)
        self.state.arrays[step.into] = _zeros(self._shape(step.type), step.type) if total is None else np.asarray(total)

    def _peers(self, axes: Sequence[LoopMark]) -> list[tuple[int, dict[LoopMark, int]]]:
        """Return the ranks that differ from this one along these axes only, with their coordinates, in order."""
        own = self.state.coordinates
        found = []
        for at in self.state.mesh.all():
            other = dict(zip(self.state.mesh.extents, at, strict=True))
            if all(other[axis] == own[axis] for axis in own if axis not in axes):
                number = self.state.mesh.number(other)
                assert number is not None
                found.append((number, other))
        return found

    def _as_peer(self, at: Mapping[LoopMark, int]) -> dict[str, int]:
        return {self.program.peers[axis]: coordinate for axis, coordinate in at.items()}

    def _owner_of(self, step: st.Copy, at: Mapping[LoopMark, int]) -> int | None:
        """Return the rank that sends to the rank at these coordinates."""
        sizes = {**self.state.sizes, **{self.program.ranks[axis]: place for axis, place in at.items()}}
        return self.state.mesh.number({axis: self._value(owner, sizes) for axis, owner in step.owner.items()})

    def _copy(self, step: st.Copy) -> Rank:
        state, me = self.state, self.state.number
        moving = [axis for axis, owner in step.owner.items() if owner != size(self.program.ranks[axis])]
        sends: dict[int, AnyArray] = {}
        message: AnyArray | None = None
        for number, at in self._peers(moving):
            if self._owner_of(step, at) == me:
                match step.form:
                    case "broadcast":  # one message for all
                        message = self._computed(step.message, **self._as_peer(at)) if message is None else message
                    case "shift" | "copy":
                        message = self._computed(step.message, **self._as_peer(at))
                    case _:
                        assert_never(step.form)
                sends[number] = message
        owner = self._owner_of(step, state.coordinates)
        receives = {} if owner is None else {owner: self._shape(step.type)}
        received = yield from self._round(step, sends, receives)
        if owner is not None:
            state.arrays[step.into] = received[owner]
        elif step.absent is not None:
            state.arrays[step.into] = self._computed(step.absent)
        else:
            raise DistributedFailure(
                f"in {step.form} {step.into}, rank {me} reads from a rank outside of the mesh", rank=me
            )

    def _gather(self, step: st.Gather) -> Rank:
        peers = self._peers((step.axis,))
        match step.form:
            case "all-gather":
                sends = self._messages(step, peers, same=True)
            case "all-to-all":
                sends = self._messages(step, peers, same=False)
            case _:
                assert_never(step.form)
        shape = self._shape(step.part)
        received = yield from self._round(step, sends, {number: shape for number, _ in peers})
        self.state.arrays[step.into] = np.stack([received[number] for number, _ in peers], axis=step.dimension)

    def _messages(
        self, step: st.Gather | st.Fold, peers: Sequence[tuple[int, dict[LoopMark, int]]], *, same: bool
    ) -> dict[int, AnyArray]:
        if same:
            message = self._computed(step.message, **self._as_peer(self.state.coordinates))
            return {number: message for number, _ in peers}
        return {number: self._computed(step.message, **self._as_peer(at)) for number, at in peers}

    def _fold(self, step: st.Fold) -> Rank:
        match step.form:
            case "reduce-scatter":
                yield from self._reduce_scatter(step)
            case "all-reduce":
                yield from self._all_reduce(step)
            case _:
                assert_never(step.form)

    def _reduce_scatter(self, step: st.Fold) -> Rank:
        peers = self._peers((step.axis,))
        shape = self._shape(step.type)
        sends = self._messages(step, peers, same=False)
        received = yield from self._round(step, sends, {number: shape for number, _ in peers})
        self.state.arrays[step.into] = _folded(_FOLDS[step.monoid], [received[number] for number, _ in peers])

    def _all_reduce(self, step: st.Fold) -> Rank:
        """Each rank reduces a chunk of the elements, and sends it to the others."""
        peers = self._peers((step.axis,))
        fold, me = _FOLDS[step.monoid], self.state.number
        shape = self._shape(step.type)
        own = self._messages(step, peers, same=True)[me].reshape(-1)
        chunks = {number: chunk for (number, _), chunk in zip(peers, _chunks(own, len(peers)), strict=True)}
        part = yield from self._round(step, chunks, {number: chunks[me].shape for number, _ in peers})
        reduced = _folded(fold, [part[number] for number, _ in peers])
        whole = yield from self._round(
            step, {number: reduced for number, _ in peers}, {number: chunk.shape for number, chunk in chunks.items()}
        )
        self.state.arrays[step.into] = np.concatenate([whole[number] for number, _ in peers]).reshape(shape)

    def _counts(self, step: st.Counts) -> Rank:
        me, own = self.state.number, self.state.coordinates
        sends: dict[int, AnyArray] = {}
        for number, at in self._peers(step.moving):
            sizes = {self.program.ranks[axis]: place for axis, place in at.items()}
            theirs = self._computed(step.owners, **sizes) == me + 1
            if theirs.any():
                sends[number] = self._computed(step.message, **self._as_peer(at))[theirs]
        owners = self._computed(step.owners)
        shape = self._shape(step.type)
        rest = shape[owners.ndim :]
        masks = {number: owners == number + 1 for number, _ in self._peers(step.moving)}
        receives = {number: (int(mask.sum()), *rest) for number, mask in masks.items() if mask.any()}
        received = yield from self._round(step, sends, receives)
        out = _zeros(shape, step.type) if step.absent is None else np.array(self._computed(step.absent))
        for number, values in received.items():
            out[masks[number]] = values
        self.state.arrays[step.into] = out
        assert own == self.state.coordinates

    def _round(
        self, step: st.Exchange, sends: Mapping[int, AnyArray], receives: Mapping[int, tuple[int, ...]]
    ) -> Generator[Round, Mapping[int, AnyArray], dict[int, AnyArray]]:
        """Exchange messages with other ranks; a message to oneself is kept."""
        me = self.state.number
        outgoing = {number: np.asarray(sent, order="C") for number, sent in sends.items() if number != me}
        incoming = {number: shape for number, shape in receives.items() if number != me}
        got = yield Round(f"{step.form} {step.into}", outgoing, incoming, np.dtype(step.type.dtype))
        found = dict(got)
        if me in receives:
            found[me] = sends[me]
        return found


def _zeros(shape: tuple[int, ...], of: Type) -> AnyArray:
    return np.zeros(shape, np.dtype(of.dtype))


def _chunks(elements: AnyArray, count: int) -> list[AnyArray]:
    """Split elements in chunks of equal length, of which the last ones may be shorter or empty."""
    length = -(-elements.size // count)
    return [elements[number * length : (number + 1) * length] for number in range(count)]


def _folded(fold: Callable[[AnyArray, AnyArray], AnyArray], parts: Sequence[AnyArray]) -> AnyArray:
    total = parts[0]
    for part in parts[1:]:
        total = fold(total, part)
    return np.asarray(total)


# -- all ranks in one process -----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Counted:
    """The words (elements) and messages that each rank received in a run."""

    words: list[int] = field(default_factory=list)
    messages: list[int] = field(default_factory=list)


def simulate(ranks: Sequence[Rank]) -> Counted:
    """Run ranks in lockstep. Raises `DistributedFailure` if two ranks disagree about a message.

    All ranks must be in the same exchange, and each message must have a receive of its shape and type.
    """
    counted = Counted([0] * len(ranks), [0] * len(ranks))
    answers: list[Mapping[int, AnyArray] | None] = [None] * len(ranks)
    while True:
        rounds: list[Round | None] = []
        for number, rank in enumerate(ranks):
            rounds.append(_advanced(number, rank, answers[number]))
        going = [number for number, each in enumerate(rounds) if each is not None]
        if not going:
            return counted
        _check_same(rounds, going)
        answers = [_delivered(rounds, number) for number in range(len(ranks))]
        for number, answer in enumerate(answers):
            assert answer is not None
            counted.words[number] += sum(message.size for message in answer.values())
            counted.messages[number] += len(answer)


def _advanced(number: int, rank: Rank, answer: Mapping[int, AnyArray] | None) -> Round | None:
    try:
        return next(rank) if answer is None else rank.send(answer)
    except StopIteration:
        return None
    except DistributedFailure:
        raise
    except ATLError as error:
        raise DistributedFailure(f"rank {number} failed: {error.summary}", rank=number) from error


def _check_same(rounds: Sequence[Round | None], going: Sequence[int]) -> None:
    first = rounds[going[0]]
    for number, each in enumerate(rounds):
        if each is None or first is None or each.what != first.what:
            raise DistributedFailure(
                f"rank {number} {'has ended' if each is None else f'is in {each.what}'}, but rank {going[0]} is in "
                f"{first.what if first else 'no exchange'}",
                rank=number,
                required="the same exchanges in the same order on all ranks",
            )


def _delivered(rounds: Sequence[Round | None], to: int) -> dict[int, AnyArray]:
    """Return the messages to a rank, after checking that it expects exactly these."""
    receiver = rounds[to]
    assert receiver is not None
    found: dict[int, AnyArray] = {}
    for number, sender in enumerate(rounds):
        assert sender is not None
        sent, expected = sender.sends.get(to), receiver.receives.get(number)
        shape = None if sent is None else sent.shape
        if shape != expected or (sent is not None and sent.dtype != receiver.dtype):
            raise DistributedFailure(
                f"in {receiver.what}, rank {number} sends rank {to} "
                f"{'nothing' if sent is None else f'{shape} elements of {sent.dtype}'}, which expects "
                f"{'nothing' if expected is None else f'{expected} elements of {receiver.dtype}'}",
                rank=number,
                required="a receive of the same shape and type for each message",
            )
        if sent is not None:
            found[number] = sent
    return found
