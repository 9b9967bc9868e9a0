"""The equations of the inference `rewrites.kernel.induction` on the rows of a recurrence.

`ROWS` is the conclusion, `FIRST` and `NEXT` are what must be proved for it: the first rows of the recurrence are those
of the generation, and its body makes the next row of the generation from the rows before. All have the form of rules,
so that they are instantiated like rules, but they are not rules of the catalogue: `ROWS` alone is false.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from atl import gen, rec
from atl.checks.scope import Scope
from atl.core.dtypes import BOOL, DEFAULT
from atl.core.index import Array, Bound, Leaf, Size, Var, bound, index, map_leaves
from atl.core.index import Index as IndexOf
from atl.core.predicate import substitute
from atl.core.program import Program, bool_array, sizes_in
from atl.core.terms import Expr, Input, Rec, Type, rows_before
from atl.text.index_notation import Names
from rewrites.rule import Body, Equation, Index, Rule, Vector, equation, given, rule
from rewrites.rule_arguments import Argument, Arguments, Function, substituted

SOURCE: Final = "induction on rows"


@rule(family="induction", source=SOURCE)
def rec_induction(hi: Index, x: Vector, e: Body[Index, Vector], f: Body[Index]) -> Equation:
    """A recurrence is a generation if its first rows and its body agree with that."""
    return equation(rec(x, hi, e), gen(hi, f))


@rule(family="induction", source=SOURCE)
def rec_induction_base(x: Vector, f: Body[Index]) -> Equation:
    """The first rows of the recurrence are those of the generation."""
    return equation(x, gen(x.shape[0], f))


@rule(family="induction", source=SOURCE)
def rec_induction_step(p: Index, hi: Index, x: Vector, e: Body[Index, Vector], f: Body[Index]) -> Equation:
    """The body makes the next row of the generation from the rows before."""
    return equation(e(p, gen(p, f)), f(p), given(x.shape[0] <= p, p < hi))


ROWS: Final[Rule] = rec_induction
FIRST: Final[Rule] = rec_induction_base
NEXT: Final[Rule] = rec_induction_step


@dataclass(frozen=True)
class Goal:
    """An equation between two programs, with the same inputs and assumptions, that an induction needs.

    `indices` and `tensors` are the sizes and inputs in place of the indices and tensors that are bound around the
    recurrence, and `row` is the size in place of the index of the row.
    """

    lhs: Program
    rhs: Program
    indices: tuple[IndexOf, ...]
    tensors: tuple[Expr, ...]
    row: IndexOf


def arguments_for(term: Rec, formula: Function) -> dict[str, Argument]:
    """Return the arguments of `ROWS` for a recurrence, and a formula for its rows."""
    rows = rows_before(term.init.type, bound(0), 1)
    return {"hi": term.high, "x": term.init, "e": Function(("index", rows), term.body), "f": formula}


def goals(program: Program, scope: Scope, tensors: Sequence[Type], arguments: Arguments) -> tuple[Goal, Goal]:
    """Return what an induction at a place of a program needs, as equations of whole programs.

    At the place, these `tensors` are bound. They become inputs, the bound indices become sizes, and the facts in scope
    become assumptions. The second goal has one more size, the index of the row. Every index must be non-negative.
    """
    sides = ROWS.instance(arguments)
    used = {*program.sizes, *(array.name for array in program.inputs)}
    used.update(size.name for side in (sides.lhs, sides.rhs) for size in sizes_in((), side, ()))
    names = Names(used)
    # Certificates do not store the names of binders, so the sizes are `o`, `o1`, … for outer loops.
    indices = tuple(index(Size(names.fresh("o"))) for at in scope.indices)
    p = index(Size(names.fresh("p")))
    opened = dict(zip((at.atom for at in scope.indices), indices, strict=True))

    def on_variable(leaf: Leaf) -> IndexOf:
        return opened[leaf] if isinstance(leaf, Var) else index(leaf)

    def on_bound(leaf: Leaf) -> IndexOf:
        return indices[-1 - leaf.position] if isinstance(leaf, Bound) else index(leaf)

    def array(of: Type) -> Array:
        name, shape = names.fresh("t"), tuple(map_leaves(extent, on_bound) for extent in of.shape)
        return bool_array(name, shape) if of.dtype == BOOL else Array(name, shape, of.dtype or DEFAULT)

    arrays = [array(of) for of in tensors]
    bound_tensors: tuple[Expr, ...] = tuple(map(Input, arrays))
    facts = [substitute(fact, on_variable) for fact in scope.facts.predicates]

    def goal(name: str, equation: Rule, given: Arguments) -> Goal:
        made = equation.instance(given)
        premises = (substitute(premise, on_bound) for premise in equation.premises(given))
        assumed = tuple(dict.fromkeys((*facts, *premises)))
        sides = (substituted(side, indices, bound_tensors) for side in (made.lhs, made.rhs))
        lhs, rhs = (Program(f"{program.name}_{name}", (*program.inputs, *arrays), each, assumed) for each in sides)
        return Goal(lhs, rhs, indices, bound_tensors, p)

    return goal("base", FIRST, {name: arguments[name] for name in FIRST.metavariables}), goal(
        "step", NEXT, {**arguments, "p": p}
    )
