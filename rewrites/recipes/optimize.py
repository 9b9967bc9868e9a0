"""Optimization of a goal by recipes, for a machine: by its model, or by measuring the choices of the recipes."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import inf
from time import monotonic
from typing import Any, Final

from atl.core.dtypes import DEFAULT, TYPES
from atl.errors import ATLError, InvalidArgument, brief
from lowering.targets.machine import Machine, machine
from rewrites.diagnostics import new_diagnostics
from rewrites.errors import DoesNotApply
from rewrites.recipes import contractions, fusion, movement, preparation, recurrences, reductions
from rewrites.recipes.declaration import Context, Recipe
from rewrites.session.tuning.search import OutOfTime, autotune_among
from rewrites.session.tuning.space import candidates
from rewrites.session.tuning.table import best_known
from rewrites.session.tuning.tuned import Tuned

RECIPES: Final[tuple[Recipe, ...]] = (
    preparation.elements,
    preparation.bind_outside,
    preparation.bind_sums,
    recurrences.block_solvers,
    recurrences.pipeline_time,
    recurrences.tile_time,
    preparation.multiply_by_reciprocals,
    fusion.inline_copies,
    preparation.split_phases,
    fusion.jam_rows,
    fusion.stage_windows,
    preparation.unroll_taps,
    fusion.fuse_epilogues,
    fusion.fuse_rows,
    contractions.share_rows,
    contractions.tile_sums,
    contractions.accumulate_columns,
    contractions.accumulate_rows,
    reductions.accumulate_vectors,
    preparation.keep_coefficients,
    movement.transpose_in_tiles,
    movement.guards_to_bounds,
    movement.stream_results,
    movement.share_by_threads,
    movement.compute_in_result,
)
"""The built-in recipes, in the order in which they run."""


OPTIONAL: Final = (
    preparation.bind_sums,
    recurrences.block_solvers,
    recurrences.pipeline_time,
    recurrences.tile_time,
    preparation.multiply_by_reciprocals,
    preparation.unroll_taps,
    fusion.jam_rows,
    fusion.stage_windows,
    fusion.fuse_epilogues,
    fusion.fuse_rows,
    contractions.share_rows,
    preparation.keep_coefficients,
    movement.stream_results,
    movement.share_by_threads,
)
"""Recipes that change what is computed where: measuring decides whether they pay."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one recipe: its parameters and the texts of its calls, or the error that it raised.

    A recipe is not `tried` if the time was up before it.
    """

    recipe: Recipe
    parameters: Mapping[str, Any]
    calls: tuple[str, ...] = ()
    error: ATLError | None = field(default=None, repr=False)
    tried: bool = True

    def __str__(self) -> str:
        numbers = ", ".join(f"{name}={value}" for name, value in self.parameters.items())
        if self.error is not None:
            return f"{self.recipe.name}: {self.error.summary}"
        return f"{self.recipe.name}({numbers}): {', '.join(f's.{call}' for call in self.calls)}"


@dataclass(frozen=True, slots=True)
class Report:
    """The report of `s.optimize()`: the recipes that fitted, with their calls, and why the others did not.

    It prints one recipe per line. `tuned` is the table of measured candidates, if there was a time budget.
    """

    machine: Machine
    outcomes: tuple[Outcome, ...]
    tuned: Tuned[Any] | None = None

    @property
    def applied(self) -> tuple[Outcome, ...]:
        """The recipes that made calls."""
        return tuple(outcome for outcome in self.outcomes if outcome.calls)

    def __str__(self) -> str:
        fitted = [f"  {outcome}" for outcome in self.applied]
        others = [f"  {outcome}" for outcome in self.outcomes if not outcome.calls]
        lines = ["recipes that fit:", *fitted] if fitted else ["no recipe fits: the goal is left as it was written"]
        lines += ["recipes that do not:", *others] if others else []
        return "\n".join([*lines, *([str(self.tuned)] if self.tuned is not None else [])])

    __repr__ = __str__


def optimize(
    s: Any,
    sizes: Mapping[str, int] | None = None,
    seconds: float | None = None,
    machine_model: Machine | None = None,
    recipes: Sequence[Recipe] | None = None,
    *,
    parallel: bool = False,
    remembered: bool = False,
    fast_math: bool = False,
    **options: Any,
) -> tuple[Any, Report]:
    """Return a branch of the session at the optimized goal, and the report. `options` are those of `autotune`.

    With `remembered`, the parameters are those of the fastest schedule that was measured on this machine, with this
    `fast_math`, if any.
    """
    chosen = _checked_recipes(recipes)
    if machine_model is not None and not isinstance(machine_model, Machine):
        raise InvalidArgument(f"machine={brief(machine_model)}", required="an atl.Machine, such as atl.machine()")
    if not isinstance(parallel, bool):
        raise InvalidArgument(f"parallel={brief(parallel)}", required="parallel=True or parallel=False")
    unknown = [name for name in options if name not in ("measure", "folder", "watch")]
    if unknown:
        raise InvalidArgument(
            f"optimize has no parameter {', '.join(unknown)}",
            required="sizes, seconds, machine, parallel, recipes; and with seconds= also measure, folder, watch",
        )
    if seconds is None and options:
        raise InvalidArgument(f"{', '.join(options)} without seconds=", required="a time budget: seconds=30")
    if seconds is not None and sizes is None:
        raise InvalidArgument(
            "seconds= without sizes=",
            required="sizes at which candidates are measured",
            suggestions=(f"s.optimize(sizes={{{', '.join(f'{name!r}: 1000' for name in s.goal.sizes)}}}, seconds=30)",),
        )
    if seconds is not None and (not isinstance(seconds, int | float) or seconds is True or not 0 < seconds < 1e6):
        raise InvalidArgument(f"seconds={brief(seconds)}", required="a positive number of seconds, below 1e6")
    known = _checked_sizes(s, {} if sizes is None else sizes)
    begun, best = monotonic(), None
    model = machine() if machine_model is None else machine_model
    context = Context(model, TYPES[s.goal.body.type.dtype or DEFAULT].computed_as, known, parallel)
    until = inf if seconds is None else begun + seconds
    branch = s.branch()
    outcomes = run_recipes(branch, context, chosen, {}, until)
    if remembered:
        best = best_known(s.goal, sizes, choices=choices(outcomes, context), fast_math=fast_math)
        if best is not None:
            branch = s.branch()
            outcomes = run_recipes(branch, context, chosen, best, until)
    if seconds is None:
        return branch, Report(model, tuple(outcomes))

    given = choices(outcomes, context)
    derived = {name: values[0] for name, values in given.items()} if best is None else None

    limit = inf  # the first candidate, perhaps the best of the table, is derived whatever the budget

    def schedule(**parameters: Any) -> Any:
        nonlocal limit
        candidate, ends, limit = s.branch(), limit, until
        if parameters == derived:
            candidate.continue_as(branch)
            candidate.report = Report(model, tuple(outcomes))
        else:
            made = run_recipes(candidate, context, chosen, parameters, ends)
            if not all(outcome.tried for outcome in made):
                raise OutOfTime
            candidate.report = Report(model, tuple(made))
        return candidate

    left = max(0.0, seconds - (monotonic() - begun))
    tuned = autotune_among(worth_trying(given), schedule, given, known, left, start=s.theorem, **options)
    if tuned.session is not None:
        return tuned.session, replace(tuned.session.report, tuned=tuned)
    if tuned.start_ms is not None or any(one.outcome == "wrong" for one in tuned.tried):
        return s.branch(), Report(model, (), tuned)  # nothing was faster than the goal as it is
    return branch, Report(model, tuple(outcomes), tuned)


def _checked_recipes(recipes: Sequence[Recipe] | None) -> Sequence[Recipe]:
    if recipes is None:
        return RECIPES
    if not isinstance(recipes, list | tuple) or not all(isinstance(each, Recipe) for each in recipes):
        raise InvalidArgument(
            f"recipes={brief(recipes)}",
            required="a list of recipes, which @atl.recipe() declares",
            suggestions=("recipes=[mine, *atl.RECIPES] tries yours before the built-in ones",),
        )
    return recipes


def _checked_sizes(s: Any, sizes: Mapping[str, int]) -> dict[str, int]:
    if not isinstance(sizes, Mapping) or not all(type(value) is int and value >= 0 for value in sizes.values()):
        raise InvalidArgument(f"sizes={brief(sizes)}", required='a dictionary from names to numbers: sizes={"n": 1000}')
    unknown = [name for name in sizes if name not in s.goal.sizes]
    if unknown:
        raise InvalidArgument(
            f"{s.goal.name} has no size {', '.join(map(str, unknown))}",
            required=f"values for the sizes {', '.join(s.goal.sizes) or '(none)'}",
        )
    return dict(sizes)


@contextmanager
def _garbage_kept() -> Iterator[None]:
    """Collect no cyclic garbage. Terms are many and never in cycles, and looking for it takes a fifth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@_garbage_kept()
def run_recipes(
    s: Any, context: Context, recipes: Sequence[Recipe], given: Mapping[str, Any], until: float = inf
) -> list[Outcome]:
    """Run each recipe on the session. A recipe that fails is left out.

    So is one whose goal would not compile, or would lose a size that callers pass.

    `given` are parameters by their names in `choices`; the others get the values that the model prefers. A recipe whose
    own name has the value False does not run. No recipe begins after `until`; those left are not tried.
    """
    branch = s.branch()
    outcomes = _run_recipes(branch, context, recipes, given, until)
    changed = any(outcome.calls for outcome in outcomes)
    left = branch.check().diagnostics if changed else ()
    problems = s.check().diagnostics if left else ()
    if not new_diagnostics(problems, left):
        s.continue_as(branch)
        return outcomes
    # Lowering takes long, so the goals between recipes are checked only to find the recipe that causes a problem.

    def check(after: Any) -> None:
        if found := new_diagnostics(problems, after.check().diagnostics):
            raise found[0]

    return _run_recipes(s, context, recipes, given, until, check)


def _run_recipes(
    s: Any,
    context: Context,
    recipes: Sequence[Recipe],
    given: Mapping[str, Any],
    until: float,
    check: Callable[[Any], None] = lambda branch: None,
) -> list[Outcome]:
    """Run each recipe on the session; `check` raises an error for a session that a recipe must not return."""
    outcomes: list[Outcome] = []
    for each in recipes:
        if not given.get(each.name, True):
            continue
        passed = {
            name: given.get(f"{each.name}_{name}", each.values(name, context)[0]) for name in each.choices
        }  # fmt: skip
        if monotonic() > until:
            late = DoesNotApply("not tried, because the time was up", required="a longer time: seconds=…")
            outcomes.append(Outcome(each, passed, error=late, tried=False))
            continue
        branch = s.branch()
        before = len(s.steps)
        try:
            each(branch, context, **passed)
            check(branch)
            if lost := [name for name in s.goal.sizes if name not in branch.goal.sizes]:
                raise DoesNotApply(f"the goal would lose the argument {lost[0]}", required="the same arguments")
        except ATLError as error:
            outcomes.append(Outcome(each, passed, error=error))
        else:
            s.continue_as(branch)
            outcomes.append(Outcome(each, passed, tuple(call.text for call in s.steps[before:])))
    return outcomes


def choices(outcomes: Sequence[Outcome], context: Context) -> dict[str, list[Any]]:
    """Return the choices of the recipes that fitted, as "recipe_parameter", and whether optional ones run at all."""
    fitted = [outcome.recipe for outcome in outcomes if outcome.calls]
    numbers = {
        f"{each.name}_{name}": list(dict.fromkeys(each.values(name, context)))
        for each in fitted
        for name in each.choices
    }
    return numbers | {each.name: [True, False] for each in fitted if each in OPTIONAL}


def worth_trying(given: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return the candidates of these choices that differ in what they do.

    Parameters of a recipe that does not run have their preferred values. Tiles of recipes that run have the same
    shape: the model makes all of them fit in the same registers.
    """
    tiles: dict[str, list[str]] = {}  # by their choices, the parameters that are tiles
    for name, values in given.items():
        if isinstance(values[0], tuple):
            tiles.setdefault(repr(list(values)), []).append(name)

    def differs(each: Mapping[str, Any]) -> bool:
        off = [name for name, value in each.items() if value is False]
        unused = {name for name in given if any(name.startswith(f"{recipe}_") for recipe in off)}
        shapes = [{repr(each[name]) for name in alike if name not in unused} for alike in tiles.values()]
        return all(each[name] == given[name][0] for name in unused) and all(len(shape) <= 1 for shape in shapes)

    return [each for each in candidates(given) if differs(each)]
