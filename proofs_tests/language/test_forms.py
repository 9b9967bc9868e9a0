"""Forms say what is so: each against the annotations of its class, and against what is counted by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Final, Literal, TypeAlias, assert_never, get_args, get_origin, get_type_hints

import pytest

import atl
from atl.core.forms import Form, Formed, IndexBinder, Part, Role, Slot, TensorBinder, make_slots, slots_of
from atl.core.index import Array, Bound, Index, Size, Var, atoms, bound, index, read, size
from atl.core.marks import LetMark, LoopMark
from atl.core.predicate import Predicate, at_most, expressions, negation
from atl.core.substitution import binds_by_type, free_positions, rebuild, shift_term, with_children
from atl.core.terms import (
    CONSTRUCTORS,
    OPERATORS,
    Access,
    Binary,
    Cast,
    Concat,
    Constant,
    Expr,
    Flatten,
    Gen,
    Guard,
    Input,
    Let,
    Local,
    Metavariable,
    Operator,
    Padding,
    PadLeft,
    PadRight,
    Place,
    Reduce,
    Reshape,
    ReshapeOp,
    Select,
    Split,
    TensorVar,
    Term,
    Transpose,
    TruncateLeft,
    TruncateRight,
    Type,
    Unary,
    Value,
)
from atl.core.traversal import children, conditions_in, indices_in, names_given, static
from atl.errors import InvalidArgument
from rewrites.certificates.term_json import Reader, written

# -- a sample of each -------------------------------------------------------------------------------------------------

N, M = index(Size("n")), index(Size("m"))
A = Array("A", (N, M), "float32")
J = Array("J", (N,), "int64", index(0), M)
INPUTS: Final = (A, J)


def scalar(*, opened: bool = True) -> Expr:
    """A scalar with free indices and tensors of all kinds."""
    local = Access(Local(1, Type("float32", (N + bound(3),))), bound(0))
    if not opened:
        return Binary("add", local, Access(Access(Input(A), bound(2)), read(J, (bound(0),))))
    return Binary("add", local, Access(TensorVar(7, "t", Type("float32", (M + bound(2),))), index(Var(5, "v"))))


def vector(extent: Index) -> Expr:
    return Gen(index(0), extent, Access(Local(2, Type("float32", (extent,))), bound(0)))


def samples(*, opened: bool = True) -> tuple[Expr, ...]:
    """A term of each constructor; those of the closed ones have no opened variables."""
    one, low, high = scalar(opened=opened), bound(1), N + bound(2)
    holds = at_most(bound(4), N)
    matrix = Gen(index(0), N, vector(M))
    reshapes = (
        Reshape(op, matrix)
        for op in (
            Transpose(), Flatten(), Split(bound(2) + 1), PadLeft(bound(2)), PadRight(M), TruncateLeft(bound(0)),
            TruncateRight(bound(3)), Place(N, bound(5)),
        )
    )  # fmt: skip
    of = Type("float32", (N, M + bound(1)))
    variables = (TensorVar(9, "t", of), Metavariable(8, "e", of, (bound(2), N), (one, matrix))) if opened else ()
    return (
        Input(A),
        Local(3, of),
        *variables,
        Constant(3, "float32"),
        Value(bound(6), "float32"),
        Gen(low, high, one, "i", LoopMark.PARALLEL),
        Reduce("max", low, high, one, "k", LoopMark.UNROLL),
        Guard(holds, one),
        Let(vector(N), Access(Local(0, Type("float32", (N,))), bound(0)), "x", LetMark.STACK),
        Let(one, Binary("mul", Local(0, Type("float32", ())), one), "y"),
        Access(matrix, bound(7)),
        Unary("neg", one),
        one,
        Select(holds, one, Constant(0, "float32")),
        Cast("float64", one),
        Concat(vector(N), vector(M)),
        Padding(of),
        *reshapes,
    )


SAMPLES: Final = samples()


def test_every_constructor_and_operator_has_a_sample() -> None:
    assert {type(sample) for sample in SAMPLES} == set(CONSTRUCTORS)
    assert {type(sample.op) for sample in SAMPLES if isinstance(sample, Reshape)} == set(OPERATORS)


def called(sample: object) -> str:
    more = f" {type(sample.op).__name__}" if isinstance(sample, Reshape) else ""
    if isinstance(sample, Let) and not sample.value.type.rank:
        more = " of a scalar"
    return f"{type(sample).__name__}{more}"


# -- the tuples and the unions ----------------------------------------------------------------------------------------


def below(of: type[Any]) -> Iterator[str]:
    """The names of all classes of the language that stand below one."""
    for cls in of.__subclasses__():
        if cls.__module__.startswith("atl."):
            yield cls.__name__
        yield from below(cls)


def test_the_tuples_name_what_the_unions_name_and_no_class_is_left_out() -> None:
    assert get_args(Expr) == CONSTRUCTORS
    assert get_args(ReshapeOp) == OPERATORS
    assert set(below(Term)) == {of.__name__ for of in CONSTRUCTORS}
    assert set(below(Operator)) == {of.__name__ for of in OPERATORS}


def word_faults(constructors: tuple[type[Formed], ...]) -> list[str]:
    counted = Counter(of.form.word for of in constructors)
    return [f"{word} is the word of {count} constructors" for word, count in counted.items() if count > 1]


def test_every_word_means_one_thing() -> None:
    assert word_faults((*CONSTRUCTORS, *OPERATORS)) == []


# -- roles ------------------------------------------------------------------------------------------------------------

ROLES_OF: Final[dict[object, set[Role]]] = {
    Index: {Role.INDEX},
    tuple[Index, ...]: {Role.INDICES},
    Predicate: {Role.PREDICATE},
    Expr: {Role.PART},
    tuple[Expr, ...]: {Role.PARTS},
    ReshapeOp: {Role.OPERATOR},
    Type: {Role.TYPE, Role.KNOWN_TYPE},
    Array: {Role.ARRAY},
    int: {Role.VARIABLE},
    int | float: {Role.LITERAL},
    str | None: {Role.DTYPE},
    str: {Role.STATIC, Role.HINT},
    LoopMark: {Role.MARK},
    LetMark: {Role.MARK},
}
"""What a field may be, by its annotation. Which of two texts is a hint is seen by what it changes."""


def field_names(of: Any) -> list[str]:
    return [each.name for each in fields(of)]


def role_faults(of: type[Formed]) -> list[str]:
    """Fields with no role, with several, or with one that their annotation contradicts; binders of no range."""
    form, hints = of.form, get_type_hints(of)
    known = field_names(of)
    faults = []
    for name in known:
        count = form.mentioned.count(name)
        if count != 1:
            faults.append(f"{of.__name__}.{name} has {count} roles")
        annotation = hints[name]
        allowed = {Role.STATIC} if get_origin(annotation) is Literal else ROLES_OF[annotation]
        if form.role(name) not in allowed:
            faults.append(f"{of.__name__}.{name} is written as {annotation} and said to be {form.role(name)}")
    faults += [f"{of.__name__} has no field {name}" for name in form.mentioned if name not in known]
    return [*faults, *_binder_faults(of)]


def _binder_faults(of: type[Formed]) -> Iterator[str]:
    form = of.form
    used: set[str] = set()
    for part in form.parts:
        needed = [(part.assumes, Role.PREDICATE), (part.at, Role.INDEX)]
        for binder in part.indices:
            needed += [(binder.low, Role.INDEX), (binder.high, Role.INDEX), (binder.name, Role.HINT)]
        for bound_tensor in part.tensors:
            needed += [(bound_tensor.value, Role.PART), (bound_tensor.name, Role.HINT)]
        for name, role in needed:
            if name is not None and form.role(name) is not role:
                yield f"{of.__name__}.{name} is no {role.value}, as what is bound over {part.field} needs"
        used |= {name for name, _ in needed if name is not None}
    for name in (*form.indices, *form.predicates):
        if form.parts and name not in used:
            yield f"{of.__name__}.{name} bounds, guards and reads nothing"


@pytest.mark.parametrize("of", [*CONSTRUCTORS, *OPERATORS], ids=lambda of: of.__name__)
def test_every_field_has_the_one_role_that_its_annotation_allows(of: type[Formed]) -> None:
    assert role_faults(of) == []


# -- what is derived, against what is written by hand -----------------------------------------------------------------

Child: TypeAlias = tuple[Expr, int, int]
"""A part, and how many indices and tensors are bound over it."""


def by_hand(expr: Expr) -> list[Child]:
    match expr:
        case Input() | Local() | TensorVar() | Constant() | Value() | Padding():
            return []
        case Metavariable(tensors=tensors):
            return [(tensor, 0, 0) for tensor in tensors]
        case Gen(body=body) | Reduce(body=body):
            return [(body, 1, 0)]
        case Guard(_, body):
            return [(body, 0, 0)]
        case Let(value, body):
            return [(value, 0, 0), (body, 0, 1)]
        case Access(tensor):
            return [(tensor, 0, 0)]
        case Unary(_, operand) | Cast(_, operand) | Reshape(_, operand):
            return [(operand, 0, 0)]
        case Binary(_, left, right) | Select(_, left, right) | Concat(left, right):
            return [(left, 0, 0), (right, 0, 0)]
        case _:
            assert_never(expr)


def expressions_of(value: object) -> Iterator[Index]:
    """The index expressions in a field, told by what it is and not by its role."""
    if isinstance(value, Index):
        yield value
    elif isinstance(value, get_args(Predicate)):
        yield from expressions(value)
    elif isinstance(value, Type | Array):
        yield from value.shape
    elif isinstance(value, Operator):
        for name in field_names(value):
            yield from expressions_of(getattr(value, name))
    elif isinstance(value, tuple):
        for part in value:
            yield from expressions_of(part)


@dataclass(frozen=True)
class Free:
    """What is free in a term: positions of indices and of tensors as seen from outside, and ids."""

    indices: frozenset[int]
    tensors: frozenset[int]
    ids: frozenset[int]


def free_in(expr: Expr, below: Callable[[Expr], list[Child]], indices: int = 0, tensors: int = 0) -> Free:
    """All free variables, found one by one."""
    own = [atom for each in fields(expr) for e in expressions_of(getattr(expr, each.name)) for atom in atoms(e)]
    found_indices = {atom.position - indices for atom in own if isinstance(atom, Bound)}
    found_ids = {atom.uid for atom in own if isinstance(atom, Var)}
    found_tensors = {expr.position - tensors} if isinstance(expr, Local) else set()
    if isinstance(expr, TensorVar | Metavariable):
        found_ids.add(expr.uid)
    for child, more, more_tensors in below(expr):
        inner = free_in(child, below, indices + more, tensors + more_tensors)
        found_indices |= inner.indices
        found_tensors |= inner.tensors
        found_ids |= inner.ids
    return Free(*(frozenset(k for k in found if k >= 0) for found in (found_indices, found_tensors, found_ids)))


def derived_faults(expr: Expr, below: Callable[[Expr], list[Child]] = by_hand) -> list[str]:
    """Where traversal and sealing, which come from the form, differ from what is counted by hand."""
    free = free_in(expr, below)
    loose, loose_tensors = (max(found, default=-1) + 1 for found in (free.indices, free.tensors))
    given = sorted(
        e.order
        for name in field_names(expr)
        if not _is_known_type(expr, name)
        for e in expressions_of(getattr(expr, name))
    )
    told = {
        "children": [(child.expr, child.indices, child.tensors) for child in children(expr)] == below(expr),
        "loose": expr.loose == loose,
        "loose_tensors": expr.loose_tensors == loose_tensors,
        "free": expr.free == free.ids,
        "free positions": free_positions(expr) == (free.indices, free.tensors),
        "indices": sorted(e.order for e in indices_in(expr)) == given,
        "rebuilding": rebuild(expr, lambda child: child.expr, lambda e: e) is expr,
        "parts": _with_other_parts(expr, below),
        "shifting": _shifted(expr, below, loose, loose_tensors),
        "types of what is bound": binds_by_type(expr),
    }
    return [what for what, right in told.items() if not right]


def _is_known_type(expr: Expr, name: str) -> bool:
    """The type of a variable is that of what it stands for: its extents are no expressions of the node."""
    return name == "of" and isinstance(expr, Local | TensorVar | Metavariable)


def _with_other_parts(expr: Expr, below: Callable[[Expr], list[Child]]) -> bool:
    """Whether other parts come to where the parts were."""
    parts = tuple(Unary("abs", child) for child, _, _ in below(expr))
    return [child.expr for child in children(with_children(expr, parts))] == list(parts)


def _shifted(expr: Expr, below: Callable[[Expr], list[Child]], loose: int, loose_tensors: int) -> bool:
    moved = free_in(shift_term(expr, 2, 3), below)
    most = tuple(max(found, default=-1) + 1 for found in (moved.indices, moved.tensors))
    return most == (loose and loose + 2, loose_tensors and loose_tensors + 3)


@pytest.mark.parametrize("sample", SAMPLES, ids=called)
def test_traversal_and_sealing_are_what_a_count_by_hand_gives(sample: Expr) -> None:
    assert derived_faults(sample) == []


# -- equality ---------------------------------------------------------------------------------------------------------


def another(of: type[Formed], slot: Slot, value: Any) -> Any:
    """Another value for a field."""
    match slot.role:
        case Role.STATIC:
            known = get_args(get_type_hints(of)[slot.name]) or ("float64", "float32")
            return next(word for word in known if word != value and word not in atl.core.terms.FLOAT_ONLY)
        case Role.LITERAL | Role.VARIABLE | Role.INDEX:
            return value + 1
        case Role.ARRAY:
            return replace(value, name="B")
        case Role.DTYPE:
            return "float64"
        case Role.INDICES:
            return (value[0] + 1, *value[1:])
        case Role.PREDICATE:
            return negation(value)
        case Role.TYPE | Role.KNOWN_TYPE:
            return Type(value.dtype, tuple(extent + 1 for extent in value.shape))
        case Role.OPERATOR:
            return PadRight(N) if isinstance(value, PadLeft) else PadLeft(N)
        case Role.PART:
            return Unary("abs", value)
        case Role.PARTS:
            return (Unary("abs", value[0]), *value[1:])
        case Role.HINT:
            return f"{value}2"
        case Role.MARK:
            return next(mark for mark in type(value) if mark is not value)
        case Role.MARK:
            return next(mark for mark in type(value) if mark is not value)
        case _:
            assert_never(slot.role)


def equality_faults(node: Any) -> list[str]:
    """Fields that equality is to see and does not, or the other way round; hints that say what the type is."""
    faults = []
    for slot in slots_of(type(node)):
        other = replace(node, **{slot.name: another(type(node), slot, getattr(node, slot.name))})
        hint = slot.role in (Role.HINT, Role.MARK)
        if (other == node) != hint or (hash(other) == hash(node)) != hint:
            faults.append(f"{slot.name} is {'seen' if hint else 'not seen'} by equality")
        if hint and getattr(other, "type", None) != getattr(node, "type", None):
            faults.append(f"{slot.name} is a hint, and the type depends on it")
    return faults


@pytest.mark.parametrize("sample", SAMPLES, ids=called)
def test_equality_sees_every_field_but_the_hints(sample: Expr) -> None:
    assert equality_faults(sample) == []
    if isinstance(sample, Reshape):
        assert equality_faults(sample.op) == []


def test_what_a_node_says_of_itself_binds_and_assumes_is_read_from_its_form() -> None:
    said = {
        called(sample): (static(sample), names_given(sample), len(conditions_in(sample)))
        for sample in SAMPLES
        if isinstance(sample, Reduce | Let | Select | Cast | Unary | Metavariable)
    }
    assert said == {
        "Reduce": (("max",), ("k",), 0),
        "Let": ((), ("x",), 0),
        "Let of a scalar": ((), ("y",), 0),
        "Select": ((), (), 1),
        "Cast": (("float64",), (), 0),
        "Unary": (("neg",), (), 0),
        "Metavariable": ((8,), (), 0),
    }


# -- certificates -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sample", samples(opened=False), ids=called)
def test_a_term_in_a_certificate_is_read_back_with_its_hints(sample: Expr) -> None:
    table, (values,) = written([{"e": sample}], INPUTS)
    back = Reader(INPUTS, table).argument(values["e"])
    assert back == sample
    for name in sample.form.ignored:
        assert getattr(back, name) == getattr(sample, name)


# -- planted faults ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Planted(Term):
    """A generation, as the tests of a form without faults need one."""

    form: ClassVar = Form(
        "planted",
        indices=("low", "high"),
        parts=(Part("body", indices=(IndexBinder("low", "high", "name"),)),),
        hints=("name",),
    )
    low: Index
    high: Index
    body: Expr
    name: str = field(default="i")

    def _typed(self) -> Type:
        return self.body.type


SOUND: Final = Planted.form
RANGE: Final = IndexBinder("low", "high", "name")


def with_form(form: Form) -> type[Any]:
    """The class with another form."""
    namespace = {"form": form, "__slots__": (), "__module__": __name__}
    return type("Planted", (Planted,), namespace)


def planted_by_hand(expr: Expr) -> list[Child]:
    return [(expr.body, 1, 0)] if isinstance(expr, Planted) else by_hand(expr)


def test_a_form_without_faults_has_none() -> None:
    node: Any = with_form(SOUND)(bound(1), N + bound(2), scalar())
    assert role_faults(type(node)) == []
    assert derived_faults(node, planted_by_hand) == []
    assert equality_faults(node) == []


@pytest.mark.parametrize(
    ("form", "fault"),
    [
        (replace(SOUND, hints=("name", "body")), "Planted.body has 2 roles"),
        (replace(SOUND, hints=()), "Planted.name has 0 roles"),
        (replace(SOUND, indices=("low",), literals=("high",)), "high is written as"),
        (replace(SOUND, hints=(), dtypes=("name",)), "name is written as"),
        (replace(SOUND, hints=("name", "gone")), "Planted has no field gone"),
        (replace(SOUND, parts=(Part("body", (IndexBinder("low", "body", "name"),)),)), "body is no index"),
        (replace(SOUND, parts=(Part("body", (IndexBinder("low", "high", "low"),)),)), "low is no hint"),
        (replace(SOUND, parts=(Part("body", (RANGE,), (TensorBinder("low", "name"),)),)), "low is no part"),
        (replace(SOUND, parts=(Part("body", (RANGE,), assumes="low"),)), "low is no predicate"),
        (replace(SOUND, parts=(Part("body", (RANGE,), at="name"),)), "name is no index"),
        (replace(SOUND, parts=(Part("body"),)), "low bounds, guards and reads nothing"),
    ],
)
def test_a_form_that_does_not_fit_its_class_is_found(form: Form, fault: str) -> None:
    assert fault in "\n".join(role_faults(with_form(form)))


def test_slots_of_contradictory_forms_are_refused() -> None:
    with pytest.raises(TypeError, match="the class has"):
        make_slots(Planted, replace(SOUND, hints=()))
    with pytest.raises(TypeError, match="the field name of Planted does not have the role index"):
        make_slots(Planted, replace(SOUND, parts=(Part("body", (RANGE,), at="name"),)))


@pytest.mark.parametrize(
    ("parts", "found"),
    [
        ((Part("body"),), {"children", "loose", "free positions"}),
        ((Part("body", (RANGE, RANGE)),), {"children", "loose", "free positions"}),
        ((Part("body", (RANGE,), (TensorBinder("body", "name"),)),), {"children", "loose_tensors", "free positions"}),
    ],
    ids=["no binder", "two binders", "a tensor too"],
)
def test_a_part_with_a_wrong_number_of_binders_is_found(parts: tuple[Part, ...], found: set[str]) -> None:
    node: Any = with_form(replace(SOUND, parts=parts))(bound(1), N, scalar())
    assert found <= set(derived_faults(node, planted_by_hand))


def test_a_field_that_equality_sees_wrongly_is_found() -> None:
    hidden: Any = with_form(replace(SOUND, indices=("low",), hints=("name", "high")))
    with pytest.raises(TypeError, match="high"):
        hidden(bound(1), N, scalar())  # the range of a binder is no hint
    unnamed: Any = with_form(replace(SOUND, parts=(Part("body"),), indices=("low",), hints=("name", "high")))
    with pytest.raises(InvalidArgument, match="high"):
        unnamed(bound(1), N, scalar())  # and no hint is an index
    blind: Any = with_form(replace(SOUND, parts=(Part("body"),)))

    def typed(self: Any) -> Type:
        return Type("float32", (size(self.name),))

    blind._typed = typed
    assert equality_faults(blind(bound(1), N, scalar(), "n")) == ["name is a hint, and the type depends on it"]
    shown: Any = with_form(replace(SOUND, static=("name",), hints=(), parts=(Part("body"),)))
    plain = shown(bound(1), N, scalar(), "float64")
    assert plain != replace(plain, name="other")


def test_a_word_said_twice_is_found() -> None:
    assert word_faults((Planted, with_form(SOUND), Gen)) == ["planted is the word of 2 constructors"]
