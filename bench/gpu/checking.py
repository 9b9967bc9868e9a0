"""Checks of GPU kernels against the interpreter: random inputs, poisoned outputs, guard zones around them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import atl
from atl.errors import AssumptionError, ATLError, GridTooLarge, OutOfMemory
from bench.gpu.shipped import Shipped
from lowering import DeviceArray

Array = npt.NDArray[Any]

USUAL: Final = (1, 2, 3, 31, 32, 33, 63, 64, 65, 100)
MANY: Final = (1, 2, 7, 8, 16, 17, 32, 33)
"""Sizes near the edges of tiles, for programs with up to two sizes, and with more."""
ATTEMPTS: Final = 20
"""Random sizes drawn per requested check. A program's assumptions may exclude some of them."""
AROUND: Final = 256
"""Size in bytes of the guard zones before and after a result."""
TOLERANCE: Final = 3e-6
"""Relative tolerance. Sums of multiples of 1/16 are exact here; other operations round."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one check; `message` is empty if it passed."""

    what: str
    checks: int
    message: str = ""
    absent: bool = False

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class NotHere(Exception):
    """An installed library does not work on this machine. This is reported, and not counted as an error."""


class Watched:
    """An array for a result on the device, poisoned, with poisoned guard zones before and after it."""

    def __init__(self, device: atl.Device, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._device = device
        count = prod(shape) * dtype.itemsize
        self._memory = device.empty((2 * AROUND + (count + 255) // 256 * 256,), "uint8")
        self.array: Final = DeviceArray(self._memory.pointer + AROUND, shape, dtype, device.stream)
        self._end = AROUND + count

    def read(self) -> tuple[Array, bool]:
        """Return the result, and True if the guard zones are unchanged."""
        held = self._device.read(self._memory)
        inside = held[AROUND : self._end].copy().view(self.array.dtype).reshape(self.array.shape)
        untouched = bool((held[:AROUND] == 0xFF).all() and (held[self._end :] == 0xFF).all())
        return inside, untouched

    def free(self) -> None:
        self._device.free(self._memory)


def checked(shipped: Shipped, device: atl.Device, *, seed: int, times: int) -> Verdict:
    """Compare a schedule with the interpreter's result of its program, at `times` random sizes."""
    random = np.random.default_rng(seed)
    done = 0
    for _ in range(ATTEMPTS * times):
        if done == times:
            break
        among = USUAL if len(shipped.program.sizes) <= 2 else MANY
        sizes = {name: int(random.choice(among)) for name in shipped.program.sizes}
        try:
            arrays = sixteenths(shipped.inputs_at(sizes, int(random.integers(2**31))))
            passed: dict[str, Any] = {**arrays, **_free(shipped, sizes)}
            want = atl.evaluate(shipped.program, **passed)
            message = _compared(shipped, device, sizes, arrays, want)
        except AssumptionError:
            continue  # sizes that the program's assumptions exclude
        except ATLError as error:
            message = str(error)
        if message:
            return Verdict(shipped.name, done, f"at {sizes}, seed {seed}: {message}")
        done += 1
    few = f"only {done} of {ATTEMPTS * times} random sizes meet the program's assumptions; {times} needed, seed {seed}"
    return Verdict(shipped.name, done, "" if done == times else few)


def sixteenths(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Round the arrays to multiples of 1/16. Short sums of products of these are exact in any order."""
    return {
        name: (np.round(held * 16) / 16).astype(held.dtype) if held.dtype.kind == "f" else held
        for name, held in arrays.items()
    }


def _free(shipped: Shipped, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the sizes that are not determined by the arrays."""
    return {name: sizes[name] for name in shipped.program.free_sizes}


def _compared(
    shipped: Shipped, device: atl.Device, sizes: Mapping[str, int], arrays: Mapping[str, Array], want: Array
) -> str:
    there = {name: device.array(held) for name, held in arrays.items()}
    result = Watched(device, want.shape, shipped.dtype)
    try:
        shipped.kernel(**there, out=result.array, **_free(shipped, sizes))
        got, untouched = result.read()
    finally:
        device.free(*there.values())
        result.free()
    return fault(got, want) or ("" if untouched else "memory next to the result was changed")


def fault(got: Array, want: Array, tolerance: float = TOLERANCE) -> str:
    """Describe the first wrong element of a result; empty if all are right."""
    if got.shape != want.shape:
        return f"the result has the shape {got.shape}, not {want.shape}"
    with np.errstate(invalid="ignore"):
        off = ~(np.abs(got - want) <= tolerance * np.maximum(np.abs(want), 1))
    if not off.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(off)[0])
    return f"{int(off.sum())} of {off.size} elements are wrong; at {at} is {got[at]}, which should be {want[at]}"


# -- calls ------------------------------------------------------------------------------------------------------------


def calls(shipped: Shipped, device: atl.Device) -> Iterator[Verdict]:
    """Call one kernel of a matrix with each kind of array. Libraries that are not installed are reported as absent."""
    a = np.random.default_rng(5).random((67, 45)).astype(np.float32)
    want = atl.evaluate(shipped.program, a)
    ways: dict[str, tuple[str | None, Callable[[Shipped, atl.Device, Array, Array], str]]] = {
        "NumPy arrays": (None, _of_numpy),
        "device arrays, alternating inputs": (None, _in_turn),
        "PyTorch, in a separate stream": ("torch", _of_torch),
        "CuPy, in a separate stream": ("cupy", _of_cupy),
        "errors": (None, _errors),
    }
    for what, (package, run) in ways.items():
        if package is not None and find_spec(package) is None:
            yield Verdict(what, 0, f"{package} is not installed", absent=True)
            continue
        try:
            yield Verdict(what, 1, run(shipped, device, a, want))
        except NotHere as error:
            yield Verdict(what, 0, str(error), absent=True)
        except Exception as error:  # noqa: BLE001 (a failure of another library is reported)
            yield Verdict(what, 0, f"{type(error).__name__}: {error}")


def _of_numpy(shipped: Shipped, _: atl.Device, a: Array, want: Array) -> str:
    out = np.full(want.shape, np.nan, want.dtype)
    shipped.kernel(a, out=out)
    return fault(out, want) or fault(shipped.kernel(a), want)


def _in_turn(shipped: Shipped, device: atl.Device, a: Array, want: Array) -> str:
    """Check a hundred calls in one stream with alternating inputs."""
    first, second = device.array(a), device.array(2 * a)
    results = [device.empty(want.shape, want.dtype) for _ in range(100)]
    try:
        for number, result in enumerate(results):
            shipped.kernel(second if number % 2 else first, out=result)
        faults = [fault(device.read(result), want * (1 + number % 2)) for number, result in enumerate(results)]
    finally:
        device.free(first, second, *results)
    return next(filter(None, faults), "")


def _of_torch(shipped: Shipped, _device: atl.Device, a: Array, want: Array) -> str:
    import torch

    if not torch.cuda.is_available():
        raise NotHere("torch sees no GPU")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        held = torch.from_numpy(a).cuda()
        for _ in range(20):
            held = held * 2 / 2
        out = torch.full(want.shape, float("nan"), device="cuda")
        shipped.kernel.on(stream)(held, out=out)
        later = out + 0
    stream.synchronize()
    direct = shipped.kernel(torch.from_numpy(a).cuda())
    return fault(later.cpu().numpy(), want) or fault(direct, want)


def _of_cupy(shipped: Shipped, _device: atl.Device, a: Array, want: Array) -> str:
    import cupy

    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        held = cupy.asarray(a)
        for _ in range(20):
            held = held * 2 / 2
        out = cupy.full(want.shape, cupy.nan, dtype=cupy.float32)
        shipped.kernel(held, out=out)
        later = out + 0
        got = cupy.asnumpy(later)
    return fault(got, want)


def _errors(shipped: Shipped, device: atl.Device, a: Array, want: Array) -> str:
    """Check that invalid calls raise an error, and that the next call is correct."""
    try:
        device.empty((2**45,), "float32")
        return "128 TB were allocated"
    except OutOfMemory as error:
        if "cudaErrorMemoryAllocation" not in str(error):
            return f"the message does not name the CUDA error: {error}"
    try:
        # At most 65535 blocks along y, of at most 1024 rows each.
        shipped.kernel(np.broadcast_to(np.float32(1), (1, 2**30)))
        return "a grid larger than CUDA's limit was launched"
    except GridTooLarge:
        return fault(shipped.kernel(a), want)
