"""What roles did that the protocol does not, as the others noticed it: one vocabulary for runs and for studies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from msgspec import Meta

from psephos.protocol.errors import (
    DuplicateBallotError,
    ForgedSignatureError,
    LateBallotError,
    MessageError,
    ProofError,
    ThresholdError,
    UnexpectedMessageError,
    UnknownPartyError,
    UnsealedMessageError,
    WrongPartialDecryptionError,
    WrongRoundError,
)
from psephos.results.base import Fact

_REASONS = {
    DuplicateBallotError.__name__: "a second one",
    ForgedSignatureError.__name__: "signed by somebody else",
    LateBallotError.__name__: "after the close",
    MessageError.__name__: "malformed",
    ProofError.__name__: "without a valid proof",
    ThresholdError.__name__: "another holder's, or a second one",
    UnexpectedMessageError.__name__: "unexpected there",
    UnknownPartyError.__name__: "from a stranger",
    UnsealedMessageError.__name__: "secret, and in clear",
    WrongPartialDecryptionError.__name__: "wrong",
    WrongRoundError.__name__: "for something else",
}

_FEW = 3  # roles from which on a row has their number, and the JSON their names


def reason_of(error: str) -> str:
    """Return the class of the error for which a message is refused, and what it means of the message."""
    return f"{error} ({_REASONS[error]})" if error in _REASONS else error


@dataclass(frozen=True)
class Deviation:
    """A message that a role sent wrongly, or not at all, and without which the run went on.

    Attributes:
        who: the role, such as "holder 1".
        message: the kind of the message.
        found: refused by those who read it, contradicted by the others' messages ("wrong"), or never sent ("missing").
        by: the roles that found it; one that lies may accuse an honest one.
        step: the phase of the run in which it was sent; "" if it is missing.
        error: the class of the error for which it was refused; "" otherwise.
        times: the number of such messages.
    """

    who: str
    message: str
    found: Literal["refused", "wrong", "missing"]
    by: tuple[str, ...]
    step: str = ""
    error: str = ""
    times: Annotated[int, Meta(ge=1)] = 1

    @property
    def fact(self) -> Fact:
        """The row that every view shows."""
        why = f", {reason_of(self.error)}" if self.error else ""
        where = f", in {self.step}" if self.step else ""
        often = f", {self.times} times" if self.times > 1 else ""
        found = f"{self.message} {self.found}{why}{where}{often}"
        finders = " and ".join(self.by) if len(self.by) < _FEW else f"{len(self.by)} roles"
        return Fact("deviation", self.who, f"{found}; found by {finders}")

    def __str__(self) -> str:
        return self.fact.text


def merged(deviations: Iterable[Deviation]) -> list[Deviation]:
    """Return the deviations, equal ones as one."""
    times = Counter[Deviation]()
    for each in deviations:
        times[replace(each, times=1)] += each.times
    return [replace(each, times=count) for each, count in times.items()]
