"""Kernel templates filled with the index expressions of layouts: text for Triton, CUDA, C and MLIR.

>>> import atl
>>> from layouts.lego import Col, TileBy
>>> from layouts.templates import fill
>>> pid, nt_m, nt_n, GM = atl.sizes("pid nt_m nt_n GM")
>>> programs = TileBy([nt_m, nt_n], given=[nt_m % GM == 0]).OrderBy(Col(nt_m // GM, 1), Col(GM, nt_n))
>>> pid_m, pid_n = programs.inv(pid)
>>> print(fill("pid_m, pid_n = {{ m }}, {{ n }}", "triton", {"m": pid_m, "n": pid_n}, given=[programs]))
pid_m, pid_n = (pid // (GM*nt_n))*GM + pid % GM, (pid // GM) % nt_n
"""

from layouts.lego import part_of
from layouts.templates.filling import Filled, fill
from layouts.templates.languages import Language

__all__ = ["Filled", "Language", "fill", "part_of"]
