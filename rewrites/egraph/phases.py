"""Table of rule phases: when a search applies each rule, in each direction. Rules are only named here.

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
from rewrites.named_operators import AMOUNTS, FUNCTIONS_ZERO_AT_ZERO, MATRIX_OPERATORS, PADS_AND_TRUNCATIONS
from rewrites.rules import RULES
from rewrites.rules.bounded import OVER_REALS
from rewrites.tactics.simplification import OF_ACCESSES


class Phase(Enum):
    """The phase in which a search applies a rule in one direction."""

    NORMAL = "normal form"
    """Part of the normal form in which every term enters."""
    UNFOLDED = "unfolded form"
    """Part of the normal form when programs are compared, where everything is computed at its use."""
    EXPLORED = "exploration"
    """Explored wherever the rule applies."""
    COMPARED = "comparison"
    """Explored only when programs are compared, after all else is saturated."""
    ENUMERATED = "with a enumerator"
    """Explored with arguments from a parameter enumerator."""
    ON_REQUEST = "with a enumerator, when asked"
    """Like `ENUMERATED`, but only if the user names the rule: it finds good schedules but multiplies the classes."""
    INITIAL = "once"
    """Applied once before a comparison, at known places with known arguments."""
    UNUSED = "not used"
    """Not used by default, for the reason in `why`; `s.saturate(rules=[…])` may still name the rule."""


@dataclass(frozen=True, slots=True)
class DirectedRule:
    """A rule in one direction: its phase, its parameter enumerator, or why it is unused."""

    rule: str
    reverse: bool = False
    phase: Phase = Phase.EXPLORED
    enumerator: str | None = None
    why: str = ""

    @property
    def name(self) -> str:
        """The name as written in this table."""
        return f"{self.rule}{'-' if self.reverse else '+'}"


NORMAL: Final = (
    # Compute elements where they are read.
    *(f"{name}+" for name in OF_ACCESSES if name not in ("get_gen", "get_gen_guarded", "transpose_access")),
    "get_gen+", "get_gen_guarded+", "transpose_access+",
    # Decide and merge conditions, and move them to the stored expression.
    "guard_true+", "guard_false+", "guard_guard+", "guard_padding+", "select_true+", "select_false+", "select_same+",
    "select_padding+", "guard_gen+", "guard_concat+", "guard_mul_left+", "guard_mul_right+", "guard_div_left+",
    # Remove padding and identities.
    "nothing_add+", "add_nothing+", "mul_padding+", "sum_padding+", "place_of_padding+",
    *(f"{op}_of_padding+" for op in (*MATRIX_OPERATORS, *AMOUNTS)), *(f"{op}_zero+" for op in PADS_AND_TRUNCATIONS),
    *(f"{monoid}_empty+" for monoid in MONOIDS), *(f"{monoid}_one+" for monoid in MONOIDS),
    "transpose_transpose+", "truncr_flatten_split+", "flatten_split+", "split_flatten+", "truncr_padr+", "truncl_padl+",
    "concat_empty_left+", "concat_empty_right+", "truncr_of_concat+", "truncl_of_concat+", "let_unused+",
    "add_zero+", "mul_one+", "mul_zero+", "neg_neg+", "sub_self+", "min_same+", "max_same+", "unshear_shear+",
)  # fmt: skip
"""Rules that shrink a term or move nodes one way, from left to right; tried in this order."""

NORMAL_WITH_PARAMETERS: Final = MappingProxyType(
    {
        "guard_implied+": "dropped conditions",
        "guard_equivalent+": "smaller conditions",
        "equal_index+": "smaller indices",
    }
)
"""Rules of the normal form that need arguments, with their enumerators."""

UNFOLDED: Final = (
    # A guard inside arithmetic or a sum does not make padding, so schedules keep it outside.
    "sum_guard+", "guard_add+", "guard_sub+", *(f"guard_{op}+" for op in FUNCTIONS_ZERO_AT_ZERO),
    "unfold_let+", "transpose_row+", *(f"unfold_{op}+" for op in OPERATORS_BY_WORD), "unfold_concat+",
    *(f"{monoid}_rebase+" for monoid in MONOIDS), "sum_add+", "sum_sub+", "select_guards+", "gen_rebase+",
)  # fmt: skip
"""Rules of the normal form only for comparisons, where programs are unfolded to their elements."""

EXPLORED: Final = (
    "unfold_let+", "gen_interchange+", "sum_swap+", "sum_gen_swap+", "sum_gen_swap-", "sum_delta+", "sum_delta_only+",
    "sum_restrict+", "ll_gen_indep+", "ll_sum_indep+", "ll_guard+", "ll_gen+", "max_swap+", "min_swap+",
    "product_swap+",
)  # fmt: skip
"""Rules that a search tries wherever they match."""

COMPARED: Final = (
    "sum_mul_left+", "sum_mul_right+", "sum_mul_left-", "sum_mul_right-", "mul_add-", "add_mul-", "sum_add-",
    *(f"{op}_comm+" for op in ("add", "mul", "min", "max")),
    *(f"{op}_assoc{way}" for op in ("add", "mul", "min", "max") for way in "+-"),
    "mul_add+", "add_mul+", "sub_neg+", *(f"{monoid}_reverse+" for monoid in MONOIDS),
)  # fmt: skip
"""Rules added to a comparison after all else is saturated."""

ENUMERATED: Final = MappingProxyType({"tile_gen+": "tiles", "tile_sum+": "tiles", "sum_delta_only-": "deltas"})
"""Rules that a search tries with enumerated arguments."""

ON_REQUEST: Final = MappingProxyType({"split_gen+": "cuts"})
"""Rules tried with enumerated arguments if the user names them."""

INITIAL: Final = ("gen_eta-", "guard_cases+")
"""Rules applied before a comparison: expand to generations of elements, and split into cases."""


ANY_TERM: Final = (
    "get_gen-", "gen_eta-", "concat_empty_left-", "concat_empty_right-", "sum_delta_within-", "sum_one-",
    "product_one-", "max_one-", "min_one-", "guard_true-", "guard_cases+", "nothing_add-", "add_nothing-",
    "select_true-", "select_false-", "select_same-", "unfold_let-", "let_unused-", "transpose_transpose-",
    "truncr_flatten_split-", "flatten_split-", "split_flatten-", "truncr_padr-", "truncl_padl-", "padl_zero-",
    "padr_zero-", "truncl_zero-", "truncr_zero-", "truncr_of_concat-", "truncl_of_concat-", "concat_truncations+",
    "unshear_shear-", "equal_index-", "min_same-", "max_same-", "add_zero-", "mul_one-", "neg_neg-", "rec_empty-",
    "where_same-", "where_true-", "where_false-",
)  # fmt: skip
"""Rules that match any term, and so would apply everywhere."""

UNDERDETERMINED: Final = (
    "get_gen_guarded-", "concat_access_left-", "concat_access_right-", "flatten_access-", "flatten_access_at+",
    "split_access-", "padl_access-", "padr_access-", "truncl_access-", "truncr_access-", "padding_access-",
    "gen_rebase-", "gen_shift+", "gen_shift-", "gen_empty-", "gen_one-", "split_gen_twice+", "gen_collapse-",
    "tile_gen-", "truncr_of_gen-", "truncl_of_gen-", "gen_trunc+", "gen_trunc-", "gen_trunc_guarded+",
    "gen_trunc_guarded-", "sum_delta-", "sum_restrict-", "sum_constant-", "sum_padding-", "split_sum+", "tile_sum-",
    "let_sum_steps-", "gen_as_guarded_place-", "where_count-",
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
    "max_repeat+", "max_repeat-", "min_repeat+", "min_repeat-", "rec_one-", "rec_split+", "rec_split-",
    "rec_get_first-", "rec_get-", "rec_truncate+", "rec_truncate-", "rec_column+", "rec_blocks+", "rec_blocks-",
    "rec_strips+", "rec_strips-", "exp_rescale-", "sum_exp_rescale-", "weighted_sum_exp_rescale-",
    "adjoint_of_padding-", "adjoint_of_split-", "adjoint_of_padr-", "adjoint_of_place-",
)  # fmt: skip
"""Rules whose matched side does not determine all parameters, or is not a pattern, and that have no enumerator."""

NON_TERMINATING: Final = (
    "gen_bounds+", "gen_step+", "sum_step+", "guard_twice+", "access_guard+", "let_let_same-", "let_guard+",
    "transpose_access-", "transpose_of_padding-", "place_place-",
    "flatten_of_tiles+", "where_not-", "adjoint_of_gen-", "adjoint_of_access+",
    "max_of_few+", "min_of_few+",
)  # fmt: skip
"""Rules that apply to their own results without end."""


def _stated() -> Iterator[DirectedRule]:
    def named(name: str, phase: Phase, enumerator: str | None = None) -> DirectedRule:
        return DirectedRule(name[:-1], name[-1] == "-", phase, enumerator)

    yield from (named(name, Phase.NORMAL) for name in NORMAL)
    yield from (named(name, Phase.NORMAL, enumerator) for name, enumerator in NORMAL_WITH_PARAMETERS.items())
    yield from (named(name, Phase.UNFOLDED) for name in UNFOLDED)
    yield from (named(name, Phase.EXPLORED) for name in EXPLORED)
    yield from (named(name, Phase.COMPARED) for name in COMPARED)
    yield from (named(name, Phase.ENUMERATED, enumerator) for name, enumerator in ENUMERATED.items())
    yield from (named(name, Phase.ON_REQUEST, enumerator) for name, enumerator in ON_REQUEST.items())
    yield from (named(name, Phase.INITIAL) for name in INITIAL)


def _unused(used: Sequence[DirectedRule]) -> Iterator[DirectedRule]:
    names = {use.name for use in used}
    back = {
        use.name[:-1] + ("+" if use.reverse else "-") for use in used if use.phase in (Phase.NORMAL, Phase.UNFOLDED)
    }
    for rule in RULES:
        for sign in "+-":
            name = rule + sign
            if name in names:
                continue
            if rule in OVER_REALS:
                why = "it holds over the real numbers, and an exponential on one side may overflow"
            elif name in ANY_TERM:
                why = "it matches every term"
            elif name in UNDERDETERMINED:
                why = "the matched side does not determine all parameters, and no enumerator finds them"
            elif name in NON_TERMINATING:
                why = "it applies to its own result without end"
            elif name in back:
                why = "it undoes the normal form"
            else:
                why = "untested: no schedule so far needs it, and it would multiply the classes"
            yield DirectedRule(rule, sign == "-", Phase.UNUSED, why=why)


_USED: Final = tuple(_stated())
TABLE: Final[Sequence[DirectedRule]] = (*_USED, *_unused(_USED))
"""Every rule in both directions; used rules come first, in the order in which they are tried."""


def directed_rules(*phases: Phase) -> tuple[DirectedRule, ...]:
    """Return the rules with these phases."""
    return tuple(use for use in TABLE if use.phase in phases)


def requested_rules(rules: Sequence[str]) -> tuple[DirectedRule, ...]:
    """Return the rules named by the user: with `+` or `-` for a direction, otherwise from left to right."""
    if not isinstance(rules, list | tuple) or not all(isinstance(each, str) for each in rules):
        raise InvalidArgument(
            f"rules={brief(rules)}",
            required="a list of rule names",
            suggestions=(f"[{rules!r}]",) if isinstance(rules, str) else (),
        )
    found = []
    known = {use.name: use for use in TABLE if use.phase in (Phase.ENUMERATED, Phase.ON_REQUEST)}
    for given in rules:
        name = given if given[-1:] in ("+", "-") else f"{given}+"
        if name[:-1] not in RULES:
            raise unknown_name("rule", name[:-1], RULES, required="a rule listed by `atl rules`")
        found.append(known.get(name, DirectedRule(name[:-1], name[-1] == "-")))
    return tuple(found)
