"""A headless Chromium, driven over a pipe: for the tests of the report, and for its pictures in the documentation.

Two named pipes and the DevTools protocol; no port is opened and no other package is needed.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
"""Where it is; None where there is none."""

OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-extensions",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
    "--remote-debugging-pipe",
)  # fmt: skip


class Chromium:
    """One browser with one page. Everything it tells is kept in `events` until the next page is opened."""

    def __init__(self, folder: Path) -> None:
        for name in ("commands", "answers"):
            os.mkfifo(folder / name)
        command = 'in="$1"; out="$2"; shift 2; exec "$@" 3<"$in" 4>"$out"'
        arguments = [str(CHROMIUM), *OPTIONS, f"--user-data-dir={folder / 'profile'}", "about:blank"]
        self.process = subprocess.Popen(  # noqa: S603 - nothing here comes from elsewhere
            ["/bin/sh", "-c", command, "sh", str(folder / "commands"), str(folder / "answers"), *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        # Whatever hangs ends with the browser: its pipes close.
        self.guard = threading.Timer(300, self.process.kill)
        self.guard.start()
        self._to = (folder / "commands").open("wb", buffering=0)
        self._from = (folder / "answers").open("rb")
        self._rest = b""
        self._asked = 0
        self.events: list[dict[str, Any]] = []
        self._session = None
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.ask(f"{domain}.enable")

    def close(self) -> None:
        """Close the pipes; the process is its maker's to end."""
        self._to.close()
        self._from.close()

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            part = self._from.read1(1 << 20)
            if not part:
                raise RuntimeError("Chromium ended")
            self._rest += part
        message, self._rest = self._rest.split(b"\0", 1)
        received: dict[str, Any] = json.loads(message)
        return received

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send one command and return its result."""
        self._asked += 1
        message = {"id": self._asked, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        self._to.write(json.dumps(message).encode() + b"\0")
        while True:
            received = self._receive()
            if received.get("id") == self._asked:
                if "error" in received:
                    raise RuntimeError(f"{method}: {received['error']}")
                result: dict[str, Any] = received["result"]
                return result
            self.events.append(received)

    def open(self, page: Path, *, width: int, dark: bool, scale: float = 1, media: str = "") -> None:
        """Load a file and wait for it."""
        self.events.clear()
        theme = "dark" if dark else "light"
        self.ask("Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": theme}])
        phone = width < 600
        size = {"width": width, "height": 900, "deviceScaleFactor": scale, "mobile": phone}
        self.ask("Emulation.setDeviceMetricsOverride", **size)
        self.ask("Page.navigate", url=page.resolve().as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._receive())

    def value(self, expression: str, *, wait: bool = False) -> Any:
        """What a piece of script gives on the page; `wait` for what it promises."""
        found = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=wait)
        if "exceptionDetails" in found:
            raise RuntimeError(str(found["exceptionDetails"]))
        return found["result"].get("value")

    def said(self) -> list[str]:
        """Console messages, errors and warnings of the page since it was opened."""
        kinds = ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")
        return [json.dumps(event["params"]) for event in self.events if event.get("method") in kinds]

    def requested(self) -> set[str]:
        """Every address that the page asked for since it was opened, its own included."""
        asked = (event for event in self.events if event.get("method") == "Network.requestWillBeSent")
        return {event["params"]["request"]["url"] for event in asked}

    def picture(self, x: float, y: float, width: float, height: float) -> bytes:
        """A PNG of a part of the page."""
        clip = {"x": x, "y": y, "width": width, "height": height, "scale": 1}
        taken = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        return base64.b64decode(taken["data"])


@contextlib.contextmanager
def chromium() -> Iterator[Chromium]:
    """A browser with an empty profile, ended and forgotten afterwards."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        browser = Chromium(Path(folder))
        try:
            yield browser
        finally:
            browser.guard.cancel()
            browser.process.kill()
            browser.process.wait()
            browser.close()
