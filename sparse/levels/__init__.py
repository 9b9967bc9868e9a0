"""Level formats: each stores one dimension of a tensor, or several at once (§7.3, §7.4)."""

from sparse.levels.bitmask import Bitmask
from sparse.levels.compressed import Compressed
from sparse.levels.dense import Dense
from sparse.levels.hashed import Hashed
from sparse.levels.level import Condition, Declarer, Encoded, Level, Metadata

__all__ = ["Bitmask", "Compressed", "Condition", "Declarer", "Dense", "Encoded", "Hashed", "Level", "Metadata"]
