"""Random calls of tactics that fit the goal, for random derivations."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

from atl.core.index import Index, Size, atoms, index
from atl.core.terms import OPERATORS_BY_WORD, Access, Gen, Guard, Input, Let, Reduce, Reshape, Term
from atl.surface.values import IndexExpr
from layouts import antidiagonal, backwards, blocked, column_major, morton, padded, skewed, swizzled
from rewrites import Session
from rewrites.cursors.cursor import Cursor, cursors, walk

Call = Callable[[Session, Random], Session | None]
"""A call of a tactic, or None if the goal does not fit."""


def _loops(s: Session) -> list[Cursor]:
    return [cursor for cursor in cursors(s.goal, top_down=True) if isinstance(cursor.term, Gen | Reduce)]


def _nested(s: Session) -> list[Cursor]:
    return [cursor for cursor in _loops(s) if isinstance(_inside(cursor), Gen | Reduce)]


def _inside(cursor: Cursor) -> Term:
    """Return the body of a loop, below guards."""
    at = cursor.child(0)
    while isinstance(at.term, Guard):
        at = at.child(0)
    return at.term


def _lets(s: Session) -> list[Cursor]:
    return [cursor for cursor in cursors(s.goal, top_down=True) if isinstance(cursor.term, Let)]


def _one(random: Random, among: list[Cursor]) -> Cursor | None:
    return random.choice(among) if among else None


def _bound(random: Random, cursor: Cursor) -> IndexExpr:
    """Return an index in the loop's range, made of sizes and small numbers, or None."""
    assert isinstance(cursor.term, Gen | Reduce)
    low, high = cursor.term.low, cursor.term.high
    choices: list[Index] = [low + random.randint(0, 3), high - random.randint(0, 2), index(random.randint(0, 4))]
    choices += [index(atom) for atom in atoms(high) if isinstance(atom, Size)]
    return IndexExpr(random.choice(choices))


def _inline(s: Session, random: Random) -> Session | None:
    used = {type(cursor.term.op) for cursor in cursors(s.goal) if isinstance(cursor.term, Reshape)}
    operators = [word for word, op in OPERATORS_BY_WORD.items() if op in used]
    if operators and random.random() < 0.5:
        return s.inline(random.choice(operators))
    let = _one(random, _lets(s))
    return None if let is None else s.inline(let.called[0])


def _solve(s: Session, random: Random) -> Session | None:
    del random
    return s.solve_for_index() if any(isinstance(cursor.term, Guard) for cursor in cursors(s.goal)) else None


def _lbind(s: Session, random: Random) -> Session | None:
    cursor = _one(random, list(cursors(s.goal)))
    if cursor is None:
        return None
    over = random.choice(cursor.spine()).path
    return s.lbind(cursor.path, "bound", over=over)


def _split_loop(s: Session, random: Random) -> Session | None:
    cursor = _one(random, _loops(s))
    return None if cursor is None else s.split_loop(cursor.path, _bound(random, cursor))


def _tile(s: Session, random: Random) -> Session | None:
    nested = [cursor for cursor in _nested(s) if not isinstance(cursor.child(0).term, Guard)]
    if nested and random.random() < 0.4:
        cursor = random.choice(nested)
        paths = [cursor.path, cursor.child(0).path]
        while len(paths) < 4 and isinstance(s.begin().term((*paths[-1], 0)), Gen | Reduce) and random.random() < 0.6:
            paths.append((*paths[-1], 0))
        factors = [random.randint(1, 3) for _ in paths]
        return s.tile(paths, factors if random.random() < 0.7 else [[factor * 2, 2] for factor in factors])
    one = _one(random, _loops(s))
    return None if one is None else s.tile(one.path, random.randint(1, 4))


def _tails(s: Session, random: Random) -> Session | None:
    cursor = _one(random, [at for at in _loops(s) if any(isinstance(below.term, Guard) for below in walk(at))])
    return (
        None
        if cursor is None
        else s.tails(random.choice([None, cursor.path]), strategy=random.choice(["min", "split"]))
    )


def _accumulate(s: Session, random: Random) -> Session | None:
    cursor = _one(random, [cursor for cursor in _loops(s) if isinstance(cursor.term, Reduce)])
    if cursor is None:
        return None
    above = [at.path for at in cursor.spine()[:-1] if isinstance(at.term, Gen | Reduce)]
    return s.accumulate(cursor.path, at=random.choice([None, *above]))


def _jam(s: Session, random: Random) -> Session | None:
    cursor, lets = _one(random, _nested(s)), _lets(s)
    if cursor is None:
        return None
    share = random.choice(lets).called[0] if lets and random.random() < 0.5 else None
    return s.unroll_and_jam(cursor.path, random.randint(1, 4), share=share)


def _interchange(s: Session, random: Random) -> Session | None:
    cursor = _one(random, _nested(s))
    return None if cursor is None else s.interchange(cursor.path)


def _fuse(s: Session, random: Random) -> Session | None:
    let = _one(random, _lets(s))
    return None if let is None else s.fuse(let.called[0])


def _stage(s: Session, random: Random) -> Session | None:
    loops, lets = _loops(s), _lets(s)
    if lets and loops and random.random() < 0.5:
        return s.stage(random.choice(lets).called[0], at=random.choice(loops).path, name="part")
    cursor = _one(random, [cursor for cursor in cursors(s.goal) if cursor.path])
    if cursor is None:
        return None
    above = [at.path for at in cursor.spine()[:-1] if isinstance(at.term, Gen | Reduce)]
    return s.stage(cursor.path, at=random.choice([None, *above]), name="staged")


def _pack(s: Session, random: Random) -> Session | None:
    """Stage or pack a random tensor, at a random loop, in a random order."""
    reads = [cursor for cursor in cursors(s.goal) if isinstance(cursor.term, Access | Input | Let)]
    cursor = _one(random, reads)
    if cursor is None:
        return None
    above = [at.path for at in cursor.spine()[:-1] if isinstance(at.term, Gen | Reduce)]
    order = random.sample(above, len(above)) if random.random() < 0.3 else None
    return s.pack(cursor.path, at=random.choice([None, *above]), name="packed", order=order)


def _layout(random: Random, rank: int) -> Any:
    """Return a random storage, usually of this rank."""
    of_any = [padded(random.randint(0, 2)), morton(random.choice((2, 4))), backwards, column_major]
    of_some = [blocked(*(random.randint(1, 4) for _ in range(random.choice((rank, rank, 2))))), skewed, antidiagonal]
    return random.choice([*of_any, *of_some, swizzled(random.choice((2, 4)), random.randint(1, 2))])


def _store(s: Session, random: Random) -> Session | None:
    cursor = _one(random, [cursor for cursor in cursors(s.goal) if isinstance(cursor.term, Let | Input)])
    if cursor is None:
        return None
    stored = cursor.term.value if isinstance(cursor.term, Let) else cursor.term
    return s.store(cursor.path, _layout(random, stored.type.rank))


def _reorder(s: Session, random: Random) -> Session | None:
    cursor = _one(random, _loops(s))
    if cursor is None:
        return None
    inner = _inside(cursor)
    if isinstance(inner, type(cursor.term)) and random.random() < 0.7:
        return s.reorder([cursor.path, (*cursor.path, 0)], _layout(random, 2))
    return s.reorder([cursor.path], _layout(random, 1))


def _pad(s: Session, random: Random) -> Session | None:
    """Stage a random tensor or element, at a random loop or at the start."""
    cursor = _one(random, [cursor for cursor in cursors(s.goal) if isinstance(cursor.term, Access | Input | Let)])
    if cursor is None:
        return None
    above = [at.path for at in cursor.spine()[:-1] if isinstance(at.term, Gen | Reduce)]
    return s.pad(cursor.path, at=random.choice([None, *above]), name="padded")


def _hoist(s: Session, random: Random) -> Session | None:
    let = _one(
        random, [cursor for cursor in _lets(s) if any(isinstance(at.term, Gen | Reduce) for at in cursor.spine())]
    )
    return None if let is None else s.hoist(let.called[0])


def _factor_out(s: Session, random: Random) -> Session | None:
    cursor = _one(random, [cursor for cursor in cursors(s.goal) if _in_a_sum(cursor)])
    if cursor is None:
        return None
    sums = [at.path for at in cursor.spine()[:-1] if isinstance(at.term, Reduce)]
    return s.factor_out(cursor.path, out_of=random.choice([None, *sums]))


def _in_a_sum(cursor: Cursor) -> bool:
    return not cursor.term.type.rank and any(isinstance(at.term, Reduce) for at in cursor.spine()[:-1])


def _flatten_loops(s: Session, random: Random) -> Session | None:
    nested = [cursor for cursor in _nested(s) if isinstance(cursor.term, Gen) and isinstance(cursor.child(0).term, Gen)]
    cursor = _one(random, nested)
    return None if cursor is None else s.flatten_loops(cursor.path)


def _unroll(s: Session, random: Random) -> Session | None:
    constant = [cursor for cursor in _loops(s) if _extent(cursor) is not None]
    by = random.choice((None, None, 2))
    cursor = _one(random, constant if by is None else _loops(s))
    return None if cursor is None else s.unroll(cursor.path, by)


def _parallelize(s: Session, random: Random) -> Session | None:
    cursor = _one(random, _loops(s))
    return None if cursor is None else s.parallelize(cursor.path, random.choice((None, 2)))


def _vectorize(s: Session, random: Random) -> Session | None:
    cursor = _one(random, _loops(s))
    if cursor is None:
        return None
    return s.vectorize(cursor.path, random.choice((None, 2, 3)), tails=random.choice((None, "min", "split")))


def _gpu_map(s: Session, random: Random) -> Session | None:
    cursor = _one(random, _loops(s))
    return None if cursor is None else s.gpu_map(cursor.path, random.choice((2, 3, [4, 2])))


def _stored(name: str) -> Call:
    def call(s: Session, random: Random) -> Session | None:
        cursor = _one(random, _lets(s))
        if cursor is None:
            return None
        made: Any = getattr(s, name)(cursor.path)
        assert isinstance(made, Session)
        return made

    return call


def _coalesce(s: Session, random: Random) -> Session | None:
    elements = [cursor for cursor in cursors(s.goal) if isinstance(cursor.term, Access)]
    cursor = _one(random, elements)
    return None if cursor is None else s.coalesce(cursor.path)


def _staged(name: str) -> Call:
    def call(s: Session, random: Random) -> Session | None:
        loops, reads = _loops(s), [cursor for cursor in cursors(s.goal) if isinstance(cursor.term, Access | Reduce)]
        at, what = _one(random, loops), _one(random, reads)
        if at is None or what is None:
            return None
        made: Any = getattr(s, name)(what.path, at=at.path, name="staged")
        assert isinstance(made, Session)
        return made

    return call


def _extent(cursor: Cursor) -> int | None:
    assert isinstance(cursor.term, Gen | Reduce)
    return (cursor.term.high - cursor.term.low).constant


def _mark(s: Session, random: Random) -> Session | None:
    """Change the mark of a loop or let, or of all with that name."""
    cursor = _one(random, _loops(s) + _lets(s))
    if cursor is None or cursor.term.form.mark is None:
        return None
    chosen = random.choice(list(cursor.term.form.mark.of))
    what = cursor.path if random.random() < 0.5 else cursor.called[0]
    return s.mark(what, random.choice([chosen, chosen.value]))


def _rename(s: Session, random: Random) -> Session | None:
    cursor = _one(random, _loops(s) + _lets(s))
    return None if cursor is None else s.rename(cursor.path, random.choice(["i", "row", "let", "x1"]))


def _anywhere(name: str) -> Call:
    def call(s: Session, random: Random) -> Session | None:
        del random
        made: Any = getattr(s, name)()
        assert isinstance(made, Session)
        return made

    return call


TACTICS: Final[dict[str, Call]] = {
    "inline": _inline,
    "simpl_guard": _anywhere("simpl_guard"),
    "simpl_index": _anywhere("simpl_index"),
    "solve_for_index": _solve,
    "lbind": _lbind,
    "normalize": _anywhere("normalize"),
    "split_loop": _split_loop,
    "tile": _tile,
    "tails": _tails,
    "interchange": _interchange,
    "accumulate": _accumulate,
    "unroll_and_jam": _jam,
    "fuse": _fuse,
    "stage": _stage,
    "pack": _pack,
    "pad": _pad,
    "store": _store,
    "reorder": _reorder,
    "hoist": _hoist,
    "factor_out": _factor_out,
    "flatten_loops": _flatten_loops,
    "unroll": _unroll,
    "parallelize": _parallelize,
    "vectorize": _vectorize,
    "gpu_map": _gpu_map,
    "coalesce": _coalesce,
    "stage_shared": _staged("stage_shared"),
    "stage_registers": _staged("stage_registers"),
    "pad_rows": _stored("pad_rows"),
    "store_transposed": _stored("store_transposed"),
    "mark": _mark,
    "rename": _rename,
}
"""The random calls by name of the tactic."""
