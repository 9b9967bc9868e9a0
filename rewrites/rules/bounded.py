"""Rules of the catalogue that are not proved for all sizes, that hold over the real numbers only, or that round.

Every rule holds in random samples (tested) and, for all element values, at every size and index of a small window
(bounded). All rules but those in `BOUNDED_ONLY` are proved for all sizes as well. Tests compare the lists with what is
proved and decided.
"""

from __future__ import annotations

from typing import Final

_OTHER_FOLDS: Final = "a fold other than a sum has no neutral element from which an induction could start"
BOUNDED_ONLY: Final[dict[str, str]] = {
    **{f"{monoid}_pairs": _OTHER_FOLDS for monoid in ("product", "max", "min")},
    **{f"split_{monoid}": _OTHER_FOLDS for monoid in ("product", "max", "min")},
    **{f"{monoid}_{each}": _OTHER_FOLDS for monoid in ("max", "min") for each in ("repeat", "of_few", "delta")},
    "where_count": "the number of terms is compared as a value on one side, and as an index on the other",
    "rec_blocks": "a row of a block is compared with the rows of the blocks before, which needs a second induction",
    "rec_strips": "a row of a block is compared with the rows of the blocks before, as for rec_blocks",
}  # fmt: skip
"""The rules that are bounded but not proved, and the reason."""

OVER_REALS: Final = frozenset({"exp_add", "exp_rescale", "sum_exp_rescale", "weighted_sum_exp_rescale"})
"""The rules whose proofs assume exp(0) = 1 and exp(a + b) = exp(a) * exp(b), which hold over the real numbers."""


FINITE: Final = frozenset(
    (
        "div_access", "neg_access", "not_lt", "not_le", "sum_delta", "sum_delta_only", "sum_delta_within",
        "sum_neg", "sum_one", "max_reverse", "min_reverse", "max_swap", "min_swap", "min_pairs", "max_pairs",
        "guard_cases", "guard_or", "guard_neg", "guard_mul_left", "guard_mul_right", "guard_mul",
        "guard_div_left", "nothing_add", "add_nothing", "select_guards", "unfold_concat", "concat_pads",
        "gen_scatter", "place_of_div", "place_of_neg", "place_scaled", "min_comm", "max_comm", "mul_padding",
        "add_zero", "mul_zero", "sub_self", "neg_add", "adjoint_of_padding", "adjoint_of_padl",
        "adjoint_of_padr", "adjoint_of_truncl", "adjoint_of_truncr", "max_of_few", "min_of_few", "max_delta",
        "min_delta",
    )
)  # fmt: skip
"""Rules that keep the bits of finite floats, except the sign of a zero (`rewrites.rule_checking.exactness`)."""

ROUNDING: Final = frozenset(
    (
        "sum_add", "sum_sub", "sum_mul_left", "sum_mul_right", "sum_div", "sum_constant", "split_sum",
        "sum_step", "tile_sum", "sum_reverse", "product_reverse", "sum_swap", "product_swap", "split_product",
        "tile_product", "sum_collapse", "product_collapse", "product_pairs", "add_assoc", "mul_assoc",
        "mul_add", "add_mul", "mul_div", "add_div", "exp_add", "exp_rescale", "sum_exp_rescale",
        "weighted_sum_exp_rescale", "adjoint_of_add", "adjoint_of_sub", "adjoint_of_neg", "adjoint_of_mul",
        "adjoint_of_div", "adjoint_of_where", "adjoint_of_access", "adjoint_of_sum", "adjoint_of_guard",
        "adjoint_of_select", "adjoint_of_let", "adjoint_of_concat", "adjoint_of_transpose",
        "adjoint_of_flatten", "adjoint_of_split", "adjoint_of_place", "pairing_add", "pairing_sum",
        "pairing_guard", "pairing_let", "let_sum_steps",
    )
)  # fmt: skip
"""Rules whose sides may round floats differently. All other rules keep every bit."""


def exactness_name(name: str) -> str:
    """Return the exactness of a rule of the catalogue: "bits", "finite" or "rounds"."""
    return "rounds" if name in ROUNDING else "finite" if name in FINITE else "bits"


def status_name(name: str) -> str:
    """Return the proof status of a rule of the catalogue: "proved" or "bounded"."""
    return "bounded" if name in BOUNDED_ONLY else "proved"
