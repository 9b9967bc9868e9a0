"""Lets that the backward pass reads from the forward pass, instead of computing them again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from atl.checks.wellformed import make_program
from atl.core import terms
from atl.core.index import Array
from atl.core.marks import LetMark
from atl.core.program import Program, Result
from atl.core.substitution import close_tensor, free_positions, fresh_uid, instantiate_tensor
from atl.core.terms import Expr
from atl.core.traversal import Path, children, subterms
from atl.errors import InvalidArgument, brief, did_you_mean
from atl.surface.results import results
from atl.surface.values import Tensor
from gradients.naming import unify
from gradients.tangents import fresh_name
from rewrites.derivation import Derivation
from rewrites.errors import DoesNotApply, NotATheorem
from rewrites.kernel import Theorem, symmetry
from rewrites.session.session import reschedule
from rewrites.tactics.simplification import find_lets, reduce_accesses
from rewrites.tactics.storage.staging import stage_at


@dataclass(frozen=True, eq=False)
class Kept:
    """The lets of a program that its forward pass returns, and its backward pass takes as inputs.

    `outermost` states that the program equals one in which these lets are around everything else. `computed` is the
    gradient of that program, which computes the lets. For each let, `values` has the theorem that the forward pass and
    the gradient compute the same tensor, or None if the gradient does not read it.
    """

    names: tuple[str, ...]
    outermost: Theorem
    results: tuple[Result, ...]
    computed: Program
    values: tuple[Theorem | None, ...]

    def __post_init__(self) -> None:
        """Check that the theorems are about the kept lets."""
        for name, theorem in zip(self.names, self.values, strict=True):
            forward = _value(self.outermost.rhs, name)
            if theorem is not None and theorem.lhs != forward:
                raise NotATheorem(
                    f"the forward pass does not compute {name} as its theorem does",
                    required=f"the program of the value of {name}, with its inputs and assumptions, on the left side",
                )

    @property
    def forward(self) -> Program:
        """The program with the kept lets as further results."""
        return with_results(self.outermost.rhs, self.results, self.names)[0]

    @cached_property
    def program(self) -> Program:
        """The gradient program that takes the kept lets as inputs, before the cotangent."""
        bound, body = _opened(self.computed.body)
        made = self.computed
        taken = [_computed(bound, made, name, theorem) for name, theorem in zip(self.names, self.values, strict=True)]
        *inputs, cotangent = made.inputs
        for name, let in zip(self.names, taken, strict=True):
            like = _value(self.outermost.rhs, name).body.type
            declared = replace(made, inputs=(*inputs, cotangent))
            inputs.append(Array(fresh_name(declared, name), like.shape, like.dtype or made.dtype))
            if let is not None:
                lets = [each for each in bound if each.variable is not let.variable]
                bound = [replace(each, value=let.replaced(each.value, inputs[-1])) for each in lets]
                body = let.replaced(body, inputs[-1])
        return make_program(made.name, (*inputs, cotangent), _closed(bound, body), made.assumptions, made.results)


def _computed(bound: Sequence[_Bound], made: Program, name: str, theorem: Theorem | None) -> _Bound | None:
    """Return the let of a gradient `made` whose value is the right side of a theorem."""
    if theorem is None:
        return None
    if not set(theorem.rhs.assumptions) <= set(made.assumptions):
        raise NotATheorem(
            f"the theorem about {name} has other assumptions than {made.name}",
            required="only assumptions of the gradient",
        )
    for position, each in enumerate(bound):
        if each.name == name and _at(bound, position) == theorem.rhs.body:
            return each
    raise NotATheorem(f"the gradient does not compute {name}", required="the value of a let around it")


def kept_names(keep: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names in `keep=` as a tuple. Raises `InvalidArgument`."""
    names = (keep,) if isinstance(keep, str) else keep
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise InvalidArgument(f"keep={brief(keep)}", required="the name of a let, or a list of names of lets")
    return tuple(dict.fromkeys(names))


def outermost(program: Program, names: Sequence[str]) -> Theorem:
    """Return a theorem that moves lets out of all loops, with the lets that they read.

    Raises `InvalidArgument` for unknown names and for names of several lets, and `DoesNotApply` if a let cannot be
    moved.
    """
    known = [each.name for each in subterms(program.body) if isinstance(each, terms.Let)]
    for name in names:
        if name not in known:
            raise InvalidArgument(
                f"no let of {program.name} is named {brief(name)}",
                required=f"a name among {', '.join(dict.fromkeys(known))}" if known else "a program with lets",
                suggestions=did_you_mean(name, known),
            )
        if known.count(name) > 1:
            raise InvalidArgument(
                f"{known.count(name)} lets of {program.name} are named {brief(name)}",
                required="the name of one let in keep=",
                suggestions=(f"give each of these lets another name, and keep one of them: {name}1",),
            )
    work = reschedule(program.whole).begin()
    for name in names:
        while (inner := _next(work, find_lets(work, name)[0].path)) is not None:
            place, path = inner
            let = work.term(path)
            assert isinstance(let, terms.Let)
            stage_at(work, (*path, 0), place, let.name)
            work.mark(place, let.mark)
            work.rewrite("unfold_let", (*place, 1, *path[len(place) :]))
    return work.theorem


def _next(work: Derivation, path: Path) -> tuple[Path, Path] | None:
    """Return the place outside of all loops, and the let to move there so that the let at a path can follow."""
    place: Path = ()
    while place != path and isinstance(work.term(place), terms.Let) and path[len(place)] == 1:
        place = (*place, 1)
    if place == path:
        return None
    while True:
        _, read = free_positions(work.term((*path, 0)))
        around = [at for at in _tensors_around(path, work) if len(at) >= len(place)]
        needed = [at for position, at in enumerate(around) if position in read]
        if not needed or not isinstance(work.term(needed[-1]), terms.Let):
            return place, path
        path = needed[-1]


def _tensors_around(path: Path, work: Derivation) -> list[Path]:
    """Return the places that bind the tensors in scope at a path, the innermost first."""
    found: list[Path] = []
    for length in range(len(path)):
        child = children(work.term(path[:length]))[path[length]]
        found += [path[:length]] * child.tensors
    return found[::-1]


def kept(theorem: Theorem, several: tuple[Result, ...], computed: Program, names: Sequence[str]) -> Kept:
    """Return the kept lets of a program for its gradient.

    Raises `DoesNotApply` if no let of the gradient is proved to be equal. Raises `InvalidArgument` if a let has another
    element type than the results, so that the forward pass cannot return it.
    """
    with_results(theorem.rhs, several, names)
    values: list[Theorem | None] = []
    for name in names:
        forward = _value(theorem.rhs, name)
        found = _values_of(computed, name)
        equal = [proof for body in found if (proof := _equal(forward, replace(forward, body=body))) is not None]
        if found and not equal:
            raise DoesNotApply(
                f"the gradient of {theorem.lhs.name} computes another {name} than the program",
                required="a let whose value the gradient reads",
                suggestions=(f"leave {name} out of keep=",),
            )
        values.append(equal[0] if equal else None)
    return Kept(tuple(names), theorem, several, computed, tuple(values))


def _equal(one: Program, other: Program) -> Theorem | None:
    """Prove that two programs are equal up to lets, and to accesses of computed tensors."""
    works = reschedule(one).begin(), reschedule(other).begin()
    if not unify(*works, ()):
        for work in works:
            reduce_accesses(work)
            work.sweep(["gen_eta"])
        if not unify(*works, ()):
            return None
    works[0].follow(symmetry(works[1].theorem))
    return works[0].theorem


def with_results(
    program: Program, several: tuple[Result, ...], names: Sequence[str]
) -> tuple[Program, tuple[int, ...]]:
    """Return the program with outermost lets as further results, and the positions of these lets among the results.

    A let that is the only result of the program is not returned twice.
    """
    bound, body = _opened(program.body)
    lets = {each.name: each.variable for each in reversed(bound)}
    taken = [result.name for result in several] or ["out"]
    further: dict[str, Tensor] = {}
    positions: list[int] = []
    for name in names:
        if lets[name] is body and not several:
            positions.append(0)
            continue
        unique = fresh_name(program, name)
        while unique in taken:
            unique += "_"
        positions.append(len(taken))
        taken.append(unique)
        further[unique] = Tensor(lets[name])
    if not further:
        return replace(program, results=several), tuple(positions)
    joined = results(out=Tensor(body), **further)
    each = (*(several or joined.each[:1]), *joined.each[1:])
    made = make_program(program.name, program.inputs, _closed(bound, joined.tensor.node), program.assumptions, each)
    return made, tuple(positions)


# -- lets around a term -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Bound:
    """A let with a variable for its tensor. Its value contains the variables of the lets around it."""

    variable: terms.TensorVar
    value: Expr
    name: str
    mark: LetMark

    def replaced(self, e: Expr, array: Array) -> Expr:
        """Return a term that reads an input instead of the tensor."""
        return instantiate_tensor(close_tensor(e, self.variable), terms.Input(array))


def _opened(body: Expr) -> tuple[list[_Bound], Expr]:
    """Return the lets around a term, and the term."""
    bound: list[_Bound] = []
    while isinstance(body, terms.Let):
        variable = terms.TensorVar(next(fresh_uid), body.name, body.value.type)
        bound.append(_Bound(variable, body.value, body.name, body.mark))
        body = instantiate_tensor(body.body, variable)
    return bound, body


def _closed(bound: Sequence[_Bound], body: Expr) -> Expr:
    """Return a term with the lets that it reads."""
    for each in reversed(bound):
        closed = close_tensor(body, each.variable)
        if 0 in free_positions(closed)[1]:
            body = terms.Let(each.value, closed, each.name, each.mark)
    return body


def _at(bound: Sequence[_Bound], position: int) -> Expr:
    """Return the value of a let, with the lets that it reads."""
    return _closed(bound[:position], bound[position].value)


def _values_of(program: Program, name: str) -> list[Expr]:
    """Return the values of the outermost lets of a name."""
    bound, _ = _opened(program.body)
    return [_at(bound, position) for position, each in enumerate(bound) if each.name == name]


def _value(program: Program, name: str) -> Program:
    """Return the program that computes the only outermost let of a name. Raises `NotATheorem`."""
    values = _values_of(program, name)
    if len(values) != 1:
        raise NotATheorem(
            f"{len(values)} outermost lets of {program.name} are named {name}", required="one let of this name"
        )
    return replace(program, body=values[0])
