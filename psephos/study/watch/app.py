"""The page of a followed study: Starlette and server-sent events."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Sequence
from importlib.resources import files
from ipaddress import ip_address

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from psephos.results.html import DARK, LIGHT
from psephos.study.monitor import Follower

_BEAT = 15.0
"""Seconds without news after which a page gets the state again."""

_log = logging.getLogger("psephos.study")

_LONGEST_STEP = 60.0
"""Seconds after which a reading of the board that has not ended is reported."""

_SECURE = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


def application(follower: Follower, *, poll: float = 1.0, hosts: Sequence[str] = ("*",)) -> Starlette:
    """Return the web application with the page of a followed study.

    `poll`: seconds between reads of the board. `hosts`: names for which it answers requests (`answers_to`).
    """
    changed = asyncio.Condition()

    async def follow() -> None:
        while True:
            if await asyncio.to_thread(_step, follower):
                async with changed:
                    changed.notify_all()
            await asyncio.sleep(poll)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(follow())
        try:
            yield
        finally:
            task.cancel()

    async def page(request: Request) -> Response:
        return HTMLResponse(_page(), headers=_SECURE)

    async def script(request: Request) -> Response:
        return Response(_file("watch.js"), media_type="text/javascript", headers=_SECURE)

    async def state(request: Request) -> Response:
        return JSONResponse(follower.state(), headers={"Cache-Control": "no-store"})

    async def events(request: Request) -> Response:
        async def updates() -> AsyncIterator[str]:
            while not await request.is_disconnected():
                yield f"data: {json.dumps(follower.state())}\n\n"
                async with changed:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(changed.wait(), _BEAT)

        return StreamingResponse(updates(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})

    async def healthy(request: Request) -> Response:
        trouble = _trouble(follower, poll)
        return JSONResponse({"board": trouble or "answers"}, 503 if trouble else 200)

    routes = [
        Route("/", page),
        Route("/watch.js", script),
        Route("/state.json", state),
        Route("/events", events),
        Route("/healthy", healthy),
    ]
    answering = Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False)
    return Starlette(routes=routes, middleware=[answering], lifespan=lifespan)


def _step(follower: Follower) -> bool:
    """Take a step; an error in it is a failure of the board, and does not end the page."""
    try:
        return follower.step()
    except Exception as error:
        _log.exception("the board could not be read")
        follower.failure = f"the board could not be read: {type(error).__name__}"
        return True


def _trouble(follower: Follower, poll: float) -> str:
    """Return why the page is not up to date; empty if it is."""
    waited = follower.clock() - follower.stepped_at
    if not follower.failure and waited > poll + _LONGEST_STEP:
        return f"the reader has been stuck for {waited:.0f} s"
    return follower.failure


def answers_to(address: str) -> Sequence[str]:
    """Return the names of the host for which a page at this address answers requests.

    For an address that only this machine can reach its local names: a web site could let its own name resolve to this
    machine, and read the page under that name (DNS rebinding). Otherwise any name.
    """
    here = ip_address(address)
    return ("localhost", "127.0.0.1", "[::1]", str(here)) if here.is_loopback else ("*",)


def _file(name: str) -> str:
    return (files("psephos.study.watch") / "templates" / name).read_text(encoding="utf-8")


def _page() -> str:
    light, dark = ("".join(f"--{name}:{value};" for name, value in colours.items()) for colours in (LIGHT, DARK))
    colours = f":root{{{light}}}@media(prefers-color-scheme:dark){{:root{{{dark}}}}}"
    return _file("watch.html").replace("/* colours */", colours)
