"""The table of uses: what a search does with each rule, in each direction. No rule is stated here; rules are named.

`+` after a name is the rule from left to right, `-` from right to left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final

from atl.core.terms import MONOIDS, OPERATORS_BY_WORD
from atl.errors import InvalidArgument, brief
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
    ASKED = "with a supply, when asked"
    """As that, but only where a person names the rule: it finds good schedules, and multiplies the classes."""
    ONCE = "once"
    """It is applied where programs begin to be compared, at places that are known, with arguments that are known."""
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
    "unfold_let+", "transpose_row+", *(f"unfold_{op}+" for op in OPERATORS_BY_WORD), "unfold_concat+",
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
    *(f"{op}_comm+" for op in ("add", "mul", "min", "max")),
    *(f"{op}_assoc{way}" for op in ("add", "mul", "min", "max") for way in "+-"),
    "mul_add+", "add_mul+", "sub_neg+", *(f"{monoid}_reverse+" for monoid in MONOIDS),
)  # fmt: skip
"""What is tried as well where programs are compared and all else has been found."""

SUPPLIED: Final = MappingProxyType({"tile_gen+": "tiles", "tile_sum+": "tiles", "sum_delta_only-": "deltas"})
"""What a search tries with arguments that a supply gives."""

ASKED: Final = MappingProxyType({"split_gen+": "cuts"})
"""What it tries with such arguments when it is asked to."""

ONCE: Final = ("gen_eta-", "guard_cases+")
"""What is done before programs are compared: they become generations of elements, and these are cut into cases."""


ANY_TERM: Final = (
    "get_gen-", "gen_eta-", "concat_empty_left-", "concat_empty_right-", "sum_delta_within-", "sum_one-",
    "product_one-", "max_one-", "min_one-", "guard_true-", "guard_cases+", "nothing_add-", "add_nothing-",
    "select_true-", "select_false-", "select_same-", "unfold_let-", "let_unused-", "transpose_transpose-",
    "truncr_flatten_split-", "flatten_split-", "split_flatten-", "truncr_padr-", "truncl_padl-", "padl_zero-",
    "padr_zero-", "truncl_zero-", "truncr_zero-", "truncr_of_concat-", "truncl_of_concat-", "concat_truncations+",
    "unshear_shear-", "equal_index-", "min_same-", "max_same-", "add_zero-", "mul_one-", "neg_neg-",
)  # fmt: skip
"""The side to be rewritten may be any term: these would apply everywhere."""

ASKS: Final = (
    "get_gen_guarded-", "concat_access_left-", "concat_access_right-", "flatten_access-", "flatten_access_at+",
    "split_access-", "padl_access-", "padr_access-", "truncl_access-", "truncr_access-", "padding_access-",
    "gen_rebase-", "gen_shift+", "gen_shift-", "gen_empty-", "gen_one-", "split_gen_twice+", "gen_collapse-",
    "tile_gen-", "truncr_of_gen-", "truncl_of_gen-", "gen_trunc+", "gen_trunc-", "gen_trunc_guarded+",
    "gen_trunc_guarded-", "sum_delta-", "sum_restrict-", "sum_constant-", "sum_padding-", "split_sum+", "tile_sum-",
    "sum_empty-", "product_empty-", "max_empty-", "min_empty-", "sum_rebase-", "product_rebase-", "max_rebase-",
    "min_rebase-", "sum_shift+", "sum_shift-", "product_shift+", "product_shift-", "max_shift+", "max_shift-",
    "min_shift+", "min_shift-", "sum_reverse-", "product_reverse-", "max_reverse-", "min_reverse-",
    "split_product+", "split_min+", "split_max+", "sum_collapse-", "product_collapse-", "max_collapse-",
    "min_collapse-", "guard_false-", "guard_implied-", "guard_mul+", "guard_equivalent-", "guard_guard-", "guard_or-",
    "guard_padding-", "let_let+", "let_let-", "let_let_flip+", "let_let_flip-", "ll_gen-", "ll_gen_bound-",
    "ll_sum-", "ll_product-", "ll_max-", "ll_min-", "tlet_f_bound_body+", "tlet_f_bound_body-", "let_of_transpose-",
    "let_of_flatten-", "let_of_split-", "let_of_padl-", "let_of_padr-", "let_of_truncl-", "let_of_truncr-",
    "flatten_gen_gen-", "flatten_of_padding-", "split_of_padding-", "padl_of_padding-", "padr_of_padding-",
    "truncl_of_padding-", "truncr_of_padding-", "padl_twice-", "padr_twice-", "truncl_twice-", "truncr_twice-",
    "flatten_split_padr-", "split_of_gen-", "flatten_of_gen-", "place_access-", "gen_as_place-",
    "place_of_padding-", "flatten_of_places-", "split_of_place-", "padl_of_place-", "padr_of_place-",
    "truncl_of_place-", "truncr_of_place-", "truncl_past_place-", "truncr_past_place-", "access_at+", "access_at-",
    "gen_range+", "gen_range-", "sum_range+", "sum_range-", "product_range+", "product_range-", "max_range+",
    "max_range-", "min_range+", "min_range-", "split_by+", "split_by-", "padl_by+", "padl_by-", "padr_by+",
    "padr_by-", "truncl_by+", "truncl_by-", "truncr_by+", "truncr_by-", "place_by+", "place_by-", "mul_padding-",
    "mul_zero-", "sub_self-", "tile_product+", "tile_product-", "tile_max+", "tile_max-", "tile_min+", "tile_min-",
    "max_repeat+", "max_repeat-", "min_repeat+", "min_repeat-",
)  # fmt: skip
"""The side to be rewritten does not tell all parameters, or is no pattern; no supply gives them yet."""

FEEDS_ITSELF: Final = (
    "gen_bounds+", "gen_step+", "sum_step+", "guard_twice+", "access_guard+", "let_let_same-", "let_guard+",
    "transpose_access-", "transpose_of_padding-", "place_place-",
    "flatten_of_tiles+",
)  # fmt: skip
"""These apply to what they have made, again and again."""


def _stated() -> Iterator[Use]:
    def named(name: str, role: Role, supply: str | None = None) -> Use:
        return Use(name[:-1], name[-1] == "-", role, supply)

    yield from (named(name, Role.NORMAL) for name in NORMAL)
    yield from (named(name, Role.NORMAL, supply) for name, supply in NORMAL_WITH_SUPPLIES.items())
    yield from (named(name, Role.UNFOLDED) for name in UNFOLDED)
    yield from (named(name, Role.EXPLORED) for name in EXPLORED)
    yield from (named(name, Role.COMPARED) for name in COMPARED)
    yield from (named(name, Role.SUPPLIED, supply) for name, supply in SUPPLIED.items())
    yield from (named(name, Role.ASKED, supply) for name, supply in ASKED.items())
    yield from (named(name, Role.ONCE) for name in ONCE)


def _unused(used: Sequence[Use]) -> Iterator[Use]:
    names = {use.name for use in used}
    back = {use.name[:-1] + ("+" if use.reverse else "-") for use in used if use.role in (Role.NORMAL, Role.UNFOLDED)}
    for rule in RULES:
        for sign in "+-":
            name = rule + sign
            if name in names:
                continue
            if name in ANY_TERM:
                why = "it would apply to every term"
            elif name in ASKS:
                why = "its side does not tell all parameters, and no supply gives them"
            elif name in FEEDS_ITSELF:
                why = "it applies to what it has made, without end"
            elif name in back:
                why = "it undoes what the normal form does"
            else:
                why = "untried: no schedule that was searched for has asked for it, and it would multiply the classes"
            yield Use(rule, sign == "-", Role.UNUSED, why=why)


_USED: Final = tuple(_stated())
TABLE: Final[Sequence[Use]] = (*_USED, *_unused(_USED))
"""Every rule in both directions; what is used comes first, in the order in which it is tried."""


def uses(*roles: Role) -> tuple[Use, ...]:
    """The uses with these roles."""
    return tuple(use for use in TABLE if use.role in roles)


def chosen_uses(rules: Sequence[str]) -> tuple[Use, ...]:
    """What a person asks to be explored: names of rules, with `+` or `-` for one direction, without for from left."""
    if not isinstance(rules, list | tuple) or not all(isinstance(each, str) for each in rules):
        raise InvalidArgument(
            f"rules={brief(rules)}",
            required="a list of names of rules",
            suggestions=(f"[{rules!r}]",) if isinstance(rules, str) else (),
        )
    found = []
    known = {use.name: use for use in TABLE if use.role in (Role.SUPPLIED, Role.ASKED)}
    for given in rules:
        name = given if given[-1:] in ("+", "-") else f"{given}+"
        if name[:-1] not in RULES:
            raise unknown_name("rule", name[:-1], RULES, required="a name listed by `atl rules`")
        found.append(known.get(name, Use(name[:-1], name[-1] == "-")))
    return tuple(found)
