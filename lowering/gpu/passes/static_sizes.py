"""Replaces the sizes of a kernel's buffers by constant bounds where they depend on the block's position."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from atl.core.index import AnyAtom, Bound, Extremum, Index, Quotient, Read, Size, Var, Xor, constant, index
from atl.core.predicate import at_most
from atl.prove import Facts, proves
from lowering.nest import loopnest as ln


def with_static_capacities(block: ln.Block, facts: Facts) -> ln.Block:
    """Replace each capacity by a constant that is proved to be an upper bound."""
    return tuple(_statement(statement, facts) for statement in block)


def _statement(statement: ln.Statement, facts: Facts) -> ln.Statement:
    match statement:
        case ln.For(body=body):
            return ln.with_body(statement, with_static_capacities(body, facts.assume(statement.range)))
        case ln.If(predicate, body):
            return ln.If(predicate, with_static_capacities(body, facts.assume(predicate)))
        case ln.Allocate(capacity=capacity):
            bound = _least_constants(capacity)
            is_bound = bound.constant is not None and proves(facts, at_most(capacity, bound))
            return replace(statement, capacity=bound) if is_bound else statement
        case ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Clear() | ln.Free():
            return statement
    assert_never(statement)


def _least_constants(e: Index) -> Index:
    """Replace each minimum by its least constant operand, if it has one."""
    total = constant(0)
    for monomial, coefficient in e.terms:
        product = constant(coefficient)
        for atom in monomial:
            product = product * _of_atom(atom)
        total = total + product
    return total


def _of_atom(atom: AnyAtom) -> Index:
    match atom:
        case Extremum("min", choices):
            constants = [choice.constant for choice in choices if choice.constant is not None]
            return constant(min(constants)) if constants else index(atom)
        case Extremum() | Xor() | Size() | Var() | Bound() | Quotient() | Read():
            return index(atom)
    assert_never(atom)
