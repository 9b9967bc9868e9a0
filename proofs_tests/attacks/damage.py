"""Nodes that no constructor made: put together field by field, as whoever wants a false theorem would.

The kernel must make them anew, or refuse them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf, nan
from typing import Any, Final, cast

from atl.core.index import (
    ONE,
    ZERO,
    Array,
    Bound,
    Extremum,
    Index,
    Quotient,
    Read,
    Size,
    Var,
    constant,
    index,
    size,
)
from atl.core.node import NOTHING_FREE, Node, identity
from atl.core.predicate import TRUE, All, NonNegative, Predicate, is_predicate, less
from atl.core.program import Program
from atl.core.substitution import with_children
from atl.core.terms import (
    Access,
    Binary,
    Constant,
    Expr,
    Gen,
    Guard,
    Input,
    Let,
    Local,
    Metavariable,
    Padding,
    Reduce,
    TensorVar,
    Type,
    Unary,
    Value,
)
from atl.core.traversal import children
from proofs_tests.attacks.settings import M, N, Setting
from proofs_tests.programs.choices import Choices, chance, choose
from rewrites.instantiation import Argument, Function

DERIVED: Final = ("identity", "depth", "size", "loose", "loose_tensors", "free", "type", "source")


def forged(of: type[Node], like: Any = None, /, **fields: Any) -> Any:
    """A node of a class with these fields. All else it has of another node; without one, an identity of its own."""
    made = object.__new__(of)
    put = object.__setattr__
    if like is None:
        key = tuple(value.identity if isinstance(value, Node) else repr(value) for value in fields.values())
        put(made, "identity", identity((of, "forged", *key)))
        for name, value in {"depth": 1, "size": 1, "loose": 0, "loose_tensors": 0, "free": NOTHING_FREE}.items():
            put(made, name, value)
    else:
        for name in DERIVED:
            if hasattr(like, name) and hasattr(of, name):
                put(made, name, getattr(like, name))
    for name, value in fields.items():
        put(made, name, value)
    return made


# -- index expressions ------------------------------------------------------------------------------------------------


def _terms(*terms: Any) -> Index:
    """An index expression of these terms, in whatever form they are."""
    made: Index = object.__new__(Index)
    object.__setattr__(made, "terms", terms)
    made._seal_terms()
    return made


def _atom(of: type[Node], order: tuple[object, ...], **fields: Any) -> Index:
    made = forged(of, order=order, **fields)
    return _terms(((made,), 1))


def _bound(position: Any) -> Index:
    return _atom(Bound, (1, 0), position=position)


def _read(array: Array, *indices: Index) -> Index:
    return _atom(Read, (5, array.order), array=array, indices=indices)


def damaged_index(choices: Choices, setting: Setting, of: Index) -> Index:
    """An index expression that is not made as they are; often it looks like this one."""
    integers, reals = setting.inputs["A"], setting.inputs["x"]
    doubled = choose(choices, (Size("n"), Size("m")))
    made: tuple[Callable[[], Index], ...] = (
        lambda: _terms(((doubled,), 3), ((doubled,), -1)),
        lambda: _terms(((doubled,), 2), ((doubled,), -2)),
        lambda: _terms(((), 2), ((), -1)),
        lambda: _terms(((doubled,), True)),
        lambda: _terms(((doubled,), 0)),
        lambda: _terms(((), 0.5)),
        lambda: _terms(((Size("n"), Size("m")), 1), ((Size("m"), Size("n")), -1)),
        lambda: _bound(-1),
        lambda: _bound(True),
        lambda: _bound(choices.integer(0, 3)),
        lambda: _read(integers, ZERO, constant(10)),
        lambda: _read(integers),
        lambda: _read(reals, ZERO),
        lambda: index(Read(replace(integers, low=ZERO, high=ONE, monotonic=""), (ZERO,))),
        lambda: index(Quotient(N, choose(choices, (ZERO, constant(-1), M - M)))),
        lambda: _atom(Extremum, (4,), kind="min", choices=(N,)),
        lambda: _atom(Extremum, (4,), kind="median", choices=(N, M)),
        lambda: index(Var(choices.integer(0, 2), "i")),
        lambda: size(choose(choices, ("x", "A", "nowhere"))),
        lambda: forged(Index, of, terms=(N + ONE).terms),
        lambda: forged(Index, ZERO, terms=of.terms),
        lambda: forged(Index, of, terms=choose(choices, ((), None, "n", ((),)))),
    )
    return choose(choices, made)()


def damaged_predicate(choices: Choices, setting: Setting, of: Predicate) -> Predicate:
    """A condition that is not made as they are."""
    wrong = damaged_index(choices, setting, N)
    unlike = less(N, N)
    lying = NonNegative(N - 1)
    object.__setattr__(lying, "opposite", choose(choices, (TRUE, of)))
    made: tuple[Any, ...] = (
        forged(NonNegative, expression=wrong),
        forged(NonNegative, of, expression=wrong),
        forged(All, TRUE, parts=(of,)),
        forged(All, of, parts=()),
        forged(All, parts=(N, 3)),
        forged(type(unlike), TRUE, **{"parts": ()} if hasattr(unlike, "parts") else {"expression": N - 1}),
        lying,
    )
    chosen: Predicate = choose(choices, made)
    return chosen


# -- terms ------------------------------------------------------------------------------------------------------------


def damaged_term(choices: Choices, setting: Setting, of: Expr) -> Expr:
    """A tensor expression that is not made as they are; often it claims to be this one."""
    dtype, wrong = setting.dtype, damaged_index(choices, setting, N)
    x: Any = Input(setting.inputs["x"])
    scalar = Type(dtype, ())
    literal: Any = choose(choices, (inf, -inf, nan, True, "1", None, 10**400, 0.5))
    rank = of.type.rank
    endless = _literal(literal, dtype, rank, of)
    made: tuple[Callable[[], Any], ...] = (
        lambda: endless,
        lambda: endless,
        lambda: Binary("add", Binary("sub", endless, endless), of),
        lambda: Binary("add", Binary("sub", endless, endless), of),
        lambda: forged(Local, position=-1, of=of.type, type=of.type, source=None),
        lambda: Local(choices.integer(0, 1), Type(dtype, tuple(extent + 1 for extent in of.type.shape))),
        lambda: TensorVar(7, "x", of.type),
        lambda: Metavariable(7, "e", of.type),
        lambda: Let(x, Local(0, of.type)),
        lambda: forged(Unary, of, op="neg", operand=of),
        lambda: forged(Unary, of, op="sin", operand=of),
        lambda: forged(Binary, of, op="add", left=of, right=Unary("neg", of)),
        lambda: forged(Binary, like_type(of), op="add", left=of, right=x),
        lambda: forged(Guard, of, predicate=damaged_predicate(choices, setting, TRUE), body=of),
        lambda: forged(Gen, of, low=ZERO, high=wrong, body=of, name="i", mark=None),
        lambda: forged(Reduce, of, monoid="median", low=ZERO, high=N, body=of, name="i", mark=None),
        lambda: Guard(damaged_predicate(choices, setting, TRUE), of),
        lambda: Access(of, wrong) if rank else Value(wrong, dtype),
        lambda: Access(x, wrong) if not rank else of,
        lambda: Padding(Type(dtype, tuple(constant(-1) for _ in of.type.shape))),
        lambda: Padding(Type(dtype, tuple(N - M for _ in of.type.shape))),
        lambda: Input(Array("x", of.type.shape, dtype)),
        lambda: Input(Array("nowhere", (), dtype)),
        lambda: forged(Input, of, array=setting.inputs["A"]),
        lambda: forged(Padding, of=scalar, type=of.type, source=None),
        lambda: _hiding(of),
    )
    chosen: Expr = choose(choices, made)()
    return chosen


def _literal(value: Any, dtype: str, rank: int, of: Expr) -> Any:
    """A literal of this value, as large as a term."""
    made = forged(Constant, value=value, dtype=dtype, type=Type(dtype, ()), source=None)
    for extent in reversed(of.type.shape[:rank]):
        made = Gen(ZERO, extent, made)
    return made


def like_type(of: Expr) -> Any:
    """What a forged node of the same type has, but for the identity."""
    made = forged(type(of), of)
    object.__setattr__(made, "identity", identity(("forged", of.identity)))
    return made


def _hiding(of: Expr) -> Expr:
    """A node that shows other parts than it has."""
    made = Unary("neg", of)
    other = Unary("neg", Unary("neg", of))
    children(made)
    object.__setattr__(made, "below", children(other))
    return made


# -- arguments and programs -------------------------------------------------------------------------------------------


def damaged(choices: Choices, setting: Setting, argument: Argument) -> Argument:
    """An argument of which something is not made as it should be; as it is where what is broken falls apart."""
    try:
        return _damaged(choices, setting, argument)
    except Exception:  # noqa: BLE001 (constructors met what is broken)
        return argument


def _damaged(choices: Choices, setting: Setting, argument: Argument) -> Argument:
    match argument:
        case Index():
            wrong = damaged_index(choices, setting, argument)
            return _sum(argument, wrong) if chance(choices, 20) else wrong
        case Function(parameters, body):
            if chance(choices, 10):
                odd: Any = choose(choices, ((3,), ("index",) * 3, (Type("float", (N,)),), ("tensor",)))
                return Function(odd, body)
            return Function(parameters, _damaged_body(choices, setting, body))
        case _:
            return _damaged_body(choices, setting, argument)


def _sum(a: Index, b: Index) -> Index:
    return _terms(*a.terms, *(b.terms if type(b.terms) is tuple else ()))


def _damaged_body(choices: Choices, setting: Setting, body: Expr | Predicate) -> Expr | Predicate:
    if is_predicate(body):
        return damaged_predicate(choices, setting, body)
    return damaged_somewhere(choices, setting, cast("Expr", body))


def damaged_somewhere(choices: Choices, setting: Setting, term: Expr) -> Expr:
    """The term with one of its parts damaged."""
    below = children(term)
    if not below or chance(choices, 35):
        return damaged_term(choices, setting, term)
    at = choices.integer(0, len(below) - 1)
    parts = [child.expr for child in below]
    parts[at] = damaged_somewhere(choices, setting, parts[at])
    return with_children(term, tuple(parts))


def damaged_program(choices: Choices, setting: Setting, program: Program) -> Program:
    """The program with a part, an input or an assumption damaged; as it is where what is broken falls apart."""
    try:
        return _damaged_program(choices, setting, program)
    except Exception:  # noqa: BLE001
        return program


def _damaged_program(choices: Choices, setting: Setting, program: Program) -> Program:
    match choices.integer(0, 5):
        case 0:
            wrong = damaged_predicate(choices, setting, TRUE)
            return Program("p", program.inputs, program.body, (*program.assumptions, wrong))
        case 1 if program.inputs:
            array = choose(choices, program.inputs)
            odd: dict[str, Any] = choose(
                choices,
                (
                    {"low": N, "high": ZERO},
                    {"monotonic": "increasing"},
                    {"shape": ()},
                    {"shape": (constant(-1),)},
                    {"dtype": "no"},
                ),
            )
            told = {
                name: getattr(array, name) for name in ("name", "shape", "dtype", "low", "high", "monotonic", "between")
            }
            lying = forged(Array, array, **{**told, **odd})
            inputs = tuple(lying if own is array else own for own in program.inputs)
            return Program("p", inputs, program.body, program.assumptions)
        case _:
            body = damaged_somewhere(choices, setting, program.body)
            return Program("p", program.inputs, body, program.assumptions)
