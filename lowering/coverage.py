"""Which tensors are stored in full, so that their buffers need not be cleared first."""

from __future__ import annotations

from atl.predicate import FALSE
from atl.scope import Scope
from atl.substitution import children, with_children
from atl.terms import Constant, Expr, Reduce
from lowering.loopnest import Accumulate, Block, Buffer, Cell, statements
from padtypes import pad_set


def fills(e: Expr, scope: Scope, buffer: Buffer, stores: Block, *, sums_stored: bool) -> bool:
    """Whether `stores`, the lowering of the normalised term, is proved to assign every element of the buffer.

    That is so where the term has no padding and nothing is added to what the buffer holds. With `sums_stored` all sums
    to a scalar ran in a scalar variable, and are stored even when they are empty.
    """
    return not _adds_to(buffer, stores) and pad_set(_sums_as_leaves(e) if sums_stored else e, scope).simplified == FALSE


def _adds_to(buffer: Buffer, block: Block) -> bool:
    targets = (statement.target for statement in statements(block) if isinstance(statement, Accumulate))
    return any(isinstance(target, Cell) and target.buffer == buffer for target in targets)


def _sums_as_leaves(e: Expr) -> Expr:
    if isinstance(e, Reduce) and e.monoid == "sum" and not e.type.rank:
        return Constant(0, e.type.dtype)
    return with_children(e, tuple(_sums_as_leaves(child.expr) for child in children(e)))
