"""Forms of constructors, checked against class annotations and a traversal written by hand."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Final, Literal, TypeAlias, assert_never, get_args, get_origin, get_type_hints

import pytest

from atl.core import terms
from atl.core.forms import Form, Formed, IndexBinder, Part, Role, Slot, TensorBinder, make_slots, slots_of
from atl.core.index import Array, Bound, Index, Size, Var, atoms, bound, index, read, size
from atl.core.marks import AnyLoopMark, LetMark, LoopMark
from atl.core.operations import FLOAT_ONLY
from atl.core.predicate import Predicate, at_most, expressions, negation
from atl.core.substitution import binds_by_type, free_positions, rebuild, shift_term, with_children
from atl.core.traversal import children, conditions_in, indices_in, names_given, static
from atl.errors import InvalidArgument
from rewrites.certificates.term_json import Reader, written

N, M = index(Size("n")), index(Size("m"))
A = Array("A", (N, M), "float32")
J = Array("J", (N,), "int64", index(0), M)
INPUTS: Final = (A, J)


def scalar(*, opened: bool = True) -> terms.Expr:
    """Return a scalar with free indices and tensors of all kinds."""
    local = terms.Access(terms.Local(1, terms.Type("float32", (N + bound(3),))), bound(0))
    if not opened:
        return terms.Binary("add", local, terms.Access(terms.Access(terms.Input(A), bound(2)), read(J, (bound(0),))))
    return terms.Binary(
        "add", local, terms.Access(terms.TensorVar(7, "t", terms.Type("float32", (M + bound(2),))), index(Var(5, "v")))
    )


def vector(extent: Index) -> terms.Expr:
    return terms.Gen(index(0), extent, terms.Access(terms.Local(2, terms.Type("float32", (extent,))), bound(0)))


def samples(*, opened: bool = True) -> tuple[terms.Expr, ...]:
    """Return a term of each constructor, without opened variables if not `opened`."""
    one, low, high = scalar(opened=opened), bound(1), N + bound(2)
    holds = at_most(bound(4), N)
    matrix = terms.Gen(index(0), N, vector(M))
    reshapes = (
        terms.Reshape(op, matrix)
        for op in (
            terms.Transpose(),
            terms.Flatten(),
            terms.Split(bound(2) + 1),
            terms.PadLeft(bound(2)),
            terms.PadRight(M),
            terms.TruncateLeft(bound(0)),
            terms.TruncateRight(bound(3)),
            terms.Place(N, bound(5)),
        )
    )
    of = terms.Type("float32", (N, M + bound(1)))
    variables = (
        (terms.TensorVar(9, "t", of), terms.Metavariable(8, "e", of, (bound(2), N), (one, matrix))) if opened else ()
    )
    return (
        terms.Input(A),
        terms.Local(3, of),
        *variables,
        terms.Constant(3, "float32"),
        terms.Value(bound(6), "float32"),
        terms.Gen(low, high, one, "i", LoopMark.PARALLEL),
        terms.Reduce("max", low, high, one, "k", LoopMark.UNROLL),
        terms.Guard(holds, one),
        terms.Let(vector(N), terms.Access(terms.Local(0, terms.Type("float32", (N,))), bound(0)), "x", LetMark.STACK),
        terms.Let(one, terms.Binary("mul", terms.Local(0, terms.Type("float32", ())), one), "y"),
        terms.Rec(
            N,
            high,
            vector(N),
            terms.Binary("mul", terms.Access(terms.Local(0, terms.Type("float32", (bound(0),))), bound(0) - 1), one),
            "p",
            "y",
            LoopMark.UNROLL,
        ),
        terms.Access(matrix, bound(7)),
        terms.Unary("neg", one),
        one,
        terms.Select(holds, one, terms.Constant(0, "float32")),
        terms.Where(terms.Binary("lt", one, one), one, terms.Constant(0, "float32")),
        terms.Cast("float64", one),
        terms.Concat(vector(N), vector(M)),
        terms.Padding(of),
        *reshapes,
    )


SAMPLES: Final = samples()


def test_every_constructor_and_operator_has_a_sample() -> None:
    assert {type(sample) for sample in SAMPLES} == set(terms.CONSTRUCTORS)
    assert {type(sample.op) for sample in SAMPLES if isinstance(sample, terms.Reshape)} == set(terms.OPERATORS)


def sample_id(sample: object) -> str:
    more = f" {type(sample.op).__name__}" if isinstance(sample, terms.Reshape) else ""
    if isinstance(sample, terms.Let) and not sample.value.type.rank:
        more = " of a scalar"
    return f"{type(sample).__name__}{more}"


def subclass_names(of: type[Any]) -> Iterator[str]:
    """Yield the names of all subclasses defined in `atl`, except base classes without a form."""
    for cls in of.__subclasses__():
        if cls.__module__.startswith("atl.") and hasattr(cls, "form"):
            yield cls.__name__
        yield from subclass_names(cls)


def test_constructor_tuples_match_unions_and_subclasses() -> None:
    assert get_args(terms.Expr) == terms.CONSTRUCTORS
    assert get_args(terms.ReshapeOp) == terms.OPERATORS
    assert set(subclass_names(terms.Term)) == {of.__name__ for of in terms.CONSTRUCTORS}
    assert set(subclass_names(terms.Operator)) == {of.__name__ for of in terms.OPERATORS}


def word_faults(constructors: tuple[type[Formed], ...]) -> list[str]:
    counted = Counter(of.form.word for of in constructors)
    return [f"{word} is the word of {count} constructors" for word, count in counted.items() if count > 1]


def test_constructor_words_are_unique() -> None:
    assert word_faults((*terms.CONSTRUCTORS, *terms.OPERATORS)) == []


ROLES_OF: Final[dict[object, set[Role]]] = {
    Index: {Role.INDEX},
    tuple[Index, ...]: {Role.INDICES},
    Predicate: {Role.PREDICATE},
    terms.Expr: {Role.PART},
    tuple[terms.Expr, ...]: {Role.PARTS},
    terms.ReshapeOp: {Role.OPERATOR},
    terms.Type: {Role.TYPE, Role.KNOWN_TYPE},
    Array: {Role.ARRAY},
    int: {Role.VARIABLE},
    int | float: {Role.LITERAL},
    str | None: {Role.DTYPE},
    str: {Role.STATIC, Role.HINT},
    AnyLoopMark: {Role.MARK},
    LetMark: {Role.MARK},
}
"""Possible roles of a field by its annotation. Equality distinguishes static texts from hints."""


def field_names(of: Any) -> list[str]:
    return [each.name for each in fields(of)]


def role_faults(of: type[Formed]) -> list[str]:
    """Return fields without exactly one role, roles that contradict annotations, and binders without a range."""
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
                yield f"{of.__name__}.{name} is not of role {role.value}, which {part.field} needs"
        used |= {name for name, _ in needed if name is not None}
    for name in (*form.indices, *form.predicates):
        if form.parts and name not in used:
            yield f"{of.__name__}.{name} bounds, guards and reads nothing"


@pytest.mark.parametrize("of", [*terms.CONSTRUCTORS, *terms.OPERATORS], ids=lambda of: of.__name__)
def test_every_field_has_the_role_of_its_annotation(of: type[Formed]) -> None:
    assert role_faults(of) == []


Child: TypeAlias = tuple[terms.Expr, int, int]
"""A part, and the numbers of indices and tensors bound over it."""


def by_hand(expr: terms.Expr) -> list[Child]:
    match expr:
        case terms.Input() | terms.Local() | terms.TensorVar() | terms.Constant() | terms.Value() | terms.Padding():
            return []
        case terms.Metavariable(tensors=tensors):
            return [(tensor, 0, 0) for tensor in tensors]
        case terms.Gen(body=body) | terms.Reduce(body=body):
            return [(body, 1, 0)]
        case terms.Guard(_, body):
            return [(body, 0, 0)]
        case terms.Let(value, body):
            return [(value, 0, 0), (body, 0, 1)]
        case terms.Rec(init=init, body=body):
            return [(init, 0, 0), (body, 1, 1)]
        case terms.Access(tensor):
            return [(tensor, 0, 0)]
        case terms.Unary(_, operand) | terms.Cast(_, operand) | terms.Reshape(_, operand):
            return [(operand, 0, 0)]
        case terms.Where(test, left, right):
            return [(test, 0, 0), (left, 0, 0), (right, 0, 0)]
        case terms.Binary(_, left, right) | terms.Select(_, left, right) | terms.Concat(left, right):
            return [(left, 0, 0), (right, 0, 0)]
        case _:
            assert_never(expr)


def expressions_of(value: object) -> Iterator[Index]:
    """Yield the index expressions in a field, found by type and not by role."""
    if isinstance(value, Index):
        yield value
    elif isinstance(value, get_args(Predicate)):
        yield from expressions(value)
    elif isinstance(value, terms.Type | Array):
        yield from value.shape
    elif isinstance(value, terms.Operator):
        for name in field_names(value):
            yield from expressions_of(getattr(value, name))
    elif isinstance(value, tuple):
        for part in value:
            yield from expressions_of(part)


@dataclass(frozen=True)
class Free:
    """Free variables of a term: outer positions of indices and tensors, and uids."""

    indices: frozenset[int]
    tensors: frozenset[int]
    ids: frozenset[int]


def free_in(expr: terms.Expr, below: Callable[[terms.Expr], list[Child]], indices: int = 0, tensors: int = 0) -> Free:
    """Return all free variables of a term."""
    own = [atom for each in fields(expr) for e in expressions_of(getattr(expr, each.name)) for atom in atoms(e)]
    found_indices = {atom.position - indices for atom in own if isinstance(atom, Bound)}
    found_ids = {atom.uid for atom in own if isinstance(atom, Var)}
    found_tensors = {expr.position - tensors} if isinstance(expr, terms.Local) else set()
    if isinstance(expr, terms.TensorVar | terms.Metavariable):
        found_ids.add(expr.uid)
    for child, more, more_tensors in below(expr):
        inner = free_in(child, below, indices + more, tensors + more_tensors)
        found_indices |= inner.indices
        found_tensors |= inner.tensors
        found_ids |= inner.ids
    return Free(*(frozenset(k for k in found if k >= 0) for found in (found_indices, found_tensors, found_ids)))


def applied(e: terms.Expr) -> terms.Expr:
    """Return a function of a term of any element type."""
    return terms.Unary("invert" if e.type.dtype == "bool" else "abs", e)


def derived_faults(expr: terms.Expr, below: Callable[[terms.Expr], list[Child]] = by_hand) -> list[str]:
    """Return the properties derived from the form that differ from the traversal by hand."""
    free = free_in(expr, below)
    loose, loose_tensors = (max(found, default=-1) + 1 for found in (free.indices, free.tensors))
    given = sorted(
        e.order
        for name in field_names(expr)
        if not _is_known_type(expr, name)
        for e in expressions_of(getattr(expr, name))
    )
    checks = {
        "children": [(child.expr, child.indices, child.tensors) for child in children(expr)] == below(expr),
        "loose": expr.loose == loose,
        "loose_tensors": expr.loose_tensors == loose_tensors,
        "free": expr.free == free.ids,
        "free positions": free_positions(expr) == (free.indices, free.tensors),
        "indices": sorted(e.order for e in indices_in(expr)) == given,
        "rebuilding": rebuild(expr, lambda child: child.expr, lambda e: e) is expr,
        "parts": _replaces_parts(expr, below),
        "shifting": _shifted(expr, below, loose, loose_tensors),
        "types of bound variables": binds_by_type(expr),
    }
    return [what for what, right in checks.items() if not right]


def _is_known_type(expr: terms.Expr, name: str) -> bool:
    """Return true for the type of a variable: its extents are not index expressions of the node."""
    return name == "of" and isinstance(expr, terms.Local | terms.TensorVar | terms.Metavariable)


def _replaces_parts(expr: terms.Expr, below: Callable[[terms.Expr], list[Child]]) -> bool:
    """Check that `with_children` puts parts in their positions."""
    parts = tuple(applied(child) for child, _, _ in below(expr))
    return [child.expr for child in children(with_children(expr, parts))] == list(parts)


def _shifted(expr: terms.Expr, below: Callable[[terms.Expr], list[Child]], loose: int, loose_tensors: int) -> bool:
    moved = free_in(shift_term(expr, 2, 3), below)
    most = tuple(max(found, default=-1) + 1 for found in (moved.indices, moved.tensors))
    return most == (loose and loose + 2, loose_tensors and loose_tensors + 3)


@pytest.mark.parametrize("sample", SAMPLES, ids=sample_id)
def test_traversal_and_free_variables_match_hand_count(sample: terms.Expr) -> None:
    assert derived_faults(sample) == []


def changed(of: type[Formed], slot: Slot, value: Any) -> Any:
    """Return another value for a field."""
    match slot.role:
        case Role.STATIC:
            known = get_args(get_type_hints(of)[slot.name]) or ("float64", "float32")
            return next(word for word in known if word != value and word not in FLOAT_ONLY)
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
            return terms.Type(value.dtype, tuple(extent + 1 for extent in value.shape))
        case Role.OPERATOR:
            return terms.PadRight(N) if isinstance(value, terms.PadLeft) else terms.PadLeft(N)
        case Role.PART:
            return applied(value)
        case Role.PARTS:
            return (applied(value[0]), *value[1:])
        case Role.HINT:
            return f"{value}2"
        case Role.MARK:
            return next(mark for mark in type(value) if mark is not value)
        case _:
            assert_never(slot.role)


def equality_faults(node: Any) -> list[str]:
    """Return fields that equality wrongly sees or ignores, and hints that change the type."""
    faults = []
    for slot in slots_of(type(node)):
        other = replace(node, **{slot.name: changed(type(node), slot, getattr(node, slot.name))})
        hint = slot.role in (Role.HINT, Role.MARK)
        if (other == node) != hint or (hash(other) == hash(node)) != hint:
            faults.append(f"{slot.name} is {'seen' if hint else 'not seen'} by equality")
        if hint and getattr(other, "type", None) != getattr(node, "type", None):
            faults.append(f"{slot.name} is a hint, and the type depends on it")
    return faults


@pytest.mark.parametrize("sample", SAMPLES, ids=sample_id)
def test_equality_ignores_only_hints(sample: terms.Expr) -> None:
    assert equality_faults(sample) == []
    if isinstance(sample, terms.Reshape):
        assert equality_faults(sample.op) == []


def test_static_fields_names_and_conditions_come_from_the_form() -> None:
    said = {
        sample_id(sample): (static(sample), names_given(sample), len(conditions_in(sample)))
        for sample in SAMPLES
        if isinstance(sample, terms.Reduce | terms.Let | terms.Select | terms.Cast | terms.Unary | terms.Metavariable)
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


@pytest.mark.parametrize("sample", samples(opened=False), ids=sample_id)
def test_certificate_terms_round_trip_with_hints(sample: terms.Expr) -> None:
    table, (values,) = written([{"e": sample}], INPUTS)
    back = Reader(INPUTS, table).argument(values["e"])
    assert back == sample
    for name in sample.form.ignored:
        assert getattr(back, name) == getattr(sample, name)


@dataclass(frozen=True, slots=True, eq=False)
class Corrupted(terms.Term):
    """Generation with a form that the tests below corrupt."""

    form: ClassVar = Form(
        "corrupted",
        indices=("low", "high"),
        parts=(Part("body", indices=(IndexBinder("low", "high", "name"),)),),
        hints=("name",),
    )
    low: Index
    high: Index
    body: terms.Expr
    name: str = field(default="i")

    def _typed(self) -> terms.Type:
        return self.body.type


SOUND: Final = Corrupted.form
RANGE: Final = IndexBinder("low", "high", "name")


def with_form(form: Form) -> type[Any]:
    """Return a subclass with another form."""
    namespace = {"form": form, "__slots__": (), "__module__": __name__}
    return type("Corrupted", (Corrupted,), namespace)


def children_by_hand(expr: terms.Expr) -> list[Child]:
    return [(expr.body, 1, 0)] if isinstance(expr, Corrupted) else by_hand(expr)


def test_sound_form_has_no_faults() -> None:
    node: Any = with_form(SOUND)(bound(1), N + bound(2), scalar())
    assert role_faults(type(node)) == []
    assert derived_faults(node, children_by_hand) == []
    assert equality_faults(node) == []


@pytest.mark.parametrize(
    ("form", "fault"),
    [
        (replace(SOUND, hints=("name", "body")), "Corrupted.body has 2 roles"),
        (replace(SOUND, hints=()), "Corrupted.name has 0 roles"),
        (replace(SOUND, indices=("low",), literals=("high",)), "high is written as"),
        (replace(SOUND, hints=(), dtypes=("name",)), "name is written as"),
        (replace(SOUND, hints=("name", "gone")), "Corrupted has no field gone"),
        (replace(SOUND, parts=(Part("body", (IndexBinder("low", "body", "name"),)),)), "body is not of role index"),
        (replace(SOUND, parts=(Part("body", (IndexBinder("low", "high", "low"),)),)), "low is not of role hint"),
        (replace(SOUND, parts=(Part("body", (RANGE,), (TensorBinder("low", "name"),)),)), "low is not of role part"),
        (replace(SOUND, parts=(Part("body", (RANGE,), assumes="low"),)), "low is not of role predicate"),
        (replace(SOUND, parts=(Part("body", (RANGE,), at="name"),)), "name is not of role index"),
        (replace(SOUND, parts=(Part("body"),)), "low bounds, guards and reads nothing"),
    ],
)
def test_form_that_contradicts_its_class_is_found(form: Form, fault: str) -> None:
    assert fault in "\n".join(role_faults(with_form(form)))


def test_slots_of_contradictory_forms_are_refused() -> None:
    with pytest.raises(TypeError, match="the class has"):
        make_slots(Corrupted, replace(SOUND, hints=()))
    with pytest.raises(TypeError, match="the field name of Corrupted does not have the role index"):
        make_slots(Corrupted, replace(SOUND, parts=(Part("body", (RANGE,), at="name"),)))


@pytest.mark.parametrize(
    ("parts", "found"),
    [
        ((Part("body"),), {"children", "loose", "free positions"}),
        ((Part("body", (RANGE, RANGE)),), {"children", "loose", "free positions"}),
        ((Part("body", (RANGE,), (TensorBinder("body", "name"),)),), {"children", "loose_tensors", "free positions"}),
    ],
    ids=["no binder", "two binders", "a tensor too"],
)
def test_wrong_number_of_binders_is_found(parts: tuple[Part, ...], found: set[str]) -> None:
    node: Any = with_form(replace(SOUND, parts=parts))(bound(1), N, scalar())
    assert found <= set(derived_faults(node, children_by_hand))


def test_wrong_equality_of_a_field_is_found() -> None:
    hidden: Any = with_form(replace(SOUND, indices=("low",), hints=("name", "high")))
    with pytest.raises(TypeError, match="high"):
        hidden(bound(1), N, scalar())  # the range of a binder is not a hint
    unnamed: Any = with_form(replace(SOUND, parts=(Part("body"),), indices=("low",), hints=("name", "high")))
    with pytest.raises(InvalidArgument, match="high"):
        unnamed(bound(1), N, scalar())  # a hint is not an index
    blind: Any = with_form(replace(SOUND, parts=(Part("body"),)))

    def typed(self: Any) -> terms.Type:
        return terms.Type("float32", (size(self.name),))

    blind._typed = typed
    assert equality_faults(blind(bound(1), N, scalar(), "n")) == ["name is a hint, and the type depends on it"]
    shown: Any = with_form(replace(SOUND, static=("name",), hints=(), parts=(Part("body"),)))
    plain = shown(bound(1), N, scalar(), "float64")
    assert plain != replace(plain, name="other")


def test_repeated_word_is_found() -> None:
    assert word_faults((Corrupted, with_form(SOUND), terms.Gen)) == ["corrupted is the word of 2 constructors"]
