"""Session methods that restart from a program with sharded inputs, or with a sharded result."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from atl.checks.scope import Scope, initial_facts
from atl.checks.wellformed import make_program
from atl.core.index import ZERO, Array, index
from atl.core.marks import DEVICES
from atl.core.predicate import TRUE, Predicate, conjunction, conjuncts, within
from atl.core.program import Sharding
from atl.core.terms import Access, Expr, Gen, Guard, Let
from atl.core.traversal import Path
from atl.errors import InvalidArgument, brief
from atl.prove import proves
from atl.surface.reindexing import Reindexing
from layouts.sharding import Shards, sharding_of
from rewrites import kernel
from rewrites.derivation import Derivation
from rewrites.kernel import Theorem
from rewrites.rule import Rule
from rewrites.session.diagnosis import attach_call_site, diagnose
from rewrites.session.display import written
from rewrites.session.storage import Restarts, ViewForm, read_through_layout
from rewrites.tactics import arg
from rewrites.tactics.ranks import split_at_owners
from rewrites.tactics.reindexing.formulas import closed_predicate, over_bound, place_variables, reindexing_at
from rewrites.tactics.sparse.operands import Given
from rewrites.tactics.storage.staging import stage_at

S = TypeVar("S", bound=Restarts)


@dataclass(frozen=True, slots=True)
class ShardedForm:
    """The form of an input of which each rank holds a part: one array, whose leading dimensions are device axes."""

    layout: object
    assumptions: tuple[Predicate, ...]

    def operand(self, array: Array, taken: Collection[str]) -> Given:
        """Return the array in the layout, its sharding, and the tensor that it represents."""
        made, axes = sharding_of(self.layout, *array.shape)
        given = ViewForm(made, self.assumptions).operand(array, taken)
        return replace(given, sharding=Sharding(given.inputs[0].name, axes))


def shard(self: S, name: str, layout: Shards | arg.Layout) -> S:
    """Pass an input in parts, one for each rank: … A[i, j] … → … A_laid[i // nb, i % nb, j] …

    The dimension of the parts is marked: A_laid[P | device.x, nb, m]. The layout is `atl.shards(x=(0, P, nb))`: axis x,
    dimension 0, P shards of nb elements; or an Axe layout with axes x, y and z. Shards need not be full, given
    n <= P*nb. Like `view`, this restarts from the program whose input is the array of all parts, and replays the calls.

    >>> P, nb, m = atl.sizes("P nb m", min=1)
    >>> A = atl.tensor("A", P * nb, m)
    >>> s = reschedule(atl.program("twice", [A], 2 * A))
    >>> s.shard("A", atl.shards(x=(0, P, nb)))
    twice (A_laid : float32[P | device.x, nb, m]) : float32[P*nb, m]
        given 1 <= P, 1 <= nb, 1 <= m :=
      ⊞[i < P*nb] ⊞[j < m] 2 * A_laid[i // nb, i % nb, j]
    """
    form = ShardedForm(layout, self.goal.assumptions)
    made: S = self._restart_with(f"shard({name!r}, {written(layout)})", name, form, _read_in_parts)
    return made


def _read_in_parts(work: Derivation) -> None:
    read_through_layout(work)
    split_at_owners(work)


def shard_result(self: S, layout: Shards | arg.Layout, names: Sequence[str] | None = None) -> S:
    """Return the result in parts, one for each rank: ⊞[i < n] e(i) → ⊞[d < P | device.x] ⊞[ii < nb] e(d*nb + ii).

    The layout is that of `shard`. The start becomes the program whose result is the tensor of all parts, and the calls
    are replayed. Lets around the result stay outside of the new loops. `names` are names for the loops.

    >>> P, nb = atl.sizes("P nb", min=1)
    >>> x = atl.tensor("x", P * nb)
    >>> s = reschedule(atl.program("twice", [x], atl.gen(P * nb, lambda i: 2 * x[i])))
    >>> s.shard_result(atl.shards(x=(0, P, nb)), ["d", "ii"])
    twice (x : float32[P*nb]) : float32[P, nb]
        given 1 <= P, 1 <= nb :=
      ⊞[d < P | device.x] ⊞[ii < nb] 2 * x[d*nb + ii]
    """
    with attach_call_site():
        goal = self.goal
        if goal.results or goal.assembly is not None or not goal.type.rank:
            raise InvalidArgument(
                f"{goal.name} has {'no dimensions' if not goal.type.rank else 'several results, or a sparse one'}",
                required="one dense result with at least one dimension",
            )
        made, axes = sharding_of(layout, *goal.shape)
        work = _with_result(self.theorem, made, self._rules, names)
        read_through_layout(work)
        _hoist_lets(work, len(axes))
        for path, axis in zip(_loops(work), axes, strict=False):
            if axis in DEVICES:
                work.mark(path, axis)
    text = f"shard_result({written(layout)}{'' if names is None else f', {list(names)!r}'})"
    restarted: S = self._restart(text, work)
    return restarted


def _with_result(
    theorem: Theorem, made: Reindexing, rules: Mapping[str, Rule], names: Sequence[str] | None
) -> Derivation:
    """Restate a theorem for the program whose result is stored in the layout; its steps are replayed.

    f = g becomes  ⊞[p < P] [hit(p)] · f[inverse(p)]  =  ⊞[p < P] [hit(p)] · g[inverse(p)].
    """
    start = theorem.lhs
    facts = initial_facts(start.assumptions, start.inputs)
    made = reindexing_at(made, start.shape, facts)
    called = tuple(names) if names is not None else made.names[1]
    if len(called) != len(made.places) or not all(isinstance(each, str) and each.isidentifier() for each in called):
        raise InvalidArgument(
            f"names={brief(names)}", required=f"{len(made.places)} names, one for each dimension of the parts"
        )
    variables = place_variables(called)
    at = [index(variable) for variable in variables]
    inside = facts.assume(*(within(ZERO, place, extent) for place, extent in zip(at, made.places, strict=True)))
    hit = conjunction([part for part in conjuncts(made.hit(at)) if not proves(inside, part)])
    origin = over_bound(made.origin(at), variables)
    guarded = closed_predicate(hit, Scope(facts), variables)

    def around(body: Expr) -> Expr:
        for came in origin:
            body = Access(body, came)
        if hit != TRUE:
            body = Guard(guarded, body)
        for extent, variable in zip(reversed(made.places), reversed(variables), strict=True):
            body = Gen(ZERO, extent, body, variable.name)
        return body

    prefix = (0,) * (len(variables) + (hit != TRUE) + len(origin))
    program = make_program(start.name, start.inputs, around(start.body), start.assumptions)
    program = replace(program, packed=start.packed, sharded=start.sharded)
    out = kernel.reflexivity(program, strict=theorem.strict)
    for step in theorem.steps:
        out = kernel.replay(out, replace(step, path=(*prefix, *step.path)))
    return Derivation(kernel.with_names_and_marks(out, around(theorem.rhs.body)), rules, diagnose)


def _hoist_lets(work: Derivation, loops: int) -> None:
    """Move the lets around the result out of the loops over its parts, outermost first."""
    outside: Path = ()
    while True:
        path = outside
        while isinstance(work.term(path), Gen | Guard) and len(path) - len(outside) <= loops:
            path = (*path, 0)
        let = work.term(path)
        if not isinstance(let, Let) or path == outside:
            return
        stage_at(work, (*path, 0), outside, let.name, guarded=False)
        work.mark(outside, let.mark)
        work.rewrite("unfold_let", (*outside, 1, *path[len(outside) :]))
        outside = (*outside, 1)


def _loops(work: Derivation) -> list[Path]:
    """Return the paths of the loops that fill the result, outermost first."""
    path: Path = ()
    while isinstance(work.term(path), Let):
        path = (*path, 1)
    found: list[Path] = []
    while isinstance(work.term(path), Gen):
        found.append(path)
        path = (*path, 0)
    return found
