"""What a member chose for its part in a study; not part of the study."""

from __future__ import annotations

import msgspec

__all__ = ["MemberSettings"]


class MemberSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The files of a member, as absolute paths, and what it votes with.

    `learner`: the classifier that it trains on `data`; `voter`: PATH.py:OBJECT or MODULE:OBJECT in place of both.
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
