"""How some rules were first worded.

A certificate names each rule by a hash of its text, words included. Where the words were made better since, and
nothing else, the hash is still that of the first words, so that certificates stay valid. Any other text, be it that its
words or its equation are changed again, has a hash of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

FIRST_LAWS: Final[Mapping[str, tuple[str, str]]] = {
    "concat_access_left": (
        "An element of a concatenation, within its first part, is the element of that part.",
        "An element of the first part of a concatenation.",
    ),
    "concat_access_right": (
        "An element of a concatenation, beyond its first part, is the element of the second part.",
        "An element of the second part of a concatenation.",
    ),
    "transpose_row": ("A row of a transpose is a column of the matrix.", "A row of a transpose is a column."),
    "flatten_access": (
        "Element k of a flattened matrix stands in row k // m and column k % m, where m is the length of a row.",
        "An element of a flattened matrix.",
    ),
    "flatten_access_at": (
        "Element i * m + j of a flattened matrix is that of row i and column j, where m is the length of a row.",
        "The element of a flattened matrix at row i and column j.",
    ),
    "split_access": (
        "Row i of a split holds the k elements from i * k on; the tail of the last row is padding.",
        "An element of a split tensor; the tail of the last row is padding.",
    ),
    "padl_access": (
        "An element of a tensor padded by k on the left is the one k places before, or padding where there is none.",
        "An element of a tensor padded on the left.",
    ),
    "padr_access": (
        "An element of a tensor padded on the right is the same one of the tensor, or padding beyond its end.",
        "An element of a tensor padded on the right.",
    ),
    "truncl_access": (
        "An element of a tensor whose first k elements are dropped is the one k places further on.",
        "An element of a tensor whose first ones are dropped.",
    ),
    "truncr_access": (
        "An element of a tensor whose last elements are dropped is the same one of the tensor.",
        "An element of a tensor whose last ones are dropped.",
    ),
    "select_access": (
        "An element of a selection between tensors is the selection between their elements.",
        "An element of what is selected.",
    ),
    "binary_access": (
        "An element of a sum, product … of tensors is the sum, product … of their elements.",
        "An element of a sum, product … of tensors is that of their elements.",
    ),
    "unary_access": (
        "An element of a function of a tensor is the function of the element, if the function keeps zero.",
        "An element of a function of a tensor that keeps zero is the function of the element.",
    ),
    "gen_rebase": ("A generation may be counted from zero.", "A generation counted from zero."),
    "gen_shift": (
        "The range of a generation may be moved, if its index is moved back.",
        "The indices of a generation moved.",
    ),
    "gen_bounds": (
        "The index of a generation lies within its range, as a guard around the element may say.",
        "An index is within its range.",
    ),
    "gen_one": (
        "A generation of one element may be counted from zero, its index replaced by the lower bound.",
        "A generation of one element.",
    ),
    "split_gen_twice": (
        "A generation is cut in three: prologue, main loop and epilogue.",
        "A generation in three: prologue, main loop and epilogue.",
    ),
    "gen_collapse": (
        "Two nested generations are computed by one loop, and stored as before.",
        "Two nested generations as one, stored as before.",
    ),
    "tile_gen": (
        "A generation is computed in tiles of k, the last one guarded, and stored as before.",
        "A generation in tiles of k, the last one guarded, stored as before.",
    ),
    "truncr_of_gen": (
        "A generation whose last k elements are dropped ends k earlier.",
        "A generation without its last elements.",
    ),
    "truncl_of_gen": (
        "A generation whose first k elements are dropped begins k later.",
        "A generation without its first elements.",
    ),
    "gen_trunc": (
        "The indices of a generation are moved up by k, and the k elements that come before are dropped.",
        "The index space of a generation moved up, and what comes before it dropped.",
    ),
    "gen_trunc_guarded": (
        "The indices of a generation are moved up by k; what comes before is not computed, and is dropped.",
        "The same, with nothing computed that is dropped.",
    ),
    "concat_empty_left": (
        "An empty tensor followed by another one is that other one.",
        "Nothing, followed by a tensor.",
    ),
    "concat_empty_right": ("A tensor followed by an empty one is the tensor itself.", "A tensor, followed by nothing."),
    "sum_delta_only": (
        "A sum of which only the term at a counts is that term, guarded by the range; in reverse it introduces a sum.",
        "The same with no further condition; in reverse it introduces a sum.",
    ),
    "sum_delta_within": (
        "A sum of which only the term at a counts, which is in range, is that term; in reverse it introduces a sum.",
        "A sum of which only the term at a counts, where a lies in its range; in reverse it introduces a sum.",
    ),
    "sum_mul_left": ("A common factor on the left leaves a sum.", "A common factor leaves a sum."),
    "tile_sum": (
        "A sum is added up in blocks of k terms, the last one guarded.",
        "A sum in blocks of k terms, the last one guarded.",
    ),
    "one": ("A sum, or another fold, of one term is that term.", "A sum, or another fold, of one term."),
    "rebase": ("A sum, or another fold, may be counted from zero.", "A sum, or another fold, counted from zero."),
    "shift": (
        "The range of a sum, or of another fold, may be moved, if its index is moved back.",
        "The indices of a sum, or of another fold, moved.",
    ),
    "reverse": (
        "A sum, or another fold, may run from its last term to its first.",
        "A sum, or another fold, from its last term to its first.",
    ),
    "collapse": (
        "Two nested sums, or other folds, are one over as many terms.",
        "Two nested sums, or other folds, as one.",
    ),
    "folds": (
        "A product of terms a * b is the product of all a times that of all b; and so for minima and maxima.",
        "A fold of pairs is the pair of the folds.",
    ),
    "guard_false": (
        "A tensor behind a guard that does not hold is padding: it is never stored.",
        "What a guard that does not hold stands before is never stored.",
    ),
    "guard_implied": (
        "A guard by two conditions does without the one that follows from the other.",
        "A condition that follows from another one drops.",
    ),
    "guard_equivalent": (
        "The condition of a guard is replaced by an equivalent one.",
        "A condition is replaced by an equivalent one.",
    ),
    "guard_guard": ("A guard around a guard is one guard, by both conditions.", "Two guards are one."),
    "guard_cases": (
        "A tensor is the sum of itself where a condition holds and of itself where it does not.",
        "A tensor where a condition holds, and where it does not.",
    ),
    "access_guard": (
        "An element is zero where there is none, so that an access may be guarded by its range.",
        "An element is zero where there is none.",
    ),
    "guard_access": ("An element of a guarded tensor is the guarded element.", "A guard goes in and out of an access."),
    "guard_mul_left": ("A guard on the left factor guards the product.", "A guarded factor guards the product."),
    "guard_mul_right": ("A guard on the right factor guards the product.", "A guarded factor guards the product."),
    "nothing_add": (
        "Padding, which is never stored, adds nothing on the left of a sum.",
        "Adding what is never stored does nothing.",
    ),
    "add_nothing": (
        "Padding, which is never stored, adds nothing on the right of a sum.",
        "Adding what is never stored does nothing.",
    ),
    "select_guards": (
        "A selection is the sum of its operands, each guarded by the condition under which it is selected.",
        "A selection is the sum of what is selected.",
    ),
    "select_padding": (
        "A selection between a tensor and padding is a guard.",
        "A guard selects between a tensor and padding.",
    ),
    "select_same": ("A selection between equal tensors is that tensor.", "A selection between equals is neither."),
    "select_not": (
        "A selection by the opposite condition is one with the operands exchanged.",
        "A selection by the opposite condition.",
    ),
    "select_unary": ("A selection leaves the operand of a function.", "A selection leaves a function."),
    "let_let_same": (
        "A tensor that is bound twice needs to be bound only once.",
        "A tensor that is bound twice is bound once.",
    ),
    "let_let": ("A let within what another let binds is bound before it.", "A let in what is bound leaves it."),
    "let_let_flip": (
        "A let within what another let binds takes the place of that let; the rest is computed where it is used.",
        "A let in what is bound is bound first, and the rest is computed where it is used.",
    ),
    "ll_gen": (
        "The tensors bound in each iteration of a generation are kept in one buffer, bound before it.",
        "The tensors bound in each iteration of a generation, in one buffer before it.",
    ),
    "ll_gen_bound": (
        "The tensors bound in each iteration of a generation, if only below k, need a buffer of these only.",
        "What is bound for the first indices only needs a buffer for these only.",
    ),
    "ll_fold": (
        "The tensors bound in each term of a sum, or of another fold, are kept in one buffer, bound before it.",
        "The tensors bound in each term of a sum, or of another fold, in one buffer before it.",
    ),
    "ll_unary": ("A let leaves the operand of a function.", "A let leaves a function."),
    "let_share": (
        "The operands of an operation, if both bind the same tensor, use one buffer.",
        "Both operands of an operation use one buffer.",
    ),
    "tlet_f_bound_body": (
        "What is computed from a tensor where it is bound may be computed where it is used.",
        "What is done to a tensor when it is bound, done where it is used.",
    ),
    "unfold_transpose": (
        "A transpose is, by its elements, a generation of the matrix's columns.",
        "A transpose by its elements.",
    ),
    "unfold_split": (
        "A split is, by its elements, a generation of rows of k; the tail of the last row is padding.",
        "A split by its elements.",
    ),
    "unfold_flatten": (
        "A flattened matrix is, by its elements, one generation over the elements of its rows, row by row.",
        "A flattening by its elements.",
    ),
    "unfold_concat": (
        "A concatenation is, by its elements, a generation of two guarded terms, one for each part.",
        "A concatenation by its elements.",
    ),
    "unfold_padr": (
        "A tensor padded on the right is, by its elements, a generation that runs on, with nothing computed there.",
        "A pad on the right by its elements.",
    ),
    "unfold_padl": (
        "A tensor padded on the left is, by its elements, a generation moved up by k, with nothing computed before.",
        "A pad on the left by its elements.",
    ),
    "unfold_truncr": (
        "A tensor truncated on the right is, by its elements, a generation that is shorter by k.",
        "A truncation on the right by its elements.",
    ),
    "unfold_truncl": (
        "A tensor truncated on the left is, by its elements, a generation that begins at element k.",
        "A truncation on the left by its elements.",
    ),
    "truncr_flatten_split": (
        "Splitting into rows of k, flattening, and dropping the tail that was added does nothing.",
        "A tensor in rows of k, made one row again, without the tail that was added.",
    ),
    "flatten_split": (
        "Splitting into rows of k and flattening does nothing, where the rows come out even.",
        "The same, where the rows come out even.",
    ),
    "split_flatten": (
        "Flattening a matrix and splitting into rows of the same length does nothing.",
        "A matrix made one row, in rows again.",
    ),
    "truncr_padr": (
        "Padding on the right and dropping as much on the right does nothing.",
        "What is added on the right, dropped on the right.",
    ),
    "truncl_padl": (
        "Padding on the left and dropping as much on the left does nothing.",
        "What is added on the left, dropped on the left.",
    ),
    "transpose_access": (
        "The element of a transpose at [i][j] is that of the matrix at [j][i].",
        "An element of a transpose.",
    ),
    "flatten_gen_gen": ("Two nested generations, flattened, are one.", "Two nested loops as one."),
    "padr_concat": (
        "A pad on the right is a concatenation with padding that follows.",
        "A pad on the right is padding that follows.",
    ),
    "padl_concat": (
        "A pad on the left is a concatenation with padding that comes before.",
        "A pad on the left is padding that comes before.",
    ),
    "truncr_of_concat": (
        "A concatenation without its right part is its left part.",
        "The right part of a concatenation dropped.",
    ),
    "truncl_of_concat": (
        "A concatenation without its left part is its right part.",
        "The left part of a concatenation dropped.",
    ),
    "flatten_of_concat": (
        "A concatenation of matrices is flattened part by part.",
        "Rows followed by rows, in one row.",
    ),
    "split_of_concat": (
        "A concatenation is split into rows of k part by part, where the first part fills its rows.",
        "A concatenation in rows of k, where the first part fills its rows.",
    ),
    "flatten_split_padr": (
        "Splitting into rows of k and flattening pads a tensor to whole rows.",
        "A tensor in rows of k, made one row again, is padded to whole rows.",
    ),
    "flatten_flatten": (
        "Three dimensions flattened into one: the outer two may come first, or the inner two.",
        "Three dimensions are flattened from either end.",
    ),
    "split_split": (
        "A split into rows of b, then of these by a, is one into rows of a * b, each of which is split into rows of b.",
        "Rows of b in blocks of a rows are blocks of a * b, each in rows.",
    ),
    "split_of_gen": (
        "A generation split into rows of k is computed row by row, the last one guarded.",
        "A generation in rows of k.",
    ),
    "flatten_of_gen": (
        "A generation of rows, flattened, is one generation of their elements.",
        "A generation of rows, in one row.",
    ),
    "access_at": ("The index of an access is replaced by an equal one.", "The element at an equal index."),
    "gen_range": ("The bounds of a generation are replaced by equal ones.", "A generation over an equal range."),
    "fold_range": (
        "The bounds of a sum, or of another fold, are replaced by equal ones.",
        "A sum, or another fold, over an equal range.",
    ),
    "amount": (
        "The amount of a reshape operator is replaced by an equal one.",
        "A reshape operator by an equal amount.",
    ),
    "pointwise_unary": (
        "A function of a tensor is computed element by element.",
        "A function of a tensor is one of its elements.",
    ),
    "mul_padding": ("A product with padding is padding.", "A product with padding is zero."),
}
"""By the name of a declaration: its law, and the law as it was first written."""

FIRST_SPELLINGS: Final[Mapping[str, tuple[str, str]]] = {
    "guard_false": ("padding(e), given(", "nothing(e), given("),
    "nothing_add": ("padding(e) + e", "nothing(e) + e"),
    "add_nothing": ("e + padding(e)", "e + nothing(e)"),
}
"""By the name of a declaration: what stands in its equation, and how it was first written.

`nothing` was a second function of the same text as `padding`.
"""


def first_wording(declaration: str, text: str) -> str:
    """The text of a declaration as it was first worded."""
    if law := FIRST_LAWS.get(declaration):
        text = text.replace(f'"""{law[0]}"""', f'"""{law[1]}"""')
    if spelling := FIRST_SPELLINGS.get(declaration):
        text = text.replace(*spelling)
    return text
