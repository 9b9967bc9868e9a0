"""Certificates as theorems of Rocq: both programs are equal for all sizes and arrays that satisfy the assumptions.

Each step is a lemma. Its proof goes down the path by congruence, with the facts of binders and guards, and then applies
the rule. Rocq proves the premises, the well-formedness conditions, and that the program is the stated instance. Apart
from the programs, everything printed here is a hint: a wrong hint makes a proof fail, and none is trusted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, assert_never

from atl.checks.scope import outermost
from atl.core import terms
from atl.core.index import Array, Index, shift
from atl.core.predicate import is_predicate
from atl.core.program import AtLeast, Below, Lexicographic, Monotonic, Program, facts_of
from atl.core.traversal import children
from atl.errors import InvalidArgument
from rewrites.kernel import Step, Theorem, reflexivity, replay
from rewrites.rocq.notation import (
    NO_NAMES,
    NamesInScope,
    Notation,
    check_distinct,
    holds_integers,
    positions,
    type_of_input,
    word,
)
from rewrites.rocq.statements import at_least_rank, lemma
from rewrites.rule_arguments import Argument, Function, is_term

SECONDS_EACH: Final = 120
"""Time limit for the proof of one step, in seconds."""


@dataclass(frozen=True, slots=True)
class Derivation:
    """The programs of a derivation and the steps between them."""

    programs: tuple[Program, ...]
    steps: tuple[Step, ...]


def derivation(theorem: Theorem) -> Derivation:
    """Replay a theorem and collect the program after each step. Raises `InvalidArgument` for a step by induction."""
    inductions = [number for number, step in enumerate(theorem.steps, 1) if step.lemmas]
    if inductions:
        raise InvalidArgument(
            f"step {inductions[0]} of the theorem is an induction on rows, which is not exported to Rocq",
            required="steps by rules only",
        )
    at = reflexivity(theorem.lhs)
    programs = [at.rhs]
    for step in theorem.steps:
        at = replay(at, step)
        programs.append(at.rhs)
    return Derivation(tuple(programs), theorem.steps)


def text_of(
    derived: Derivation,
    seconds: int = SECONDS_EACH,
    *,
    library: str = "Congruence",
    more: Iterable[str] = (),
    theorems: tuple[str, ...] = (),
) -> str:
    """Return the file: the rules used, the programs, a lemma for each step, and the theorem `certified`.

    The proof of a step is given up after `seconds`. `more` lines may follow, which use `library` and prove `theorems`.
    """
    rules = {step.rule.name: step.rule for step in derived.steps}
    first, last = derived.programs[0], derived.programs[-1]
    shape = _Shape.of(first)

    lines = [
        f"Require Import {library}.",
        "Module Certificate (S : SCALARS).",
        f"Module Import L := {library}.Make S.",
        "",
        *map(lemma, rules.values()),
        "Section Programs.",
        *context(derived.programs),
        "",
        *(
            f"Definition program_{k} : tensor :=\n  {Notation().term(p.body)}.\n"
            for k, p in enumerate(derived.programs)
        ),
    ]
    for k, step in enumerate(derived.steps):
        direction = ", in reverse" if step.reverse else ""
        lines += [
            f"(* {step.rule.name}{direction}, at {list(step.path)} *)",
            f"Lemma step_{k} : {shape.equal(f'program_{k}', f'program_{k + 1}')}.",
            f"Proof. timeout {seconds} (",
            f"  intros; unfold program_{k}, program_{k + 1};",
            *_Proof(places=[*shape.at]).of(derived.programs[k].body, derived.programs[k + 1].body, step),
            "). Qed.\n",
        ]
    notation = Notation()
    pairs = zip(first.type.shape, last.type.shape, strict=True)
    shapes = [f"{notation.index(a)} = {notation.index(b)}" for a, b in pairs if a != b]
    goal = shape.equal("program_0", f"program_{len(derived.steps)}")
    conclusion = " /\\ ".join([*shapes, goal])
    lines += [
        f"Theorem certified : {conclusion}.",
        f"Proof. {'split_shapes; ' if shapes else ''}intros.",
        *(f"  rewrite step_{k} by assumption." for k in range(len(derived.steps))),
        "  reflexivity.",
        "Qed.",
        *more,
        "End Programs.",
        # No theorem need depend on another one.
        *(f"Print Assumptions {name}." for name in ("certified", *theorems)),
        "End Certificate.",
    ]
    return "\n".join(lines) + "\n"


def context(programs: Iterable[Program]) -> Iterator[str]:
    """Yield the context: sizes and inputs, non-negative sizes, assumptions, and declared facts of integer arrays."""
    listed = tuple(programs)
    sizes = dict.fromkeys(name for program in listed for name in program.sizes)
    inputs = {array.name: array for program in listed for array in program.inputs}
    check_distinct([*map(word, sizes), *map(word, inputs)])
    notation = Notation()
    for name in sizes:
        yield f"Variable {word(name)} : Z."
    for array in inputs.values():
        yield f"Variable {word(array.name)} : {type_of_input(array)}."
    for name in sizes:
        yield f"Hypothesis {word(name)}natural : 0 <= {word(name)}."
    for number, fact in enumerate(outermost(listed[-1]).facts.predicates):
        yield f"Hypothesis given''{number} : {notation.predicate(fact)} = true."
    for array in inputs.values():
        if holds_integers(array):
            yield from _declared(array, notation)


def _declared(array: Array, notation: Notation) -> Iterator[str]:
    """Yield the declared facts of an array of integers as hypotheses."""
    at = [f"p''{d}" for d in range(len(array.shape))]
    within = "".join(f"0 <= {p} < {notation.index(e)} -> " for p, e in zip(at, array.shape, strict=True))
    binders = f"forall {' '.join(at)} : Z, " if at else ""
    for number, fact in enumerate(facts_of(array)):
        element = f"{word(array.name)} {positions(at)}"
        match fact:
            case AtLeast(bound):
                claim = f"{notation.index(bound)} <= {element}"
            case Below(bound):
                claim = f"{element} < {notation.index(bound)}"
            case Monotonic():
                claim = _rising(array, fact, at, notation)
            case Lexicographic():
                claim = _lexicographic(array, fact, at, notation)
            case _:
                assert_never(fact)
        yield f"Hypothesis {word(array.name)}fact{number} : {binders}{within}{claim}."


def _rising(array: Array, fact: Monotonic, at: list[str], notation: Notation) -> str:
    """Return the fact that elements increase along the last dimension."""
    last, less = at[-1], "<" if fact.strict else "<="
    element, following = (f"{word(array.name)} {positions([*at[:-1], p])}" for p in (last, f"{last} + 1"))
    if fact.between is None:
        later = positions([*at[:-1], "q''"])
        following = f"{word(array.name)} {later}"
        return f"forall q'' : Z, {last} < q'' < {notation.index(array.shape[-1])} -> {element} {less} {following}"
    first, second = (f"{word(fact.between.name)} {positions([j])}" for j in ("j''", "j'' + 1"))
    rows = notation.index(fact.between.shape[-1])
    inside = f"{last} + 1 < {notation.index(array.shape[-1])} -> 0 <= j'' -> j'' + 1 < {rows} -> "
    return f"forall j'' : Z, {inside}{first} <= {last} -> {last} + 1 < {second} -> {element} {less} {following}"


def _lexicographic(array: Array, fact: Lexicographic, at: list[str], notation: Notation) -> str:
    """Return the fact that elements increase where the elements of the leading arrays are equal."""
    (p,), less = at, "<" if fact.strict else "<="
    here, later = positions([p]), positions(["q''"])
    same = "".join(f"{word(each.name)} {here} = {word(each.name)} {later} -> " for each in fact.leading)
    inside = f"{p} < q'' < {notation.index(array.shape[-1])} -> "
    return f"forall q'' : Z, {inside}{same}{word(array.name)} {here} {less} {word(array.name)} {later}"


def equal_within(program: Program, left: str, right: str) -> str:
    """State that two tensors are equal at all positions within the shape of a program."""
    return _Shape.of(program).equal(left, right)


@dataclass(frozen=True, slots=True)
class _Shape:
    """Positions within a shape."""

    at: tuple[str, ...]
    within: tuple[str, ...]

    @staticmethod
    def of(program: Program) -> _Shape:
        notation = Notation()
        at = tuple(f"p''{d}" for d in range(program.type.rank))
        extents = map(notation.index, program.type.shape)
        return _Shape(at, tuple(f"0 <= {p} < {e}" for p, e in zip(at, extents, strict=True)))

    def equal(self, left: str, right: str) -> str:
        """State that two tensors are equal at all positions within the shape."""
        bound = " ".join([*(f"({p} : Z)" for p in self.at), "(rest : list Z)"])
        place = positions(self.at, "rest")
        return f"forall {bound}, {''.join(f'{each} -> ' for each in self.within)}{left} {place} = {right} {place}"


@dataclass(slots=True)
class _Proof:
    """The proof of a step, written while going down its path from the old part `at` and the new part `new`."""

    notation: Notation = field(default_factory=Notation)
    places: list[str | None] = field(default_factory=list)
    """The current position: variables, or None where the position is not a variable."""
    around: NamesInScope = NO_NAMES
    after: list[str] = field(default_factory=list)

    def of(self, at: terms.Expr, new: terms.Expr, step: Step) -> list[str]:
        lines: list[str] = []
        for position in step.path:
            lines += [f"  {line}" for line in self._down(at, new, position)]
            at, new = children(at)[position].expr, children(new)[position].expr
        words = [self._argument(step.arguments[name]) for name in step.rule.metavariables]
        words += [self._index(extent) for extent in _extents(step)]
        turned = "symmetry; " if step.reverse else ""
        lines.append(
            f"  {turned}let H := fresh in pose proof ({' '.join([step.rule.name, *words])}) as H; by_instance H"
        )
        return lines + [f"  {line}" for line in reversed(self.after)]

    def _index(self, e: Index) -> str:
        return self.notation.index(e, self.around)

    def _bound(self, hint: str) -> str:
        """Bind an index and return its name."""
        name = self.notation.fresh(hint)
        self.around = self.around.index(name)
        return name

    def _down(self, at: terms.Expr, new: terms.Expr, position: int) -> list[str]:
        """Return the tactics that go down to a part."""
        ix = self._index
        match at:
            case terms.Gen(low, high, _, name):
                ends = f"{ix(low)} {ix(high)}"
                return [f"apply (down_gen {ends}); [known | intros {self._bound(name)} ?]; {self._without(1)}"]
            case terms.Reduce(_, _, _, _, name):
                return [f"apply down_reduce; intros {self._bound(name)} ?;"]
            case terms.Guard():
                return ["apply down_guard; intros ?;"]
            case terms.Let(value, _, name):
                return self._into_let(value, new, name, position)
            case terms.Rec():
                return self._into_rec(at, position)
            case terms.Access():
                self.places.insert(0, None)
                return ["apply down_access; [known | intros ?];"]
            case terms.Unary() | terms.Cast():
                return ["apply down_unary;"]
            case terms.Binary():
                return [f"apply down_{('left', 'right')[position]};"]
            case terms.Select():
                return [f"apply down_{('where', 'elsewhere')[position]}; intros ?;"]
            case terms.Where():
                return [f"apply down_{('test', 'chosen', 'other')[position]};"]
            case terms.Concat(left, right):
                x = self.notation.fresh("x")
                if position == 0:
                    return [f"apply down_concat_left; [known | known | intros {x} ?]; {self._without(1, x)}"]
                extents = f"{ix(left.type.shape[0])} {ix(right.type.shape[0])}"
                return [f"apply (down_concat_right {extents}); [known | intros {x} ?]; {self._without(1, x)}"]
            case terms.Reshape(op, operand):
                return [self._through(op, operand.type)]
            case terms.Named() | terms.Number() | terms.Padding():
                raise InvalidArgument(
                    "the path of a step goes below a term without parts", required="a path within the program"
                )
            case _:
                assert_never(at)

    def _through(self, op: terms.ReshapeOp, of: terms.Type) -> str:
        x, y = self.notation.fresh("x"), self.notation.fresh("y")
        first = self._index(of.shape[0]) if of.shape else ""
        match op:
            case terms.Transpose():
                self.places[:2] = self.places[1::-1]
                return "apply down_transpose;"
            case terms.Flatten():
                extents = f"{first} {self._index(of.shape[1])}"
                way = f"apply (down_flatten {extents}); [known | known | intros {x} {y} ? ? | known];"
                return f"{way} {self._without(1, x, y)}"
            case terms.Split():
                return f"apply down_split; [known | known | known | known | intros {x} ?]; {self._without(2, x)}"
            case terms.PadLeft():
                return f"apply (down_padl {first}); [known | intros {x} ?]; {self._without(1, x)}"
            case terms.PadRight():
                return f"apply down_padr; [known | known | intros {x} ?]; {self._without(1, x)}"
            case terms.TruncateLeft():
                return f"apply (down_truncl {first}); [known | known | intros {x} ?]; {self._without(1, x)}"
            case terms.TruncateRight(by):
                ends = f"{first} {self._index(by)}"
                return f"apply (down_truncr {ends}); [known | known | intros {x} ?]; {self._without(1, x)}"
            case terms.Place():
                return f"apply down_place; {self._without(1)}"
            case _:
                assert_never(op)

    def _without(self, count: int, *instead: str) -> str:
        """Replace the first positions, and clear hypotheses about the old ones."""
        gone = [name for name in self.places[:count] if name is not None]
        self.places[:count] = instead
        return "".join(f"clear dependent {name}; " for name in gone).rstrip()

    def _into_let(self, value: terms.Expr, new: terms.Expr, name: str, position: int) -> list[str]:
        notation, around = self.notation, self.around
        if position == 1:
            y = notation.fresh(name)
            self.around = around.tensor(y)
            return [f"apply down_bind; intros {y};"]
        if not isinstance(new, terms.Let):
            raise InvalidArgument("a step below a let replaced the let", required="a let")
        at = [notation.fresh("q") for _ in value.type.shape]
        within = [f"0 <= {q} < {notation.index(e, around)} -> " for q, e in zip(at, value.type.shape, strict=True)]
        bound = " ".join([*(f"({q} : Z)" for q in at), "(rest : list Z)"])
        before, after = notation.term(value, around), notation.term(new.value, around)
        equal = notation.fresh("E")
        self.places = [*at]
        claim = f"forall {bound}, {''.join(within)}{before} {positions(at, 'rest')} = {after} {positions(at, 'rest')}"
        self.after.append(f"| unfold bind; reads {equal} ]")
        return [f"assert ({equal} : {claim}); [ intros;"]

    def _into_rec(self, at: terms.Rec, position: int) -> list[str]:
        """Return the tactics that go down to the first rows or to the body, which reads rows within their extents."""
        notation, around = self.notation, self.around
        row = [notation.fresh("r") for _ in at.type.shape[1:]]
        within = [f"0 <= {r} < {self._index(e)}" for r, e in zip(row, at.type.shape[1:], strict=True)]
        inside = " /\\ ".join(within) or "True"
        p, q, y, z, equal, read, known, rest = map(notation.fresh, ("p", "q", "y", "z", "E", "E", "W", "rest"))
        named = rest
        for r in reversed(row):
            named = f"[|{r} {named}]"
        opened = f"cbn in {known}; try contradiction"
        bound = " ".join([*(f"({r} : Z)" for r in (q, *row)), f"({rest} : list Z)"])
        there = positions((q, *row), rest)
        claim = (
            f"forall {bound}, 0 <= {q} < {p} -> {''.join(f'{each} -> ' for each in within)}{y} {there} = {z} {there}"
        )
        proved = "cbn; solve [exact I | known]"
        causal = (
            f"intros {p} {y} {z} {named} ? {known} {equal}; {opened}; "
            f"assert ({read} : {claim}) by (intros; apply {equal}; [known | {proved}]); reads {read}"
        )
        lemma, bound_here = ("down_rec_first", q) if position == 0 else ("down_rec", f"{p} {y}")
        row_shape = f"match s with {'::'.join([*row, '_'])} => {inside} | _ => False end" if row else inside
        goals = f"known | known | {proved} | {causal} | intros {bound_here} {named} ? {known}; {opened}"
        ends = f"{self._index(at.low)} {self._index(at.high)}"
        lines = [f"apply ({lemma} {ends} _ _ _ (fun s => {row_shape})); [{goals}];"]
        lines.append(self._without(1 + len(row), *((q,) if position == 0 else ()), *row))
        if position == 1:
            self.around = around.index(p).tensor(y)
        return [line for line in lines if line]

    def _argument(self, value: Argument) -> str:
        notation, around = self.notation, self.around
        if isinstance(value, Function):
            indices = [notation.fresh("a") for _ in range(value.indices)]
            tensors = [notation.fresh("y") for _ in range(value.tensors)]
            inside = NamesInScope((*around.indices, *indices), (*around.tensors, *tensors))
            body = value.body
            text = notation.term(body, inside) if is_term(body) else self._condition(body, inside)
            return f"(fun {' '.join([*indices, *tensors])} => {text})"
        if isinstance(value, Index):
            return notation.index(value, around)
        return notation.term(value, around) if is_term(value) else self._condition(value, around)

    def _condition(self, value: Argument, around: NamesInScope) -> str:
        if is_predicate(value):
            return self.notation.predicate(value, around)
        raise InvalidArgument("invalid argument of a step", required="an index, a condition or a tensor")


def _extents(step: Step) -> Iterator[Index]:
    """Yield the extents of the rule's tensors at this place, in the order of its binders."""
    for name, dimension in at_least_rank(step.rule).extents.values():
        value = step.arguments[name]
        if isinstance(value, Function):
            yield shift(_tensor(name, value.body).type.shape[dimension], -value.indices, value.indices)
        else:
            yield _tensor(name, value).type.shape[dimension]


def _tensor(name: str, value: Argument) -> terms.Expr:
    if is_term(value):
        return value
    raise InvalidArgument(f"{name} is not a tensor", required="a tensor expression")


__all__ = ["Derivation", "context", "derivation", "text_of"]
