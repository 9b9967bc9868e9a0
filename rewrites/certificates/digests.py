"""Hashes of programs, by which a certificate says what each step leads to."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from typing import Final

from atl.core.index import Atom
from atl.core.node import Identity, Node
from atl.core.program import Program
from atl.core.terms import Expr, Operator
from rewrites.errors import Unreadable

_DIGITS: Final = 16


class Digests:
    """Hashes of terms that say what equality says: equal terms have one, names, marks and source lines do not count.

    What was hashed is remembered, so that of a program only what a step has changed is hashed again.
    """

    def __init__(self) -> None:
        self._known: dict[Identity, bytes] = {}

    def of_program(self, program: Program) -> str:
        """The hash of a program's name, inputs, assumptions and body."""
        key = (program.name, program.inputs, program.assumptions, program.body)
        return self._of(key).hex()[:_DIGITS]

    def of_term(self, term: Expr) -> str:
        """The hash of a term."""
        return self._of(term).hex()[:_DIGITS]

    def of_key(self, key: Hashable) -> bytes:
        """The hash of names, numbers, terms, and tuples of these."""
        return self._of(key)

    def _of(self, key: Hashable) -> bytes:
        match key:
            case Node():
                return self._of_identity(key.identity)
            case Identity():
                return self._of_identity(key)
            case tuple():
                return _hashed(b"(", *map(self._of, key))
            case frozenset():
                return _hashed(b"{", *sorted(map(self._of, key)))
            case type():
                return _hashed(b"t", key.__name__.encode())
            case str():
                return _hashed(b"s", key.encode("utf-8", "surrogatepass"))
            case None:
                return _hashed(b"n")
            case int():
                return _hashed(b"#", str(int(key)).encode())
            case float():
                # 1 and 1.0 are equal, so are the terms that hold them.
                return _hashed(b"#", (str(int(key)) if key.is_integer() else repr(key)).encode())
            case _:
                raise Unreadable(f"a term holds {key!r}", required="names, numbers and terms")

    def _of_identity(self, identity: Identity) -> bytes:
        found = self._known.get(identity)
        if found is None:
            found = self._known[identity] = self._of(_in_format_1(identity.key))
        return found


# Format 1 hashes a node by the name of its class: whoever renames a constructor writes the old name down here.


def _in_format_1(key: Hashable) -> Hashable:
    """The key of a node as certificates of format 1 hash it: atoms by their order, and an amount without a tuple."""
    match key:
        case (type() as of, tuple() as fields) if issubclass(of, Atom):
            return of, of(*fields).order
        case (type() as of, (amount,)) if issubclass(of, Operator):
            return of, amount
        case _:
            return key


def _hashed(*parts: bytes) -> bytes:
    # Every part but the first, and a text, has a length of its own; a text stands alone after its letter.
    return hashlib.sha256(b"".join(parts)).digest()
