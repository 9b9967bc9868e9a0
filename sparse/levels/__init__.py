"""Level formats: each says how one dimension of a tensor, or several at once, is stored (§7.3, §7.4)."""

from sparse.levels.bitmask import Bitmask
from sparse.levels.compressed import Compressed
from sparse.levels.dense import Dense
from sparse.levels.hashed import Hashed
from sparse.levels.level import Condition, Declaring, Level, Metadata, Stored

__all__ = ["Bitmask", "Compressed", "Condition", "Declaring", "Dense", "Hashed", "Level", "Metadata", "Stored"]
