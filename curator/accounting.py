"""The accountant as the curator uses it. It lives in `protocol.accounting`: parties keep budgets with it too."""

from protocol.accounting import (
    SHARES_DISTANCE,
    Budget,
    PrivacyEvent,
    approximate_event,
    compose,
    event_of,
    gaussian_event,
    pure_event,
)

__all__ = [
    "SHARES_DISTANCE",
    "Budget",
    "PrivacyEvent",
    "approximate_event",
    "compose",
    "event_of",
    "gaussian_event",
    "pure_event",
]
