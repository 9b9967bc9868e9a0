"""Hashes of programs and terms, which certificates record after each step."""

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
    """Hashes of terms that agree with equality: names, marks and source lines are ignored.

    Hashes of subterms are cached, so that only the changed part of a program is hashed after a step.
    """

    def __init__(self) -> None:
        self._known: dict[Identity, bytes] = {}

    def of_program(self, program: Program) -> str:
        """Return the hash of a program's name, inputs, assumptions and body."""
        key = (program.name, program.inputs, program.assumptions, program.body)
        return self._of(key).hex()[:_DIGITS]

    def of_term(self, term: Expr) -> str:
        """Return the hash of a term."""
        return self._of(term).hex()[:_DIGITS]

    def of_key(self, key: Hashable) -> bytes:
        """Return the hash of a name, a number, a term, or a tuple of these."""
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
                # 1 and 1.0 are equal, and so are terms that contain them.
                return _hashed(b"#", (str(int(key)) if key.is_integer() else repr(key)).encode())
            case _:
                raise Unreadable(f"a term holds {key!r}", required="names, numbers and terms")

    def _of_identity(self, identity: Identity) -> bytes:
        found = self._known.get(identity)
        if found is None:
            found = self._known[identity] = self._of(_in_format_1(identity.key))
        return found


# Hashes contain the names of node classes. If a constructor is renamed, its old name must be kept here.


def _in_format_1(key: Hashable) -> Hashable:
    """Return the key of a node as format 1 hashes it: atoms by their order, and an amount without a tuple."""
    match key:
        case (type() as of, tuple() as fields) if issubclass(of, Atom):
            return of, of(*fields).order
        case (type() as of, (amount,)) if issubclass(of, Operator):
            return of, amount
        case _:
            return key


def _hashed(*parts: bytes) -> bytes:
    # Unambiguous without lengths: parts are digests of fixed length, and a string is the only part after its letter.
    return hashlib.sha256(b"".join(parts)).digest()
