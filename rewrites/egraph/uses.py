"""The table of uses: what a search does with each rule, in each direction. No rule is stated here; rules are named.

`+` after a name is the rule from left to right, `-` from right to left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final

from atl.core.terms import MONOIDS, OPERATOR_CALLED
from atl.errors import WrongArgument
from rewrites.errors import unknown_name
from rewrites.named_operators import AMOUNTS, EXCHANGES, PADS_AND_TRUNCATIONS
from rewrites.rules import RULES
from rewrites.tactics.simplification import OF_ACCESSES


class Role(Enum):
    """What a search does with a rule in one direction."""

    NORMAL = "normal form"
    """It belongs to the normal form in which every term enters."""
    UNFOLDED = "unfolded form"
    """It belongs to the normal form too where programs are compared: there everything is computed where it is read."""
    EXPLORED = "exploration"
    """The search tries it wherever it applies."""
    COMPARED = "comparison"
    """Tried only where programs are compared, when all else has been found."""
    SUPPLIED = "with a supply"
    """The search tries it with the arguments that a supply gives."""
    UNUSED = "not used"
    """A search leaves it alone, for the reason given; `s.saturate(rules=[…])` may ask for it all the same."""


@dataclass(frozen=True, slots=True)
class Use:
    """A rule in one direction: what a search does with it, where missing arguments come from, or why it is unused."""

    rule: str
    reverse: bool = False
    role: Role = Role.EXPLORED
    supply: str | None = None
    why: str = ""

    @property
    def name(self) -> str:
        """As it is written in this table."""
        return f"{self.rule}{'-' if self.reverse else '+'}"


_SCALAR_OF_ZERO: Final = ("neg", "abs", "sqrt", "tanh")

NORMAL: Final = (
    # Elements are computed where they are read.
    *(f"{name}+" for name in OF_ACCESSES if name not in ("get_gen", "get_gen_guarded", "transpose_access")),
    "get_gen+", "get_gen_guarded+", "transpose_access+",
    # Conditions are decided and joined, and stand around what is stored.
    "guard_true+", "guard_false+", "guard_guard+", "guard_padding+", "select_true+", "select_false+", "select_same+",
    "select_padding+", "guard_gen+", "guard_concat+", "guard_mul_left+", "guard_mul_right+", "guard_div_left+",
    # What stores nothing, or does nothing, goes.
    "nothing_add+", "add_nothing+", "mul_padding+", "sum_padding+", "place_of_padding+",
    *(f"{op}_of_padding+" for op in (*EXCHANGES, *AMOUNTS)), *(f"{op}_zero+" for op in PADS_AND_TRUNCATIONS),
    *(f"{monoid}_empty+" for monoid in MONOIDS), *(f"{monoid}_one+" for monoid in MONOIDS),
    "transpose_transpose+", "truncr_flatten_split+", "flatten_split+", "split_flatten+", "truncr_padr+", "truncl_padl+",
    "concat_empty_left+", "concat_empty_right+", "truncr_of_concat+", "truncl_of_concat+", "let_unused+",
    "add_zero+", "mul_one+", "mul_zero+", "neg_neg+", "sub_self+", "min_same+", "max_same+", "unshear_shear+",
)  # fmt: skip
"""From left to right what shrinks, or moves one way; tried in this order."""

NORMAL_WITH_SUPPLIES: Final = MappingProxyType(
    {
        "guard_implied+": "dropped conditions",
        "guard_equivalent+": "smaller conditions",
        "equal_index+": "smaller indices",
    }
)
"""What belongs to the normal form and asks for arguments, with the supply that gives them."""

UNFOLDED: Final = (
    # A guard within arithmetic or a sum makes no padding, so that schedules keep it outside of these.
    "sum_guard+", "guard_add+", "guard_sub+", *(f"guard_{op}+" for op in _SCALAR_OF_ZERO),
    "unfold_let+", "transpose_row+", *(f"unfold_{op}+" for op in OPERATOR_CALLED), "unfold_concat+",
    *(f"{monoid}_rebase+" for monoid in MONOIDS), "sum_add+", "sum_sub+", "select_guards+", "gen_rebase+",
)  # fmt: skip
"""What belongs to the normal form only where programs are compared, each unfolded to its elements."""

EXPLORED: Final = (
    "unfold_let+", "gen_interchange+", "sum_swap+", "sum_gen_swap+", "sum_gen_swap-", "sum_delta+", "sum_delta_only+",
    "sum_restrict+", "ll_gen_indep+", "ll_sum_indep+", "ll_guard+", "ll_gen+", "max_swap+", "min_swap+",
    "product_swap+",
)  # fmt: skip
"""What a search tries wherever it matches."""

COMPARED: Final = (
    "sum_mul_left+", "sum_mul_right+", "sum_mul_left-", "sum_mul_right-", "mul_add-", "add_mul-", "sum_add-",
)  # fmt: skip
"""What is tried as well where programs are compared and all else has been found."""

SUPPLIED: Final = MappingProxyType(
    {"tile_gen+": "tiles", "tile_sum+": "tiles", "sum_delta_only-": "deltas", "split_gen+": "cuts"}
)
"""What a search tries with arguments that a supply gives."""


def _stated() -> Iterator[Use]:
    def named(name: str, role: Role, supply: str | None = None) -> Use:
        return Use(name[:-1], name[-1] == "-", role, supply)

    yield from (named(name, Role.NORMAL) for name in NORMAL)
    yield from (named(name, Role.NORMAL, supply) for name, supply in NORMAL_WITH_SUPPLIES.items())
    yield from (named(name, Role.UNFOLDED) for name in UNFOLDED)
    yield from (named(name, Role.EXPLORED) for name in EXPLORED)
    yield from (named(name, Role.COMPARED) for name in COMPARED)
    yield from (named(name, Role.SUPPLIED, supply) for name, supply in SUPPLIED.items())


TABLE: Final[Sequence[Use]] = tuple(_stated())
"""All that is used, in the order in which it is tried."""


def uses(*roles: Role, names: Sequence[str] | None = None) -> tuple[Use, ...]:
    """The uses with these roles, or those of them that are named, as `name+` or `name-`."""
    return tuple(use for use in TABLE if use.role in roles and (names is None or use.name in names))


def chosen_uses(rules: Sequence[str]) -> tuple[Use, ...]:
    """What a person asks to be explored: names of rules, with `+` or `-` for one direction, without for from left."""
    if isinstance(rules, str):
        raise WrongArgument(f"rules={rules!r}", required="a list of names of rules", suggestions=(f"[{rules!r}]",))
    found = []
    known = {use.name: use for use in TABLE if use.role is Role.SUPPLIED}
    for given in rules:
        name = given if given[-1:] in ("+", "-") else f"{given}+"
        if name[:-1] not in RULES:
            raise unknown_name("rule", name[:-1], RULES, required="a name listed by `atl rules`")
        found.append(known.get(name, Use(name[:-1], name[-1] == "-")))
    return tuple(found)
