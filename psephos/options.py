"""Fields of a protocol's options (`TallyOptions`, `AverageOptions`, `PathakOptions`, `PsgdOptions`).

Options are one frozen dataclass per protocol, whose fields carry what `psephos simulate PROTOCOL --help` says of them:
the command is generated from them (`psephos.cli.generate`).
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
    """A field of an options dataclass.

    Args:
        default: of the field; `factory` makes it where it depends on the machine.
        help: what the option means, in one sentence.
        group: heading under which the help lists it, such as "Data", "Privacy", "Encryption", "Machine"; without one
            it stands at the top.
        shown: what the help says of the default, where the value itself would say too little (None, say).

    Types: int, float, bool (a flag), str, `Literal[...]` (its choices are checked and listed), `X | None`, and
    `tuple[X, ...]` (written A,B,C). An underscore becomes a dash: `key_bits` is `--key-bits`.
    """
    metadata = {"help": help, "group": group, "shown": shown}
    if factory is not None:
        return field(default_factory=factory, metadata=metadata)
    return field(default=default, metadata=metadata)
