"""Proof scripts for plans, with the lemmas of `Storing.v`. They are hints; Rocq checks them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import assert_never

from atl.core.index import ZERO, Var, index
from atl.core.predicate import TRUE, Predicate, within
from atl.errors import InvalidArgument
from atl.prove import Facts
from lowering.nest.loopnest import Accumulate, Allocate, Assign, Clear, Declare, For, If, Scalar
from rewrites.rocq.nests.contents import POSITIONS, Found, Text, Writer, found_at, held_by, scalar_of, stores_of
from rewrites.rocq.nests.plan import (
    Both,
    Branch,
    Held,
    Looking,
    Loop,
    Nothing,
    Plan,
    Simple,
    adds,
    assigns,
    assigns_some,
    spares,
    sums,
)
from rewrites.rocq.nests.printing import Printer


@dataclass(frozen=True, slots=True)
class Place:
    """The state of a proof: known facts, the names of filled buffers' contents, and the values of scalar variables."""

    facts: Facts
    contents: Mapping[int, str] = field(default_factory=dict)
    scalars: Mapping[int, Text] = field(default_factory=dict)

    def assume(self, p: Predicate) -> Place:
        return replace(self, facts=self.facts.assume(p))


@dataclass(slots=True)
class Prover:
    """Writes the script for one nest. `looks` are tactics that unfold the value of the output, best first."""

    printer: Printer
    looks: tuple[str, ...]
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def text(self, plan: Plan, loops: tuple[Var, ...] = ()) -> str:
        """Print the plan as a statement."""
        match plan:
            case Nothing():
                return "Skip"
            case Looking(under, read):
                return self.printer.look(under, read)
            case Simple(at):
                return self.printer.simple(at, loops)
            case Loop(at, body):
                return self.printer.loop(at, self.text(body, (*loops, at.variable)))
            case Branch(at, body):
                return self.printer.branch(at, self.text(body, loops))
            case Both(first, second):
                return f"(Then {self.text(first, loops)}\n{self.text(second, loops)})"
            case _:
                assert_never(plan)

    # -- filling

    def output(self, plan: Plan, held: Held, place: Place, *, zeroed: bool) -> list[str]:
        """Prove that a plan fills the output with the value of the program; with `zeroed` it holds zeros before."""
        if sums(plan, held.uid):
            _, script = self._positions(held, place)
            if zeroed:
                zeros = ["eapply fills_sum.", *_part(["disjoint."]), *_part(["apply fills_zeros."])]
                filled = [*zeros, *_part(self.add(plan, held.uid, place))]
            else:
                filled = self.fill(plan, held, place, known=False)
            values = [f"intros at'' P''. {script}", self._seen(held, place, "by_sums")]
            return ["eapply fills_alike.", *_part(filled), *values]
        if zeroed:
            return self._zeroed(["apply fills_zeros."], plan, held, place)
        return self.fill(plan, held, place, known=True)

    def _zeroed(self, zeros: list[str], plan: Plan, held: Held, place: Place) -> list[str]:
        """Prove that storage is filled if it holds zeros before a plan stores to parts of it."""
        return [
            "apply fills_zeroed.",
            *_part(["disjoint."]),
            *_part(zeros),
            *_part(self.write(plan, held, place)),
            *_part(self._covered(plan, held, place, zeroed=True)),
        ]

    def fill(self, plan: Plan, held: Held, place: Place, *, known: bool) -> list[str]:
        """Prove that storage is filled with a given tensor, or with one that the proof determines."""
        uid = held.uid
        match plan:
            case Simple(Declare() | Assign()) if isinstance(held, Scalar):
                return ["apply fills_scalar. at_hand."]
            case Simple(Allocate() | Clear() as at) if at.zeroed:
                return ["apply fills_zeros."]
            case Both(first, second, local) if local is not None:
                inside, name = self._within_local(first, local, place)
                return [
                    *name,
                    f"eapply (fills_local _ _ _ {local.uid} {self.printer.shape(local)} {_content(inside, local)}).",
                    *_part(["disjoint."]),
                    *_part(self.fill(first, local, place, known=local.uid in inside.contents)),
                    *_part(self.fill(second, held, inside, known=known)),
                ]
            case Both(first, second) if spares(second, uid):
                return [
                    "apply fills_before.",
                    *_part(["disjoint."]),
                    *_part(self.fill(first, held, place, known=known)),
                ]
            case Both(first, second) if spares(first, uid) or _is_garbage(first, uid):
                return [
                    "apply fills_after.",
                    *_part(["disjoint."]),
                    *_part(self.fill(second, held, place, known=known)),
                ]
            case Both(first, second) if adds(second, uid):
                return [
                    "eapply fills_sum.",
                    *_part(["disjoint."]),
                    *_part(self.fill(first, held, place, known=False)),
                    *_part(self.add(second, uid, place)),
                ]
            case Both(Simple(Allocate() | Clear() | Declare()) as first, second) if assigns(second, uid):
                zeros = ["eapply fills_alike.", *_part(self.fill(first, held, place, known=False)), "by_zeros."]
                return self._zeroed(zeros, second, held, place)
            case Simple() | Loop() | Branch() | Both() if known:
                return [
                    "apply fills_writing.",
                    *_part(self.write(plan, held, place)),
                    *_part(self._covered(plan, held, place, zeroed=False)),
                ]
            case Simple() | Loop() | Branch() | Both() | Looking() | Nothing():
                raise InvalidArgument(
                    f"{held.name} is filled in a way that has no proof here",
                    required="storage that is stored once, or zeroed and added to",
                )
            case _:
                assert_never(plan)

    def _within_local(self, filling: Plan, held: Held, place: Place) -> tuple[Place, list[str]]:
        """Return the proof state after a local tensor is filled, and the line that names its contents."""
        if isinstance(held, Scalar):
            inside = {**place.scalars, held.uid: scalar_of(filling, held.uid, place.scalars)}
            place = replace(place, scalars=inside)
            if not assigns_some(filling, held.uid):
                return place, []
            text = place.scalars[held.uid](Writer(self.printer, place.contents, place.scalars))
            name = f"content''{held.uid}"
            line = f"pose ({name} := (fun _ => {text}) : tensor)."
            return replace(place, contents={**place.contents, held.uid: name}), [line]
        if sums(filling, held.uid):
            return place, []
        name = f"content''{held.uid}"
        position, facts = self._position(held, place)
        found = [found_at(each, position, facts) for each in stores_of(filling, held.uid, place.scalars)]
        text = held_by(found, position, Writer(self.printer, place.contents, place.scalars))
        line = f"pose ({name} := {text} : tensor)."
        return replace(place, contents={**place.contents, held.uid: name}), [line]

    # -- storing

    def write(self, plan: Plan, held: Held, place: Place) -> list[str]:
        """Prove that every value a plan stores is correct."""
        if spares(plan, held.uid):
            return ["apply writes_nothing. disjoint."]
        match plan:
            case Simple(Assign()):
                value = self._seen(held, place, "by_value")
                return ["apply writes_assign.", *_part(["at_hand."]), *_part([value])]
            case Loop(at, body):
                inside = place.assume(at.range)
                return [
                    "apply writes_for.",
                    *_part(["disjoint."]),
                    f"intros {self._name(at)} ?.",
                    *self.write(body, held, inside),
                ]
            case Branch(at, body):
                return ["apply writes_when. intros ?.", *self.write(body, held, place.assume(at.predicate))]
            case Both(first, second, local) if local is not None:
                inside, name = self._within_local(first, local, place)
                return [
                    *name,
                    f"eapply (writes_local _ _ _ {local.uid} {self.printer.shape(local)} {_content(inside, local)}).",
                    *_part(["disjoint."]),
                    *_part(["disjoint."]),
                    *_part(self.fill(first, local, inside, known=local.uid in inside.contents)),
                    *_part(self.write(second, held, inside)),
                ]
            case Both(first, second):
                return [
                    "apply writes_then.",
                    *_part(["disjoint."]),
                    *_part(self.write(first, held, place)),
                    *_part(self.write(second, held, place)),
                ]
            case Simple() | Looking() | Nothing():
                raise InvalidArgument(
                    f"{held.name} is both stored and added to", required="storage that is filled in one way"
                )
            case _:
                assert_never(plan)

    # -- adding

    def add(self, plan: Plan, uid: int, place: Place) -> list[str]:
        """Prove that a plan adds a tensor, which the proof determines."""
        if spares(plan, uid):
            return ["apply adds_nothing. disjoint."]
        match plan:
            case Simple(Accumulate(_, op)):
                return [f"apply {'adds' if op == 'add' else 'takes'}_one. at_hand."]
            case Loop(at, body):
                inside = self.add(body, uid, place.assume(at.range))
                return ["eapply adds_for.", *_part(["disjoint."]), *_part([f"intros {self._name(at)} ?.", *inside])]
            case Branch(at, body):
                return ["eapply adds_when. intros ?.", *self.add(body, uid, place.assume(at.predicate))]
            case Both(first, second, local) if local is not None:
                inside_local, name = self._within_local(first, local, place)
                shape, content = self.printer.shape(local), _content(inside_local, local)
                return [
                    *name,
                    f"eapply (adds_local _ _ _ {local.uid} {shape} {content}).",
                    *_part(["disjoint."]),
                    *_part(["disjoint."]),
                    *_part(self.fill(first, local, inside_local, known=local.uid in inside_local.contents)),
                    *_part(self.add(second, uid, inside_local)),
                ]
            case Both(first, second) if spares(first, uid):
                return [
                    "apply adds_after.",
                    *_part(["disjoint."]),
                    *_part(["disjoint."]),
                    *_part(self.add(second, uid, place)),
                ]
            case Both(first, second) if spares(second, uid):
                return ["apply adds_before.", *_part(["disjoint."]), *_part(self.add(first, uid, place))]
            case Both(first, second):
                return [
                    "eapply adds_then.",
                    *_part(["disjoint."]),
                    *_part(self.add(first, uid, place)),
                    *_part(self.add(second, uid, place)),
                ]
            case Simple() | Looking() | Nothing():
                raise InvalidArgument(
                    "storage is both assigned and accumulated into",
                    required="storage that is only assigned, or only accumulated into",
                )
            case _:
                assert_never(plan)

    def _seen(self, held: Held, place: Place, then: str) -> str:
        """Return a proof about the required contents of storage, which are unfolded first."""
        content = place.contents.get(held.uid)
        looks = (f"unfold {content}",) if content else self.looks
        *others, last = [f"{look}; {then}" for look in looks]
        return f"first [ {' | '.join([*(f'solve [{each}]' for each in others), last])} ]."

    def _name(self, at: For) -> str:
        return self.printer.index(index(at.variable))

    # -- finding the storing iteration

    def _position(self, held: Held, place: Place) -> tuple[tuple[Var, ...], Facts]:
        """Return a position, and the facts that it is within the extents."""
        extents = () if isinstance(held, Scalar) else held.extents
        position = tuple(Var(next(POSITIONS), "y") for _ in extents)
        facts = place.facts
        for p, extent in zip(position, extents, strict=True):
            facts = facts.assume(within(ZERO, index(p), extent))
        return position, facts

    def _positions(self, held: Held, place: Place) -> tuple[tuple[Var, ...], str]:
        """Return a position with the tactic that names it: `at''` is within the extents by the hypothesis `P''`."""
        position, _ = self._position(held, place)
        script = ""
        for p in position:
            script += f"destruct at'' as [|{self.printer.index(index(p))} at'']; [easy|]; destruct P'' as [? P'']; "
        return position, script + "destruct at''; [clear P'' | easy]."

    def _covered(self, plan: Plan, held: Held, place: Place, *, zeroed: bool) -> list[str]:
        """Prove that each element is stored by some iteration, or stays zero if the storage held zeros."""
        position, script = self._positions(held, place)
        facts = place.facts
        for p, extent in zip(position, () if isinstance(held, Scalar) else held.extents, strict=True):
            facts = facts.assume(within(ZERO, index(p), extent))
        lines = [f"intros at'' P''. {script}"]
        for each in stores_of(plan, held.uid, place.scalars):
            found = found_at(each, position, facts)
            way = f"{'left; ' if zeroed else ''}{self._way(found)}reached."
            if found.region == TRUE:
                return [*lines, way]
            lines.append(f"destruct {self.printer.predicate(found.region)} eqn:?; [ {way[:-1]} | ].")
        return [*lines, f"right; {self._seen(held, place, 'by_zero')}" if zeroed else "never."]

    def _way(self, found: Found) -> str:
        steps: list[str] = []
        for turn in found.store.way:
            if isinstance(turn, For):
                value = found.values[turn.variable]
                steps.append(f"exists {self.printer.index(value)}; split; [known | ]")
            elif isinstance(turn, If):
                steps.append("split; [holds | ]")
            else:
                steps.append(turn)
        return "".join(f"{step}; " for step in steps)


def _part(lines: Sequence[str]) -> list[str]:
    """Wrap the proof of one of several goals."""
    return ["{", *(f"  {line}" for line in lines), "}"]


def _content(place: Place, held: Held) -> str:
    """Return the name of a filled buffer's contents, or `_` to let Rocq infer them."""
    return place.contents.get(held.uid, "_")


def _is_garbage(plan: Plan, uid: int) -> bool:
    """Return whether storage is allocated or cleared here without being zeroed."""
    match plan:
        case Simple(Allocate(buffer, zeroed=False)) | Simple(Clear(buffer, zeroed=False)):
            return buffer.uid == uid
        case _:
            return False
