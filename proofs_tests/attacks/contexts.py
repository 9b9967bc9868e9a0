"""Programs around an instance of a rule, in which the obligations of the instance are usually known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from atl.checks.scope import Scope, parts_in_scope
from atl.checks.wellformed import obligations
from atl.core.index import ZERO, Array, Index, Read, Var, atoms, bound, index, map_leaves, shift
from atl.core.predicate import Predicate, conjunction, conjuncts, expressions, map_indices
from atl.core.program import Program
from atl.core.terms import Access, Binary, Concat, Expr, Gen, Guard, Input, Let, Local, Reduce, Select, Type, Unary
from atl.core.traversal import Path, arrays_in, indices_in, subterms
from atl.errors import ATLError
from atl.prove import Facts
from atl.prove.facts import declared
from proofs_tests.attacks.arguments import OddArguments
from proofs_tests.attacks.declarations import Declarations, declared_condition
from proofs_tests.programs.choices import Choices, chance, choose
from rewrites.rule import Equation, Rule
from rewrites.rule_arguments import Argument

FRAMES: Final = ("gen", "sum", "guard", "let", "value", "left", "right", "select", "access", "neg", "max", "concat")
Around: TypeAlias = Callable[[Expr], Expr]


@dataclass(slots=True)
class Context:
    """Functions that wrap a term in the surrounding terms, the outermost first, and the path to the term."""

    around: list[Around] = field(default_factory=list)
    path: list[int] = field(default_factory=list)
    indices: int = 0
    tensors: tuple[Type, ...] = ()

    def within(self, e: Expr) -> Expr:
        for put in reversed(self.around):
            e = put(e)
        return e

    def add(self, put: Around, position: int) -> None:
        self.around.append(put)
        self.path.append(position)


@dataclass(frozen=True, slots=True)
class Attack:
    """Program that contains one side of a rule at a path, with the arguments of the instance."""

    program: Program
    rule: Rule
    reverse: bool
    path: Path
    arguments: dict[str, Argument]
    declarations: Declarations
    place: Context = field(default_factory=Context)


def random_context(rule: Rule, choices: Choices, declarations: Declarations) -> Context:
    """Return a context of up to three terms."""
    place = Context()
    for _ in range(choose(choices, (0, 0, 1, 1, 2, 3))):
        _add(place, OddArguments(rule, choices, declarations, place.indices, place.tensors))
    return place


def _add(place: Context, drawn: OddArguments) -> None:
    choices = drawn.choices
    match choose(choices, FRAMES):
        case "gen":
            low, high = _range(drawn)
            place.add(lambda e: Gen(low, high, e), 0)
            _bind_index(place)
        case "sum" | "max" as word:
            low, high = _range(drawn)
            place.add(lambda e: Reduce("sum" if word == "sum" else "max", low, high, e), 0)
            _bind_index(place)
        case "guard":
            known = drawn.predicate()
            place.add(lambda e: Guard(known, e), 0)
        case "select":
            known, chosen = drawn.predicate(), chance(choices, 50)
            place.add(
                lambda e: Select(known, e, e) if chosen else Select(known, Unary("neg", e), e), 0 if chosen else 1
            )
        case "let":
            value = drawn.shaped([drawn.indices[0]] * choices.integer(0, 1), (), 1).node
            place.add(lambda e: Let(value, e), 1)
            place.tensors = (*place.tensors, value.type)
        case "value":
            place.add(lambda e: Let(e, Local(0, e.type)), 0)
        case "left" | "right" as side:
            place.add(lambda e: Binary("add", e, e), int(side == "right"))
        case "access":
            at = drawn.index_argument()
            place.add(lambda e: Access(e, at) if e.type.rank else e, 0)
        case "neg":
            place.add(lambda e: Unary("neg", e), 0)
        case _:
            place.add(lambda e: Concat(e, e) if e.type.rank else Unary("neg", e), 0)


def _range(drawn: OddArguments) -> tuple[Index, Index]:
    low = drawn.expression(0) if chance(drawn.choices, 30) else ZERO
    return low, drawn.expression(choose(drawn.choices, (0, 0, 1)))


def _bind_index(place: Context) -> None:
    place.indices += 1
    place.tensors = tuple(Type(of.dtype, tuple(shift(extent, 1) for extent in of.shape)) for of in place.tensors)


def attack(rule: Rule, reverse: bool, choices: Choices, *, otherwise: bool = False) -> Attack | None:
    """Return a program with an instance of a side of the rule, whose obligations are usually known.

    With `otherwise`, the same choices make a program whose inputs have other declarations.
    """
    declarations = Declarations.drawn(choices)
    if otherwise:
        declarations = declarations.otherwise()
    place = random_context(rule, choices, declarations)
    drawn = OddArguments(rule, choices, declarations, place.indices, place.tensors)
    arguments = {name: drawn.argument(name, kind) for name, kind in rule.metavariables.items()}
    try:
        stated = rule.instance(arguments)
        assumed = _known_around(place, stated, choices)
        body = place.within(stated.rhs if reverse else stated.lhs)
        path = tuple(place.path)
        used = _used((body, place.within(stated.lhs if reverse else stated.rhs)), (*assumed, *stated.premises))
        program = Program("p", tuple(array for array in declarations.inputs.values() if array in used), body, assumed)
    except ATLError:
        return None
    return Attack(program, rule, reverse, path, arguments, declarations, place)


def guarded(rule: Rule, choices: Choices, *, otherwise: bool = False) -> Attack | None:
    """Return a guard on a declared element around a scalar: `guard_true` needs the declaration."""
    declarations = Declarations.drawn(choices)
    if otherwise:
        declarations = declarations.otherwise()
    try:
        condition = declared_condition(choices, declarations)
    except ATLError:
        return None
    e = Input(declarations.inputs["s"])
    used = _used((Guard(condition, e),), ())
    program = Program("p", tuple(array for array in declarations.inputs.values() if array in used), Guard(condition, e))
    return Attack(program, rule, False, (), {"p": condition, "e": e}, declarations)


def _used(terms: Iterable[Expr], conditions: Iterable[Predicate]) -> set[Array]:
    """Return the arrays that are read, and those that their declarations read."""
    found = [expression for condition in conditions for expression in expressions(condition)]
    used: set[Array] = set()
    for term in terms:
        for part in subterms(term):
            used.update(arrays_in(part))
            found += indices_in(part)
    for array in tuple(used):
        found += declared(array)
    used.update(atom.array for expression in found for atom in atoms(expression) if isinstance(atom, Read))
    return used


def _known_around(place: Context, stated: Equation, choices: Choices) -> tuple[Predicate, ...]:
    """Make the obligations known, as assumptions or as a guard. Sometimes leave one out."""
    needed = list(dict.fromkeys(_needs(place, stated)))
    if chance(choices, 12):
        return ()
    if needed and chance(choices, 25):
        needed.pop(choices.integer(0, len(needed) - 1))
    assumed = [part for part in needed if not part.loose]
    here = [part for part in needed if part.loose]
    if here:
        place.add(lambda e: Guard(conjunction(here), e), 0)
    return tuple(assumed)


def _needs(place: Context, stated: Equation) -> Iterator[Predicate]:
    count = place.indices
    scope = Scope(Facts(), tuple(index(Var(depth, "i")) for depth in range(count)))
    for premise in stated.premises:
        yield from conjuncts(premise)
    for side in (stated.lhs, stated.rhs):
        for _, part, here in parts_in_scope(side, scope):
            for obligation in obligations(part, here):
                if all(uid < count for uid in obligation.goal.free):
                    yield from conjuncts(_seen_from_place(obligation.goal, count))


def _seen_from_place(goal: Predicate, count: int) -> Predicate:
    def leaf(at: object) -> Index:
        return bound(count - 1 - at.uid) if isinstance(at, Var) else index(at)  # type: ignore[arg-type]

    return map_indices(goal, lambda expression: map_leaves(expression, leaf))
