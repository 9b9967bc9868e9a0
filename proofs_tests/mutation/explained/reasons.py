"""Reasons that hold for mutants of several rooms."""

from __future__ import annotations

from typing import Final

MEMO: Final = "equivalent: what is remembered is found out again, and is the same"
ALL_POSITIONS: Final = "equivalent: an element is read at as many positions as its array has dimensions"
SAME_LENGTH: Final = "equivalent: what is zipped has one length, which was checked before"
ONLY_TIME: Final = "equivalent: nothing would be found there; it takes time"
ANOTHER_SIGN: Final = "equivalent: 2 is a sign as 1 is, and -2 as -1; it is compared with 0"
