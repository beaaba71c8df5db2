"""Fields of options dataclasses, such as `TallyOptions` and `PsgdOptions`.

Each protocol has one frozen dataclass of options. Its fields carry their help text and heading, and the command
`psephos simulate PROTOCOL` is generated from them (`psephos.cli.generate`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any


def option(
    default: Any = None,
    help: str = "",
    *,
    group: str = "",
    shown: str | None = None,
    factory: Callable[[], Any] | None = None,
) -> Any:
    """Return a field of an options dataclass.

    Args:
        default: of the field.
        help: the meaning of the option, in one sentence.
        group: the heading that the help lists it under, such as "Data", "Privacy", "Encryption" or "Machine"; "" for
            none, at the top.
        shown: a description of the default for the help, where the value alone (None, say) would not explain it.
        factory: computes the default, where that depends on the machine.

    Types: int, float, bool (a flag), str, `Literal[...]` (its choices are checked and listed), `X | None`, and
    `tuple[X, ...]` (written A,B,C). An underscore becomes a dash: `key_bits` is `--key-bits`.
    """
    metadata = {"help": help, "group": group, "shown": shown}
    if factory is not None:
        return field(default_factory=factory, metadata=metadata)
    return field(default=default, metadata=metadata)
