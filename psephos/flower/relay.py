"""The exchange of board entries between the curator, who has the board, and members, who have copies of it.

    curator -> member   the study's digest; entries of the board, and how many come before them
    member -> curator   how many entries its copy has; the entries that it wants to have posted

A member's copy is a `BoardFile` of its own. Everything is sent again until it is there, so either side may stop or lose
messages at any time. Nobody is trusted with more than on any board (docs/protocols/board.md).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from psephos.protocol.board import MOST_BYTES, check_size
from psephos.protocol.board.address import open_board
from psephos.protocol.board.client import BoardMembers
from psephos.protocol.board.entries import SignedEntry
from psephos.protocol.board.file import BoardFile
from psephos.protocol.errors import BoardError, PsephosError, StudyError
from psephos.study.identity import Identity, fingerprint
from psephos.study.member import Membership
from psephos.study.runner import MemberRunner

_log = logging.getLogger("psephos.flower")


def limited(entries: Iterable[bytes]) -> list[bytes]:
    """Return the first entry and those that follow it within `MOST_BYTES` together."""
    taken: list[bytes] = []
    size = 0
    for data in entries:
        size += len(data)
        if taken and size > MOST_BYTES:
            break
        taken.append(data)
    return taken


class Relay:
    """The curator's side: what each member has yet to receive, and what it sent."""

    def __init__(self, board: BoardFile, members: BoardMembers) -> None:
        self._board, self._members = board, members
        self._received: dict[int, int] = {}
        self._sent: dict[int, int] = {}

    def up_to_date(self, node: int) -> bool:
        """Return whether the node's copy has every entry."""
        return self._received.get(node) == self._board.count()

    def next(self, node: int) -> tuple[int, list[bytes]]:
        """Return how many entries the node has, as far as it has said, and the next ones for it."""
        after = self._received.get(node)
        if after is None:
            return 0, []  # it says first how many it has: a copy outlives its node
        entries = limited(data for _, data in self._board.read(after))
        self._sent[node] = after + len(entries)
        return after, entries

    def receive(self, node: int, size: int, entries: Sequence[bytes]) -> bool:
        """Post what members have signed of a node's entries; return whether its copy has what the node was sent.

        Raises BoardError if its copy is longer than the board.
        """
        if not 0 <= size <= self._board.count():
            raise BoardError(f"node {node} has {size} entries, and the board {self._board.count()}")
        self._received[node] = size
        for data in entries:
            try:
                check_size(data)
                signed = SignedEntry.decode(data)
                if signed.session != self._members.session or signed.author not in self._members.keys:
                    raise StudyError(f"an entry of {signed.author!r} is not of this study")
                signed.verify(self._members.keys[signed.author])
                self._board.post(data)
            except PsephosError as error:
                _log.warning("refused an entry from node %d: %s", node, error)
        return size >= self._sent.get(node, 0)


def answer(identity: Identity, study: bytes, after: int, entries: Sequence[bytes]) -> tuple[int, list[bytes]]:
    """Take what the curator sent into the member's copy, run its roles, and return what the curator is to receive.

    Raises StudyError for a study that the identity has not joined with a copy as its board; BoardError for entries that
    are not of the board that it knows. An error of a role is logged here and not sent: it may be about private rows.
    """
    member = Membership.find(identity, fingerprint(study))
    board = open_board(member.settings.board, study)
    if not isinstance(board, BoardFile) or not board.copy:
        board.close()
        raise StudyError(f"{member.folder} has another board: join with --board copy:PATH")
    try:
        board.extend(after, entries, "the server's message")
        try:
            with MemberRunner(member, member.names, say=_log.info) as runner:
                while runner.step(patient=True):
                    pass
        except Exception as error:
            _log.error("%s: %s", type(error).__name__, error)
        return board.count(), limited(board.unposted())
    finally:
        board.close()
