"""What a member chose for its part in a study; not part of the study."""

from __future__ import annotations

import msgspec

__all__ = ["MemberSettings"]


class MemberSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The files of a member, as absolute paths, and what it votes with.

    Attributes:
        board: the address of the board, as `open_board` takes it.
        public: the file of the public samples.
        data: the file of its own rows.
        learner: the classifier that it trains on them.
        voter: PATH.py:OBJECT or MODULE:OBJECT with `predict_votes(X)`, instead of `data`.
        output: the directory for the model and its card.
        budget: the budget file of its rows.
        again: whether it contributes although another study's exact sum has the same (`Identity.charge`).
    """

    board: str = ""
    public: str = ""
    data: str = ""
    learner: str = "logistic"
    voter: str = ""
    output: str = ""
    budget: str = ""
    again: bool = False
