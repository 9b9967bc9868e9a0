"""The workloads: a table each, in which a schedule of ours is one line and a rival another."""

from __future__ import annotations

from typing import Final

from bench.contest import Workload
from bench.workloads import networks, products, stencils

WORKLOADS: Final[dict[str, Workload]] = {
    workload.name: workload for workload in (*stencils.WORKLOADS, *products.WORKLOADS, *networks.WORKLOADS)
}
