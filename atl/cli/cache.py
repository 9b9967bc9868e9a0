"""`atl cache`: list, measure and clear the cache of compiled kernels."""

from __future__ import annotations

import argparse
import re
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from atl.cli.command import FAILED, INTERRUPTED, Command, declare_json, print_json
from atl.cli.terminal import with_progress
from atl.errors import InvalidArgument

if TYPE_CHECKING:
    from lowering.build_cache import Entry

UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
SIZES: Final = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3}
ORDERS: Final = ("used", "age", "size", "name")
MOST_LISTED: Final = 20


def _declare(parser: argparse.ArgumentParser) -> None:
    actions = "list the builds, print their number and size (default), or remove them"
    parser.add_argument("what", choices=("list", "size", "clear"), nargs="?", default="size", help=actions)
    parser.add_argument(
        "--sort", choices=ORDERS, default="used", help="order of the list: last used, last built, largest, or by name"
    )
    parser.add_argument("--all", action="store_true", help=f"list all builds, not only the first {MOST_LISTED}")
    parser.add_argument("--name", metavar="TEXT", help="only builds whose name contains TEXT")
    parser.add_argument("--older-than", metavar="AGE", help="only builds not used for this long: 12h, 30d, 8w")
    parser.add_argument(
        "--down-to", metavar="SIZE", help="clear: remove builds, oldest first, until the cache has this size: 500M"
    )
    parser.add_argument("--dry-run", action="store_true", help="clear: only print what would be removed")
    declare_json(parser)


def _run(arguments: argparse.Namespace) -> int:
    from lowering.build_cache import entries, evictable, location

    older, most = _age(arguments.older_than), _bytes(arguments.down_to)
    clears = arguments.what == "clear"
    if not clears and (most is not None or arguments.dry_run):
        raise InvalidArgument("--down-to and --dry-run apply only to clear", required="atl cache clear")
    found = [entry for entry in entries() if arguments.name is None or arguments.name in entry.name]
    chosen = evictable(found, older_than=older, most=most)
    if clears and not arguments.dry_run:
        return _clear(chosen, as_json=arguments.json)
    _sort(chosen, arguments.sort)
    if arguments.json:
        listed = [_as_data(entry) for entry in chosen] if arguments.what != "size" else []
        print_json({**_totals(chosen), **({"builds": listed} if arguments.what != "size" else {})})
        return 0
    if arguments.what == "list":
        _print_list(chosen if arguments.all else chosen[:MOST_LISTED], len(chosen))
    would = "would be removed, of" if clears else "in"
    print(f"{_summary(chosen)} {would} {location()} (the environment variable ATL_CACHE sets another folder)")
    return 0


def _clear(chosen: list[Entry], *, as_json: bool) -> int:
    from lowering.build_cache import location

    removed: list[Entry] = []
    kept: list[Entry] = []
    interrupted = False
    try:
        for entry in with_progress(chosen, "removing builds"):
            (removed if entry.remove() else kept).append(entry)
    except KeyboardInterrupt:
        interrupted = True
    if as_json:
        print_json({**_totals(removed), "kept": [entry.name for entry in kept], "interrupted": interrupted})
    else:
        print(f"removed {_summary(removed)} from {location()}")
        if kept:
            print(f"{len(kept)} could not be removed: {', '.join(entry.name for entry in kept[:5])}")
        if interrupted:
            print(f"interrupted: {len(chosen) - len(removed) - len(kept)} builds were not removed")
    return INTERRUPTED if interrupted else FAILED if kept else 0


def _sort(found: list[Entry], order: str) -> None:
    if order == "size":
        found.sort(key=lambda entry: -entry.bytes)
    elif order == "name":
        found.sort(key=lambda entry: entry.name)
    else:
        found.sort(key=lambda entry: -(entry.built if order == "age" else entry.used))


def _print_list(shown: list[Entry], count: int) -> None:
    now = time.time()
    for entry in shown:
        print(f"{_size_text(entry.bytes):>9}  {_age_text(now - entry.used):>4}  {entry.kind:9}  {entry.name}")
    if len(shown) < count:
        print(f"… and {count - len(shown)} more (--all lists them)")


def _totals(found: list[Entry]) -> dict[str, Any]:
    from lowering.build_cache import location

    return {
        "location": str(location()),
        "count": len(found),
        "files": sum(len(entry.files) for entry in found),
        "bytes": sum(entry.bytes for entry in found),
    }


def _summary(found: list[Entry]) -> str:
    files = sum(len(entry.files) for entry in found)
    size = _size_text(sum(entry.bytes for entry in found))
    return f"{len(found):,} build{'' if len(found) == 1 else 's'}, {files:,} files, {size}"


def _as_data(entry: Entry) -> dict[str, Any]:
    def moment(seconds: float) -> str:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")

    return {
        "name": entry.name,
        "kind": entry.kind,
        "bytes": entry.bytes,
        "built": moment(entry.built),
        "used": moment(entry.used),
        "files": [str(path) for path in entry.files],
    }


def _age(text: str | None) -> float | None:
    """Parse an age such as "30d" and return it in seconds."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d{1,9})([smhdw])", text)
    if found is None:
        raise InvalidArgument(f"--older-than {text}", required="a number and one of s, m, h, d, w: 30d")
    return float(found[1]) * UNITS[found[2]]


def _bytes(text: str | None) -> int | None:
    """Parse a size such as "500M" and return it in bytes."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d{1,15})([kmg]?)b?", text.lower())
    if found is None:
        raise InvalidArgument(f"--down-to {text}", required="a number of bytes, or one with k, M or G: 500M")
    return int(found[1]) * SIZES[found[2]]


def _size_text(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def _age_text(seconds: float) -> str:
    for unit, length in reversed(UNITS.items()):
        if unit != "w" and seconds >= length:
            return f"{seconds / length:.0f}{unit}"
    return "0s"


CACHE = Command(
    "cache", "List, measure or clear the cache of compiled kernels", _declare, _run,
    ("atl cache size", "atl cache list --sort size", "atl cache clear --older-than 30d --dry-run"),
)  # fmt: skip
