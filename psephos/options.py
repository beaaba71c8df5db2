"""Fields of options dataclasses, from which commands are generated (`psephos.cli.generate`)."""

from __future__ import annotations

import csv
import io
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, fields
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from psephos.protocol.errors import InvalidParameter, PsephosError
from psephos.protocol.foreign import printable
from psephos.protocol.names import plain

OneOrMore: TypeAlias = Annotated[int, Meta(ge=1)]
TwoOrMore: TypeAlias = Annotated[int, Meta(ge=2)]
Positive: TypeAlias = Annotated[float, Meta(gt=0, le=sys.float_info.max)]
"""A finite positive number."""

BelowOne: TypeAlias = Annotated[float, Meta(ge=0, lt=1)]


def option(
    default: Any = None,
    help: str = "",
    *,
    group: str = "",
    shown: str | None = None,
    objects: bool = False,
    factory: Callable[[], Any] | None = None,
    name: bool = False,
) -> Any:
    """Return a field of an options dataclass.

    Args:
        default: of the field.
        help: the meaning of the option, in one sentence.
        group: the heading that the help lists it under, such as "Data" or "Privacy"; "" for none, at the top.
        shown: a description of the default for the help, where the value alone (None, say) would not explain it.
        objects: whether a caller from Python may give other objects, which `check` checks.
        factory: computes the default, where that depends on the machine.
        name: whether it names columns, classes or the like, which `Options` writes as tables have them.

    Types: int, float, bool (a flag), str, `Literal[...]`, `X | None`, and `tuple[X, ...]` (a list, as `split_list`
    reads it, in one or several options). An underscore becomes a dash: `key_bits` is `--key-bits`.
    """
    metadata = {"help": help, "group": group, "shown": shown, "objects": objects, "name": name}
    if factory is not None:
        return field(default_factory=factory, metadata=metadata)
    return field(default=default, metadata=metadata)


class Options:
    """Base class of options dataclasses. Values are converted to the types of their fields when they are given.

    NumPy's numbers and arrays become Python's, paths become text, one value becomes a tuple where several may be given,
    and names have the one spelling that they have in tables and studies.

    Raises:
        InvalidParameter: a value has another type, or the seed is negative.
    """

    def __post_init__(self) -> None:
        options: Any = type(self)
        for name, kind in _types(options).items():
            object.__setattr__(self, name, converted(name, getattr(self, name), kind))
        for name in _names(options):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, plain(value) if isinstance(value, str) else tuple(map(plain, value)))
        if getattr(self, "seed", 0) < 0:
            raise InvalidParameter("the seed is 0 or more: change --seed")


@cache
def _types(options: Any) -> dict[str, Any]:
    hints = get_type_hints(options, include_extras=True)
    return {one.name: hints[one.name] for one in fields(options) if not one.metadata.get("objects")}


@cache
def _names(options: Any) -> list[str]:
    return [one.name for one in fields(options) if one.metadata.get("name")]


def converted(name: str, value: Any, kind: Any) -> Any:
    """Return the value of an option as its type; raises InvalidParameter, which names the option."""
    given = _pythons(value)
    several = next((one for one in (kind, *get_args(kind)) if get_origin(one) is tuple), None)
    if several is not None and given is not None and not isinstance(given, tuple):
        given = (given,)
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        shown = printable(repr(value), 60)
        literals = [one for one in (kind, *get_args(kind)) if get_origin(one) is Literal]
        if choices := [choice for one in literals for choice in get_args(one)]:
            raise InvalidParameter(f"{name} is one of {', '.join(choices)}, not {shown}") from None
        raise InvalidParameter(f"the option {name} cannot be {shown}: {error}") from None


def refuse_unread(options: Any, readers: Mapping[str, tuple[bool, str]]) -> None:
    """Raise InvalidParameter for an option that was given and that this run does not read.

    `readers`: name of an option -> whether this run reads it, and what would.
    """
    for one in fields(options):
        read, by = readers.get(one.name, (True, ""))
        if not read and getattr(options, one.name) != one.default:
            name = "--" + one.name.replace("_", "-")
            raise InvalidParameter(f"{name} has no effect here: leave it out, or use {by}", option=one.name)


_SPELLED = re.compile(r"(\bpsephos [a-z].*?)?(?<![\w-])--([a-z]+(?:-[a-z]+)*)")


def respelled(text: str, spell: Callable[[str], str]) -> str:
    """Return a text with options of the command as `spell` writes their names; --key-bits is named key_bits.

    The first one behind `psephos` and a command is left as it is.
    """
    return _SPELLED.sub(lambda found: found[0] if found[1] else spell(found[2].replace("-", "_")), text)


@contextmanager
def respelling(spell: Callable[[str], str]) -> Iterator[None]:
    """Write the options that errors name as `respelled` does, for callers from Python; also a decorator."""
    try:
        yield
    except PsephosError as error:
        error.args = tuple(respelled(each, spell) if isinstance(each, str) else each for each in error.args)
        raise


def _pythons(value: Any) -> Any:
    """Return Python's value for one of NumPy, and for a path its text."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    value = value.tolist() if hasattr(value, "tolist") else value
    return tuple(map(_pythons, value)) if isinstance(value, list | tuple) else value


def split_list(text: str) -> tuple[str, ...]:
    """Split a list at its commas, as a line of CSV: "dose, mg",age has two entries. Empty entries are left out."""
    cells = [cell.strip() for row in csv.reader([text], skipinitialspace=True) for cell in row]
    return tuple(cell for cell in cells if cell)


def join_list(names: Sequence[str]) -> str:
    """Return the text that `split_list` splits into these names, and that no command reads as a home directory."""
    line = io.StringIO()
    home = bool(names) and names[0].startswith("~")
    csv.writer(line, lineterminator="", quoting=csv.QUOTE_ALL if home else csv.QUOTE_MINIMAL).writerow(names)
    return line.getvalue()


def words_for(name: str, names: Sequence[str]) -> str:
    """Return an option with a list of names, as a shell reads it: --ignore '"dose, mg",age'."""
    return f"--{name} {shlex.quote(join_list(names))}"
