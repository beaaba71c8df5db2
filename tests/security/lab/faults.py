"""Faults: edits of the real source (faults.toml), and what must notice each."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from psephos.audit.model import AnalysisContext, CheckResult
from psephos.audit.run import CASES, RATE
from tests.security.lab.edits import edited


def owner_of(place: str) -> tuple[Any, str]:
    """Return the module or class of a function, and the function's name; `place`: its dotted name below psephos."""
    path, _, name = place.rpartition(".")
    module, _, kind = path.rpartition(".")
    if kind.strip("_")[0].isupper():
        return getattr(import_module(f"psephos.{module}"), kind), name
    return import_module(f"psephos.{path}"), name


@dataclass(frozen=True)
class Fault:
    """One or more edits, and the checks of each case of the audit that change their verdict with so many views."""

    name: str
    place: str
    old: str
    new: str
    noticed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    views: int = 30
    also: Sequence[Sequence[str]] = ()

    @property
    def edits(self) -> list[tuple[str, str, str]]:
        return [(self.place, self.old, self.new), *((place, old, new) for place, old, new in self.also)]

    @contextmanager
    def planted(self) -> Iterator[None]:
        """The code has the fault while the block runs."""
        with ExitStack() as stack:
            for place, old, new in self.edits:
                stack.enter_context(edited(*owner_of(place), old, new))
            yield


_TABLE = tomllib.loads(Path(__file__).with_name("faults.toml").read_text(encoding="utf-8"))
FAULTS: dict[str, Fault] = {name: Fault(name, **entry) for name, entry in _TABLE.items()}
"""All faults, by name."""
CHECKS = {(case.name, check.name): check for case in CASES.values() for check in case.checks}


def noticed(fault: Fault, case: str, check: str, seed: int) -> tuple[bool, CheckResult]:
    """Return whether a check of the audit changes its verdict because of the fault, and its result."""
    audited = CHECKS[case, check]
    (coalition,) = (one for one in CASES[case].coalitions if one.name == audited.coalition)
    reveals = bool({*coalition.granted, *coalition.known_leaks} & set(audited.secrets))
    with fault.planted():
        result = audited.run(AnalysisContext(seed=seed, views=fault.views, rate=RATE))
    return result.leaks is not reveals, result
