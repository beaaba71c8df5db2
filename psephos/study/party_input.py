"""What a party brings to a study: its rows, a classifier that is trained on them, or a classifier of its own."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from psephos.curator.statistic import public_coordinates
from psephos.parties.learners import LEARNERS, make_learner
from psephos.parties.party import Voter
from psephos.protocol.errors import InvalidParameter, StudyError
from psephos.protocol.signing import VerificationKey
from psephos.protocol.study.study import Study
from psephos.specs.registry import protected_by, spec_of
from psephos.specs.terms import StudyTerms
from psephos.study.samples import PublicSamples


class MemberSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The files of a member, as absolute paths, and what it votes with.

    `learner`: the classifier that it trains on `data`; `voter`: PATH.py:OBJECT, MODULE:OBJECT or a table of parameters
    in place of both.
    `again`: whether it contributes although another study's exact sum has the same (`Identity.charge`).
    """

    board: str = ""
    public: str = ""
    data: str = ""
    learner: str = "logistic"
    voter: str = ""
    output: str = ""
    budget: str = ""
    again: bool = False


def absolute_voter(name: str) -> str:
    """Return PATH.py:OBJECT, or the file of a table, with an absolute path, and MODULE:OBJECT or "" as it is."""
    file, _, attribute = name.rpartition(":")
    if name and not file:
        return str(Path(name).expanduser().absolute())
    return f"{Path(file).expanduser().absolute()}:{attribute}" if file.endswith(".py") else name


def load_voter(name: str) -> Any:
    """Import a classifier of the party's own: PATH.py:OBJECT or MODULE:OBJECT.

    The process that imports it may hold a share of the key, so nothing is looked for in the working directory: a file
    is named by its absolute path, and a module must be installed or be in a folder of PYTHONPATH.

    Raises InvalidParameter for what cannot be imported, has no `predict_votes`, or is a file that another user of the
    machine may write or replace.
    """
    module, _, attribute = name.rpartition(":")
    try:
        imported = _load_file(Path(module)) if module.endswith(".py") else importlib.import_module(module)
        voter = getattr(imported, attribute)
    except InvalidParameter:
        raise
    except (ImportError, AttributeError, ValueError, OSError, SyntaxError) as error:
        raise InvalidParameter(
            f"--voter {name} cannot be imported ({error}): name a file as PATH.py:OBJECT, or an installed module as "
            "MODULE:OBJECT"
        ) from None
    if not callable(getattr(voter, "predict_votes", None)):
        raise InvalidParameter(f"--voter {name} has no predict_votes(X), which returns class numbers, int (N,)")
    return voter


def _writable_by_others(path: Path) -> Path | None:
    """Return the file, or the folder above it, that belongs to or may be written by another user than root."""
    real = path.resolve(strict=True)
    for place in (path, *path.parents, real, *real.parents):
        about = place.stat()
        # In a folder such as /tmp (sticky) only its owner may replace a file.
        sticky = place.is_dir() and about.st_mode & stat.S_ISVTX
        if (about.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not sticky) or about.st_uid not in (0, os.geteuid()):
            return place
    return None


def _load_file(path: Path) -> ModuleType:
    """Run a Python file once per process, as a module that no other import finds."""
    name = f"_psephos_voter_{hashlib.sha256(str(path).encode()).hexdigest()}"
    if name in sys.modules:
        return sys.modules[name]
    if not path.is_absolute():
        raise InvalidParameter(f"--voter {path} is a relative path: write the absolute one into the settings")
    if (place := _writable_by_others(path)) is not None:
        raise InvalidParameter(
            f"--voter {path} is not imported: another user may write {place}, and this process may hold a share of the "
            f"key. Move the file into a folder of your own, or chmod go-w {place}"
        )
    module_spec = importlib.util.spec_from_file_location(name, path)
    if module_spec is None or module_spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(module_spec)
    sys.modules[name] = module
    try:
        module_spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


class PartyInput:
    """What a party brings: a classifier, or its rows; read and imported when they are asked for, not before."""

    def __init__(
        self,
        study: Study,
        key: VerificationKey,
        settings: Callable[[], MemberSettings],
        samples: Callable[[], PublicSamples],
    ) -> None:
        """`key`: the party's. `settings`, `samples`: return its current settings, and the public samples."""
        self._study, self._key, self._settings, self._samples = study, key, settings, samples

    def check(self) -> str:
        """Check, before the vote, that nothing keeps the party from voting, and describe what votes."""
        settings, spec = self._settings(), self._spec()
        takes_classifier = spec.takes_classifier
        if spec.linear:
            spec.vector(self)
        elif settings.voter and takes_classifier:
            load_voter(settings.voter)
        if settings.voter and takes_classifier:
            return settings.voter
        rows, _ = self._rows()
        if column := protected_by(self._study).of:
            self._samples().persons(column, Path(settings.data))
        if not takes_classifier:
            return f"{len(rows):,} rows of {settings.data}"
        return f"{settings.learner}, trained on {len(rows):,} rows of {settings.data}"

    def predict_votes(self, X: NDArray[np.float64]) -> NDArray[np.integer]:
        """Train, and vote on the samples X, float64 (N, d); returns class numbers, int (N,)."""
        return np.asarray(self._voter(X).predict_votes(X))

    def predict_probabilities(self, X: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Train, and return the probabilities of the classes of X, float64 (N, K); None where there are none."""
        predict = getattr(self._voter(X), "predict_probabilities", None)
        return predict(X) if callable(predict) else None

    @property
    def parameters(self) -> NDArray[np.float64]:
        """The parameters of a linear classifier of scaled rows, (K, d) or, for two classes, (d,)."""
        settings, samples = self._settings(), self._samples()
        if settings.voter:
            return samples.head(self._study, Path(settings.voter))
        learner: Any = self._voter(samples.auxiliary.samples)
        weights: NDArray[np.float64] = learner.parameters
        return weights

    def _voter(self, X: NDArray[np.float64]) -> Voter:
        """Return the party's own classifier of samples such as X, float64 (N, d)."""
        settings = self._settings()
        if settings.voter:
            voter: Voter = load_voter(settings.voter)
            return voter
        rows, classes = self._rows()
        coordinates = public_coordinates(X) if settings.learner == "whitened" else None
        learner = make_learner(settings.learner, classes=len(self._study.classes), coordinates=coordinates)
        return learner.fit(rows, classes)

    def __iter__(self) -> Iterator[Any]:
        """Yield rows, float64 (n, d), class numbers, int64 (n,), and where persons are protected their numbers, int64
        (n,).
        """
        yield from self._rows()
        if column := protected_by(self._study).of:
            yield self._samples().persons(column, Path(self._settings().data))

    def _spec(self) -> Any:
        return spec_of(StudyTerms(self._study, self._samples()))

    def _rows(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Read the party's rows and class numbers, once, and check that the study's protocol can take them."""
        settings, study = self._settings(), self._study
        if not settings.data:
            raise StudyError(
                "this party has nothing to vote with: name its rows by --data FILE, or a classifier by --voter "
                "PATH.py:OBJECT or --voter MODULE:OBJECT"
            )
        if settings.learner not in LEARNERS:
            raise InvalidParameter(f"unknown learner {settings.learner!r}; known: {', '.join(LEARNERS)}")
        rows, classes = self._samples().private(study, Path(settings.data))
        spec = self._spec()
        for place, member in enumerate(study.parties):
            if member.key == self._key:
                spec.check_rows(place, len(rows))
        return rows, classes
