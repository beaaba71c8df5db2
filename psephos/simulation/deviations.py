"""What went wrong in a run of the driver that went on: refused, wrong and missing messages, and whose they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from psephos.protocol.driver import NO_MESSAGE, Driver
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.errors import PsephosError
from psephos.protocol.roles import Refusal
from psephos.protocol.transcript import SentMessage
from psephos.protocol.wire import Kind
from psephos.results.deviations import Deviation, merged

_CURATOR = ("curator",)


def run_to_end(driver: Driver) -> dict[str, Any]:
    """Run a driver that goes on after a refusal; an error that ends it names whose messages were refused before."""
    try:
        return driver.run()
    except PsephosError as error:
        if driver.refused:
            error.culprits = error.culprits or tuple(dict.fromkeys(each.entry.sender for _, each in driver.refused))
            raise error from driver.refused[0][1].error
        raise


def deviations_of(
    driver: Driver, messages: Sequence[SentMessage], opened: Sequence[OpenedSum], present: Collection[int]
) -> list[Deviation]:
    """Return what roles of encrypted sums did otherwise than the protocol says.

    `messages`: all of the driver's board, in order; `opened`: the sums that it opened; `present`: numbers of the
    parties that take part. What nobody refused is found by the curator.
    """
    refused = merged(_refused(driver, messages))
    return merged([*refused, *_wrong(messages, opened), *_missing(messages, opened, present, refused)])


def _refused(driver: Driver, messages: Sequence[SentMessage]) -> Iterator[Deviation]:
    first, readers = dict[int, Refusal](), dict[int, list[str]]()
    for reader, refusal in driver.refused:
        first.setdefault(refusal.entry.number, refusal)
        readers.setdefault(refusal.entry.number, []).append(reader)
    for number, refusal in first.items():
        sent, error = messages[number - 1], type(refusal.error).__name__
        kind = "message" if sent.kind == NO_MESSAGE else sent.kind
        yield Deviation(sent.sender, kind, "refused", tuple(readers[number]), sent.phase, error)


def _wrong(messages: Sequence[SentMessage], opened: Sequence[OpenedSum]) -> Iterator[Deviation]:
    """Yield the partial decryptions, or published sums, that the others' contradict."""
    part = Kind.PARTIAL_DECRYPTION.title
    phases = {message.sender: message.phase for message in messages if message.kind == part}
    for one in opened:
        for holder in one.wrong_holders:
            yield Deviation(f"holder {holder}", part, "wrong", _CURATOR, phases.get(f"holder {holder}", ""))


def _missing(
    messages: Sequence[SentMessage], opened: Sequence[OpenedSum], present: Collection[int], refused: Sequence[Deviation]
) -> Iterator[Deviation]:
    """Yield the ballots and partial decryptions that never came: fewer messages were sent than asked for."""
    sent = Counter((message.sender, message.kind) for message in messages)
    malformed = {each.who: each.times for each in refused if each.message == "message"}
    asked = Counter({(f"party {number}", Kind.BALLOT.title): len(opened) for number in sorted(present)})
    asked.update((m.receiver, Kind.PARTIAL_DECRYPTION.title) for m in messages if m.kind == Kind.TALLY_REQUEST.title)
    for (who, message), times in (asked - sent).items():
        if (never := times - malformed.get(who, 0)) > 0:
            yield Deviation(who, message, "missing", _CURATOR, times=never)
