"""Einstein summation in NumPy's notation, converted to generations and sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from atl.core.index import ONE, ZERO, Index, Var, index
from atl.core.node import refuse_runaway_recursion
from atl.core.substitution import close, fresh_uid
from atl.core.terms import Expr, Gen, Reduce
from atl.errors import InvalidArgument, RankError, ShapeError, Source, brief
from atl.surface.values import IndexExpr, Tensor, TensorLike, as_tensor

_DOTS = "..."
_FORM = 'a letter for each dimension, commas between operands, then the result: "ij,jk->ik"'


@dataclass(frozen=True, slots=True)
class _Subscripts:
    """Labels of the dimensions of each operand and of the result; `None` represents the ellipsis."""

    operands: tuple[tuple[str | None, ...], ...]
    result: tuple[str | None, ...] | None


@refuse_runaway_recursion
def einsum(subscripts: str, *operands: TensorLike) -> Tensor:
    """Multiply operands with labelled dimensions, and sum over the labels that the result does not have.

    "ij,jk->ik" means ⊞i ⊞k Σj A[i, j] * B[j, k]. Without "->", the result has the labels that occur once, in
    alphabetical order. A repeated label in one operand takes the diagonal. The ellipsis in "...ij" matches all
    dimensions without a label, aligned at the last one and broadcast as in NumPy. The loops follow the order of the
    result, then the sums follow the order of first occurrence; `s.interchange` changes the order. Shape: the extents of
    the labels of the result, including those of the ellipsis. Source: NumPy's `einsum`.

    >>> import atl
    >>> n, m, k = atl.sizes("n m k")
    >>> A, B = atl.tensor("A", n, k), atl.tensor("B", k, m)
    >>> atl.program("matmul", [A, B], atl.einsum("ik,kj->ij", A, B))
    matmul (A : float32[n, k], B : float32[k, m]) : float32[n, m] :=
      ⊞[i < n] ⊞[j < m] Σ[k1 < k] A[i, k1] * B[k1, j]

    Raises `InvalidArgument` for invalid subscripts, `RankError` for an operand of another rank, and `ShapeError` for a
    label with two extents.
    """
    if not isinstance(subscripts, str):
        raise InvalidArgument(f"the subscripts {brief(subscripts)}", required=_FORM)
    tensors = [as_tensor(operand) for operand in operands]
    read = _read(subscripts)
    if not tensors or len(read.operands) != len(tensors):
        raise InvalidArgument(
            f"{brief(subscripts)} has subscripts for {len(read.operands)} operands, but got {len(tensors)}",
            required="one tensor for each part between commas",
        )
    dots = [
        _between_dots(labels, tensor, at)
        for at, (labels, tensor) in enumerate(zip(read.operands, tensors, strict=True), 1)
    ]
    spread = max(dots, default=0)
    labels = [_expanded(held, count) for held, count in zip(read.operands, dots, strict=True)]
    result = _expanded(_result_of(read) if read.result is None else read.result, spread)
    if spread and read.result is not None and None not in read.result:
        raise InvalidArgument(
            f"the result of {brief(subscripts)} has no ellipsis, unlike its operands",
            required="... in the result too, or a label for each dimension that is summed",
        )
    extents = _extents(subscripts, labels, tensors)
    if unknown := [label for label in result if label not in extents]:
        raise InvalidArgument(
            f"the result of {brief(subscripts)} has the label {unknown[0]}, which no operand has", required=_FORM
        )
    variables = {label: Var(next(fresh_uid), name) for label, name in _named(extents).items()}
    return Tensor(_looped(_product(labels, tensors, variables), result, extents, variables))


# -- the subscripts ---------------------------------------------------------------------------------------------------


def _read(subscripts: str) -> _Subscripts:
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    result = _labels(subscripts, right) if arrow else None
    if result is not None and len(set(result)) < len(result):
        raise InvalidArgument(f"the result of {brief(subscripts)} repeats a label", required="distinct labels")
    read = _Subscripts(tuple(_labels(subscripts, part) for part in left.split(",")), result)
    if result is not None and None in result and not any(None in labels for labels in read.operands):
        raise InvalidArgument(
            f"the result of {brief(subscripts)} has an ellipsis, but no operand has one", required=_FORM
        )
    return read


def _labels(subscripts: str, part: str) -> tuple[str | None, ...]:
    before, dots, after = part.partition(_DOTS)
    for letter in before + after:
        if not (letter.isascii() and letter.isalpha()):
            raise InvalidArgument(f"{brief(subscripts)} contains {letter!r}", required=_FORM)
    return (*before, *((None,) if dots else ()), *after)


def _result_of(read: _Subscripts) -> tuple[str | None, ...]:
    """Return the labels of an implicit result: the ellipsis, then the labels that occur once."""
    every = [label for labels in read.operands for label in labels]
    once = sorted(label for label in set(every) if label is not None and every.count(label) == 1)
    return (*((None,) if None in every else ()), *once)


def _between_dots(labels: Sequence[str | None], tensor: Tensor, number: int) -> int:
    """Return the number of dimensions that the ellipsis of an operand matches."""
    named = sum(label is not None for label in labels)
    left = tensor.rank - named
    if left < 0 or (left and None not in labels):
        raise RankError(
            f"operand {number} has {tensor.rank} dimensions, but {named} labels",
            required="a label for each dimension, or ... for the others",
        )
    return left


def _expanded(labels: Sequence[str | None], count: int) -> tuple[str, ...]:
    """Replace the ellipsis by numbers, which count its dimensions from the last one."""
    out: list[str] = []
    for label in labels:
        out += [label] if label is not None else [str(at) for at in reversed(range(count))]
    return tuple(out)


# -- conversion -------------------------------------------------------------------------------------------------------


def _extents(subscripts: str, labels: Sequence[Sequence[str]], tensors: Sequence[Tensor]) -> dict[str, Index]:
    found: dict[str, Index] = {}
    for held, tensor in zip(labels, tensors, strict=True):
        for label, extent in zip(held, tensor.node.type.shape, strict=True):
            other = found.setdefault(label, extent)
            if label.isdigit() and ONE in (extent, other):
                found[label] = extent if other == ONE else other
            elif extent != other:
                what = "the ellipsis" if label.isdigit() else f"the label {label}"
                raise ShapeError(
                    f"{what} of {brief(subscripts)} has two extents, {other} and {extent}",
                    required="one extent for each label; use one name for sizes that are always equal",
                )
    return found


def _named(extents: Mapping[str, Index]) -> dict[str, str]:
    """Return the names of the indices: their labels, and unused letters for the dimensions of the ellipsis."""
    spare = iter([letter for letter in "abcdefghpqrstuvwxyz" if letter not in extents] * len(extents))
    return {label: next(spare, "i") if label.isdigit() else label for label in extents}


def _product(labels: Sequence[Sequence[str]], tensors: Sequence[Tensor], variables: Mapping[str, Var]) -> Expr:
    product: Tensor | None = None
    for held, tensor in zip(labels, tensors, strict=True):
        element = tensor
        for label, extent in zip(held, tensor.node.type.shape, strict=True):
            widened = label.isdigit() and extent == ONE
            element = element[IndexExpr(ZERO if widened else index(variables[label]))]
        product = element if product is None else product * element
    if product is None:
        raise AssertionError("no operand")
    return product.node


def _looped(node: Expr, result: Sequence[str], extents: Mapping[str, Index], variables: Mapping[str, Var]) -> Expr:
    source = Source.caller()
    summed = [label for label in extents if label not in result]
    for label in reversed((*result, *summed)):
        inside, extent, name = close(node, variables[label]), extents[label], variables[label].name
        node = Reduce("sum", ZERO, extent, inside, name) if label in summed else Gen(ZERO, extent, inside, name)
        object.__setattr__(node, "source", source)
    return node
