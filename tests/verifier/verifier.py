"""A second verifier of studies, written from docs/wire.md alone: it imports nothing of Psephos.

    python -m tests.verifier.verifier STUDY.toml PUBLIC.csv BOARD

BOARD is the SQLite file of a board. The report has a line for each check; the exit status is 1 if one fails.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.verifier.board import KINDS, Board, Message, Refused, Report, Study, require
from tests.verifier.ceremony import KINDS as CEREMONY_KINDS
from tests.verifier.ceremony import key_of_ceremony
from tests.verifier.paillier import Key, read_key
from tests.verifier.plans import plan_of, round_of
from tests.verifier.public import Public
from tests.verifier.regression import differences
from tests.verifier.release import Result, check_model
from tests.verifier.series import check_series
from tests.verifier.shares import check_shares
from tests.verifier.sums import check_sum, exposed

PROTOCOLS = (
    "tally",
    "statistic",
    "average",
    "head",
    "record",
    "regression",
    "evaluation",
    "rehearsed",
    "psgd",
    "pathak",
)
"""What this verifier covers."""
Found = tuple[Result | None, str]
"""The result of a protocol, and why there can be none yet."""


def read_until_key(study: Study, messages: Iterator[Message], report: Report) -> Key | None:
    """Read the messages up to the last holder's public key."""
    joined, failed, keys = set[str](), set[str](), dict[str, Message]()
    ceremony = list[Message]()
    holders = {f"holder {number}" for number in range(1, study.holders + 1)}
    for message in messages:
        if message.kind == KINDS["joined"]:
            joined.add(message.sender)
            if study.must_join <= joined and not study.uses_key:
                report.holds.append("everybody has joined")
                return None
        elif message.sender in holders and message.kind == KINDS["public key"]:
            keys.setdefault(message.sender, message)
        elif message.sender in holders and study.must_join <= joined:
            if message.kind in CEREMONY_KINDS.values():
                ceremony.append(message)
            elif _reports_failure(study, message):
                failed.add(message.sender)
        if failed and len(failed) >= study.threshold:
            report.fails.append("the holders report that there is no key")
            return None
        if study.uses_key and study.must_join <= joined and keys.keys() == holders:
            return _published_key(study, list(keys.values()), ceremony, report)
    report.lacks.append("the study has not begun")
    return None


def _reports_failure(study: Study, message: Message) -> bool:
    try:
        why = message.body("failed ceremony", study.ceremony).rest().decode()
    except (Refused, UnicodeDecodeError):
        return False
    return 0 < len(why) <= 400 and why.isprintable()


def _published_key(study: Study, keys: list[Message], ceremony: list[Message], report: Report) -> Key | None:
    try:
        require(len({message.data for message in keys}) == 1, "the holders published different keys")
        key = read_key(study, keys[0].body("public key", study.digest))
    except Refused as error:
        report.fails.append(f"the key: {error}")
        return None
    report.holds.append("the key is published alike by all holders")
    check_ceremony(study, key, ceremony, report)
    return key


def check_ceremony(study: Study, key: Key, messages: list[Message], report: Report) -> None:
    """Check that the published key is the one that the ceremony makes; a trial's may be dealt."""
    if not messages and study.trial:
        return
    try:
        require(key_of_ceremony(study, messages) == key, "it makes another key than the holders publish")
    except Refused as error:
        report.fails.append(f"the ceremony: {error}")
    else:
        report.holds.append(f"{len(messages)} messages of the ceremony make the key")


def verify(study_text: str, public_text: str, entries: list[bytes]) -> Report:
    """Check a study."""
    study, report = Study(study_text), Report()
    require(study.protocol in PROTOCOLS, f"{study.protocol} is beyond this verifier")
    public = Public(study, public_text)
    same = public.table == study.public_table and public.features == study.features
    require(same, "the public samples are others than the study's")
    board = Board(study, entries)
    if study.outweighed_by(board.contradicting):
        report.fails.append(f"{', '.join(sorted(board.contradicting))} contradict the log, or leave places out")
    else:
        report.misconduct |= board.contradicting
    report.holds.append(f"{len(entries)} entries, head {board.log.roots[-1].hex()}")
    if absent := sorted(study.must_join - board.joined):
        report.fails.append(f"not joined: {', '.join(absent)}")
    if study.protocol == "regression":
        report.fails += [f"the {name} of the plan differ from the public file's" for name in differences(study, public)]
    messages = iter(board.messages)
    key = read_until_key(study, messages, report)
    if report.fails and key is None and study.uses_key:
        return report
    rest = list(messages)
    found = _protocol(study, public, key, rest, board.readable, report)
    _result(study, public, rest, board.readable, found, report)
    return report


def _protocol(
    study: Study, public: Public, key: Key | None, messages: list[Message], readable: list[Message], report: Report
) -> Found:
    """Check the messages of the protocol."""
    if study.protocol == "pathak":
        return check_shares(study, messages, report)
    if key is None:
        return None, "there is no key"
    if study.protocol == "psgd":
        return check_series(study, key, messages, readable, report)
    plan = plan_of(study, public)
    result = check_sum(round_of(plan, key), messages, readable)
    report.fails += result.failures
    report.misconduct |= result.misconduct
    if not study.sum_is_public and not study.joint:
        found = exposed(result, readable)
        if len(found) >= study.threshold:
            report.fails.append(f"everybody can open the exact sum, with what {', '.join(sorted(found))} posted")
        else:
            report.misconduct |= found
    added = f", {len(result.noise)} holders have added noise" if result.noise else ""
    report.holds.append(f"{len(result.counted)} ballots count{added}; {len(result.refused)} messages are refused")
    sealed = not study.sum_is_public and result.closed and result.lacks.startswith("0 of")
    lacks = "" if result.sums is not None or sealed else result.lacks
    return Result(plan, sorted(result.counted), result.sums), lacks


def _result(
    study: Study, public: Public, messages: list[Message], readable: list[Message], found: Found, report: Report
) -> None:
    result, lacks = found
    published = [
        message.data
        for message in messages
        if message.kind == KINDS["result"] and message.sender == "curator" and message.session == study.digest
    ]
    if not published:
        report.lacks.append(lacks or "there is no result")
        return
    said = {message.data for message in readable if message.sender == "curator" and message.kind == KINDS["result"]}
    if len({data for data in said if data[9:41] == study.digest}) > 1:
        if study.joint:
            report.misconduct.add("curator")
        else:
            report.fails.append("the curator published several results")
    if lacks or result is None:
        report.fails.append(f"there is a result, and {lacks}")
        return
    try:
        report.holds += check_model(study, public, published[0][41:], result)
    except Refused as error:
        report.fails.append(f"the result: {error}")


def entries_of(path: Path) -> list[bytes]:
    """Return the entries of a board's SQLite file."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
        rows = connection.execute("SELECT number, CAST(data AS BLOB) FROM entries ORDER BY number").fetchall()
    require([number for number, _ in rows] == list(range(1, len(rows) + 1)), "the board leaves out numbers")
    return [data or b"" for _, data in rows]


def main(arguments: list[str]) -> int:
    study, public, board = map(Path, arguments)
    report = verify(study.read_text(encoding="utf-8"), public.read_text(encoding="utf-8-sig"), entries_of(board))
    for verdict, lines in (("FAILS", report.fails), ("holds", report.holds), ("lacks", report.lacks)):
        for line in lines:
            print(f"{verdict}  {line}")
    if report.misconduct:
        print(f"misconduct of {', '.join(sorted(report.misconduct))}")
    return 0 if report.accepted else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
