"""Recorded studies."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from tests.verifier.recording import Recording, public_file, record


@pytest.fixture(scope="session")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Recording]:
    """Plays a study when it is first asked for."""
    folder = tmp_path_factory.mktemp("public")
    return cache(lambda what: record(what, public_file(folder, what)))
