"""Malformed nodes, made field by field without a constructor. The kernel must rebuild or refuse them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf, nan
from typing import Any, Final, cast

from atl.core import terms as tm
from atl.core.index import ONE, ZERO, Array, Bound, Extremum, Index, Quotient, Read, Size, Var, constant, index, size
from atl.core.node import NOTHING_FREE, Node, identity
from atl.core.predicate import TRUE, All, NonNegative, Predicate, is_predicate, less
from atl.core.program import Program
from atl.core.substitution import with_children
from atl.core.traversal import children
from proofs_tests.attacks.declarations import Declarations, M, N
from proofs_tests.programs.choices import Choices, chance, choose
from rewrites.rule_arguments import Argument, Function

DERIVED: Final = ("identity", "depth", "size", "loose", "loose_tensors", "free", "type", "source")


def forged(of: type[Node], like: Any = None, /, **fields: Any) -> Any:
    """Return a node of a class with these fields. The other attributes are those of `like`, or new ones."""
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


def _index_of(*terms: Any) -> Index:
    """Return an index expression with these terms, in any form."""
    made: Index = object.__new__(Index)
    object.__setattr__(made, "terms", terms)
    made._seal_terms()
    return made


def _atom(of: type[Node], order: tuple[object, ...], **fields: Any) -> Index:
    made = forged(of, order=order, **fields)
    return _index_of(((made,), 1))


def _bound(position: Any) -> Index:
    return _atom(Bound, (1, 0), position=position)


def _read(array: Array, *indices: Index) -> Index:
    return _atom(Read, (5, array.order), array=array, indices=indices)


def damaged_index(choices: Choices, declarations: Declarations, of: Index) -> Index:
    """Return a malformed index expression, often with the identity of `of`."""
    integers, reals = declarations.inputs["A"], declarations.inputs["x"]
    doubled = choose(choices, (Size("n"), Size("m")))
    made: tuple[Callable[[], Index], ...] = (
        lambda: _index_of(((doubled,), 3), ((doubled,), -1)),
        lambda: _index_of(((doubled,), 2), ((doubled,), -2)),
        lambda: _index_of(((), 2), ((), -1)),
        lambda: _index_of(((doubled,), True)),
        lambda: _index_of(((doubled,), 0)),
        lambda: _index_of(((), 0.5)),
        lambda: _index_of(((Size("n"), Size("m")), 1), ((Size("m"), Size("n")), -1)),
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


def damaged_predicate(choices: Choices, declarations: Declarations, of: Predicate) -> Predicate:
    """Return a malformed condition."""
    wrong = damaged_index(choices, declarations, N)
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


def damaged_term(choices: Choices, declarations: Declarations, of: tm.Expr) -> tm.Expr:
    """Return a malformed tensor expression, often with the identity of `of`."""
    dtype, wrong = declarations.dtype, damaged_index(choices, declarations, N)
    x: Any = tm.Input(declarations.inputs["x"])
    scalar = tm.Type(dtype, ())
    literal: Any = choose(choices, (inf, -inf, nan, True, "1", None, 10**400, 0.5))
    rank = of.type.rank
    endless = _literal(literal, dtype, rank, of)
    made: tuple[Callable[[], Any], ...] = (
        lambda: endless,
        lambda: endless,
        lambda: tm.Binary("add", tm.Binary("sub", endless, endless), of),
        lambda: tm.Binary("add", tm.Binary("sub", endless, endless), of),
        lambda: forged(tm.Local, position=-1, of=of.type, type=of.type, source=None),
        lambda: tm.Local(choices.integer(0, 1), tm.Type(dtype, tuple(extent + 1 for extent in of.type.shape))),
        lambda: tm.TensorVar(7, "x", of.type),
        lambda: tm.Metavariable(7, "e", of.type),
        lambda: tm.Let(x, tm.Local(0, of.type)),
        lambda: forged(tm.Unary, of, op="neg", operand=of),
        lambda: forged(tm.Unary, of, op="sin", operand=of),
        lambda: forged(tm.Binary, of, op="add", left=of, right=tm.Unary("neg", of)),
        lambda: forged(tm.Binary, like_type(of), op="add", left=of, right=x),
        lambda: forged(tm.Guard, of, predicate=damaged_predicate(choices, declarations, TRUE), body=of),
        lambda: forged(tm.Gen, of, low=ZERO, high=wrong, body=of, name="i", mark=None),
        lambda: forged(tm.Reduce, of, monoid="median", low=ZERO, high=N, body=of, name="i", mark=None),
        lambda: tm.Guard(damaged_predicate(choices, declarations, TRUE), of),
        lambda: tm.Access(of, wrong) if rank else tm.Value(wrong, dtype),
        lambda: tm.Access(x, wrong) if not rank else of,
        lambda: tm.Padding(tm.Type(dtype, tuple(constant(-1) for _ in of.type.shape))),
        lambda: tm.Padding(tm.Type(dtype, tuple(N - M for _ in of.type.shape))),
        lambda: tm.Input(Array("x", of.type.shape, dtype)),
        lambda: tm.Input(Array("nowhere", (), dtype)),
        lambda: forged(tm.Input, of, array=declarations.inputs["A"]),
        lambda: forged(tm.Padding, of=scalar, type=of.type, source=None),
        lambda: _with_other_children(of),
    )
    chosen: tm.Expr = choose(choices, made)()
    return chosen


def _literal(value: Any, dtype: str, rank: int, of: tm.Expr) -> Any:
    """Return a literal with this value and the shape of a term."""
    made = forged(tm.Constant, value=value, dtype=dtype, type=tm.Type(dtype, ()), source=None)
    for extent in reversed(of.type.shape[:rank]):
        made = tm.Gen(ZERO, extent, made)
    return made


def like_type(of: tm.Expr) -> Any:
    """Return a node with the attributes of `of`, except its identity."""
    made = forged(type(of), of)
    object.__setattr__(made, "identity", identity(("forged", of.identity)))
    return made


def _with_other_children(of: tm.Expr) -> tm.Expr:
    """Return a node whose cached children are not its parts."""
    made = tm.Unary("neg", of)
    other = tm.Unary("neg", tm.Unary("neg", of))
    children(made)
    object.__setattr__(made, "below", children(other))
    return made


def damaged(choices: Choices, declarations: Declarations, argument: Argument) -> Argument:
    """Return a malformed argument, or the argument if a constructor fails."""
    try:
        return _damaged(choices, declarations, argument)
    except Exception:  # noqa: BLE001 (a constructor failed)
        return argument


def _damaged(choices: Choices, declarations: Declarations, argument: Argument) -> Argument:
    match argument:
        case Index():
            wrong = damaged_index(choices, declarations, argument)
            return _sum(argument, wrong) if chance(choices, 20) else wrong
        case Function(parameters, body):
            if chance(choices, 10):
                odd: Any = choose(choices, ((3,), ("index",) * 3, (tm.Type("float", (N,)),), ("tensor",)))
                return Function(odd, body)
            return Function(parameters, _damaged_body(choices, declarations, body))
        case _:
            return _damaged_body(choices, declarations, argument)


def _sum(a: Index, b: Index) -> Index:
    return _index_of(*a.terms, *(b.terms if type(b.terms) is tuple else ()))


def _damaged_body(choices: Choices, declarations: Declarations, body: tm.Expr | Predicate) -> tm.Expr | Predicate:
    if is_predicate(body):
        return damaged_predicate(choices, declarations, body)
    return damaged_somewhere(choices, declarations, cast("tm.Expr", body))


def damaged_somewhere(choices: Choices, declarations: Declarations, term: tm.Expr) -> tm.Expr:
    """Return the term with one malformed part."""
    below = children(term)
    if not below or chance(choices, 35):
        return damaged_term(choices, declarations, term)
    at = choices.integer(0, len(below) - 1)
    parts = [child.expr for child in below]
    parts[at] = damaged_somewhere(choices, declarations, parts[at])
    return with_children(term, tuple(parts))


def damaged_program(choices: Choices, declarations: Declarations, program: Program) -> Program:
    """Return the program with a malformed part, input or assumption, or the program if a constructor fails."""
    try:
        return _damaged_program(choices, declarations, program)
    except Exception:  # noqa: BLE001
        return program


def _damaged_program(choices: Choices, declarations: Declarations, program: Program) -> Program:
    match choices.integer(0, 5):
        case 0:
            wrong = damaged_predicate(choices, declarations, TRUE)
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
            fields = {
                name: getattr(array, name) for name in ("name", "shape", "dtype", "low", "high", "monotonic", "between")
            }
            lying = forged(Array, array, **{**fields, **odd})
            inputs = tuple(lying if own is array else own for own in program.inputs)
            return Program("p", inputs, program.body, program.assumptions)
        case _:
            body = damaged_somewhere(choices, declarations, program.body)
            return Program("p", program.inputs, body, program.assumptions)
