"""A headless Chromium, driven by its own protocol over two pipes, without another package or a port."""

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from select import select
from typing import Any, Final

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "headless-shell")
FLAGS: Final = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-pipe", "--disable-extensions",
    "--disable-background-networking", "--hide-scrollbars",
)  # fmt: skip
ON_3_AND_4: Final = """
import fcntl, os, sys
reads, writes = (fcntl.fcntl(int(given), fcntl.F_DUPFD, 10) for given in sys.argv[1:3])
os.dup2(reads, 3)
os.dup2(writes, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Run the browser with commands on descriptor 3 and answers on descriptor 4."""
PATIENCE: Final = 600.0
"""Seconds to wait for an answer, even on a busy machine."""


def find_browser() -> str | None:
    """Return the browser of this machine, if there is one."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


FRAMES: Final = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"
"""A promise that resolves when the browser has drawn the page twice."""


class Chromium:
    """One page of a browser. `faults` has the errors and warnings of its console."""

    def __init__(self, reader: int, writer: int) -> None:
        self._reader, self._writer = reader, writer
        self._held = b""
        self._asked = 0
        self._session: str | None = None
        self._events: list[dict[str, Any]] = []
        self.faults: list[str] = []
        self.requests: list[str] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **parameters: object) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        self._asked += 1
        message: dict[str, object] = {"id": self._asked, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._writer, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._asked:
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: dict[str, Any] = answer["result"]
                return result

    def wait_for(self, event: str) -> dict[str, Any]:
        """Wait for an event, or take it from those that have arrived."""
        while not any(each["method"] == event for each in self._events):
            self._next()
        at = next(at for at, each in enumerate(self._events) if each["method"] == event)
        params: dict[str, Any] = self._events.pop(at).get("params", {})
        return params

    def _next(self) -> dict[str, Any]:
        until = time.monotonic() + PATIENCE
        while b"\0" not in self._held:
            ready, _, _ = select([self._reader], [], [], max(0.0, until - time.monotonic()))
            more = os.read(self._reader, 1 << 20) if ready else b""
            assert more, "the browser does not answer"
            self._held += more
        line, _, self._held = self._held.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        if "method" in message:
            self._note(message)
        return message

    def _note(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        match event["method"]:
            case "Runtime.exceptionThrown":
                self.faults.append(str(params["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning", "assert"):
                self.faults.append(str(params["args"]))
            case "Log.entryAdded" if params["entry"]["level"] in ("error", "warning"):
                self.faults.append(str(params["entry"]))
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case _:
                pass
        self._events.append(event)

    def open(self, path: Path, anchor: str = "") -> None:
        """Open a file and wait until it is loaded."""
        self._events.clear()
        self.ask("Page.navigate", url="about:blank")
        self.wait_for("Page.loadEventFired")
        self.ask("Page.navigate", url=path.resolve().as_uri() + anchor)
        self.wait_for("Page.loadEventFired")

    def value(self, script: str) -> Any:
        """Evaluate a JavaScript expression on the page."""
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """Press a key at the current focus."""
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        down = {"type": "keyDown" if text else "rawKeyDown", "key": key, "text": text}
        if key in ("Tab", "Enter", "Escape"):
            down["windowsVirtualKeyCode"] = str({"Tab": 9, "Enter": 13, "Escape": 27}[key])
        codes = {name: int(code) if name == "windowsVirtualKeyCode" else code for name, code in down.items()}
        self.ask("Input.dispatchKeyEvent", **codes)
        self.ask("Input.dispatchKeyEvent", type="keyUp", key=key)
        self.value(FRAMES)

    def hover(self, selector: str) -> None:
        """Move the pointer over the middle of an element."""
        script = (
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); "
            "e.scrollIntoView({block: 'center', behavior: 'instant'}); "
            "const b = e.getBoundingClientRect(); return [b.x + Math.min(b.width, 60) / 2, b.y + b.height / 2]; })()"
        )
        before: list[float] = []
        place: list[float] = self.value(script)
        while place != before:  # elements near the window are laid out only now, and move those below them
            self.value(FRAMES)
            before, place = place, self.value(script)
        self.ask("Input.dispatchMouseEvent", type="mouseMoved", x=place[0], y=place[1])
        self.value(FRAMES)

    def looks(self, width: int, height: int, *, dark: bool = False, media: str = "", scale: float = 1) -> None:
        """Set the size of the window, a light or dark theme, and screen or print."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": width < 600}
        self.ask("Emulation.setDeviceMetricsOverride", **metrics)
        scheme: Mapping[str, str] = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still: Mapping[str, str] = {"name": "prefers-reduced-motion", "value": "reduce"}
        self.ask("Emulation.setEmulatedMedia", media=media, features=[scheme, still])

    def picture(self, path: Path) -> None:
        """Save a screenshot of the window."""
        path.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot")["data"]))


@contextmanager
def browser() -> Iterator[Chromium]:
    """Start a browser with a temporary profile, and end it with the block."""
    program = find_browser()
    assert program is not None
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    with tempfile.TemporaryDirectory(prefix="atl-browser-", ignore_cleanup_errors=True) as profile:
        flags = [*FLAGS, f"--user-data-dir={profile}"]
        command = [sys.executable, "-c", ON_3_AND_4, str(theirs_in), str(theirs_out), program, *flags, "about:blank"]
        process = subprocess.Popen(
            command, pass_fds=(theirs_in, theirs_out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(theirs_in)
        os.close(theirs_out)
        try:
            yield Chromium(ours_in, ours_out)
        finally:
            os.close(ours_out)  # the browser ends when its pipe is closed
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            os.close(ours_in)
