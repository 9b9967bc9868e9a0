"""Facts about indices that their canonical form does not give by itself."""

from __future__ import annotations

from rewrites.rule import Body, Equation, Index, equation, given, rule


@rule(family="indices", source="[R] Div.v")
def equal_index(a: Index, b: Index, e: Body[Index]) -> Equation:
    """An index is replaced by an equal one."""
    return equation(e(a), e(b), given(a == b))
