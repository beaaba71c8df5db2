"""Keys, rounds and hypothesis profiles that many tests share.

Small keys come from a seed, so that a failure can be looked at again; nothing they protect is worth anything.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from psephos.audit.rounds import short_key
from psephos.protocol.paillier.private_key import PrivateKey, generate_private_key

FEW = 30
"""Random cases of a property in `make test`; hypothesis draws 100 otherwise."""

# Everything is stated, because hypothesis has other defaults where it finds itself in a CI.
settings.register_profile(
    "random", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=False, print_blob=True
)
settings.load_profile("random")
settings.register_profile("few", parent=settings.default, max_examples=FEW, derandomize=True, database=None)

pytest_plugins = ["psephos.audit.fixtures"]

LONG = 5.0
"""Seconds after which a test belongs to one of the tiers that `make test` leaves out."""


def pytest_configure(config: pytest.Config) -> None:
    """Draw few cases in `make test`, which leaves out tiers, and the same ones each time: it cannot fail by chance."""
    if config.getoption("markexpr").startswith("not "):
        settings.load_profile("few")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start with what takes minutes: at the end, one process would wait for another's."""
    items.sort(key=lambda item: not {"site", "soak", "packaging"} & item.keywords.keys())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Name the tests of no tier that took long: a hint, since a busy machine makes any test slow."""
    tiers = {marker.partition(":")[0] for marker in config.getini("markers")}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", "") == "call" and report.duration > LONG and not tiers & report.keywords.keys():
                terminalreporter.write_line(f"{report.nodeid} took {report.duration:.0f} s and is in no tier")


def _nats_servers() -> dict[str, str]:
    """Return the paths of the NATS servers that are installed, by their versions: Debian's, and the package's."""
    folders = [*os.environ.get("PATH", "").split(os.pathsep), sysconfig.get_path("scripts")]
    paths = {path for folder in folders if (path := shutil.which("nats-server", path=folder))}
    outputs = {path: subprocess.run([path, "--version"], capture_output=True, text=True).stdout for path in paths}
    return {output.rpartition("v")[2].strip(): path for path, output in sorted(outputs.items())}


_SERVERS = [pytest.param(path, id=version) for version, path in _nats_servers().items()] or [
    pytest.param(None, marks=pytest.mark.skip("nats-server is not installed"), id="none")
]


@pytest.fixture(params=_SERVERS)
def nats_server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each NATS server that is installed, which is used then in this process and in those that it starts."""
    program: str = request.param
    monkeypatch.setattr("psephos.protocol.board.server.NATS_SERVER", program)
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(program).parent), os.environ["PATH"]]))
    return program


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    """Undo what a command has set for the log of `psephos`: a later test would write it."""
    logger = logging.getLogger("psephos")
    handlers, level, propagate = logger.handlers.copy(), logger.level, logger.propagate
    yield
    logger.handlers, logger.propagate = handlers, propagate
    logger.setLevel(level)


@pytest.fixture(scope="session")
def other_private_key() -> PrivateKey:
    """Another 512-bit test key."""
    return short_key(2)


@pytest.fixture(scope="session")
def real_private_key() -> PrivateKey:
    """A 2048-bit key, the smallest that is not a test key, from the operating system's randomness."""
    return generate_private_key(2048)
