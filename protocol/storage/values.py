"""Values as bytes: the states of roles, as they are written down (CBOR, RFC 8949; no paper behind it).

A value is None, a bool, int, float, str, bytes, gmpy2 integer, a tuple of values, a dict of values by such plain keys,
or a frozen dataclass of values that its module declared `storable`. Nothing else is written, and nothing else is made
of what is read: no code runs that the bytes name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, TypeVar

import cbor2
from gmpy2 import mpz

from psephos.protocol.errors import JournalError, PsephosError

# Of the range that nobody registers (RFC 8949, section 9.2: first come first served above 32767).
_INTEGER_OF_GMP, _RECORD = 50_601, 50_602
_PLAIN = frozenset({type(None), bool, int, float, str, bytes})

Class = TypeVar("Class", bound=type)


@dataclass(frozen=True)
class _Form:
    """How values of one type are taken apart and put together."""

    take_apart: Callable[[Any], dict[str, Any]]
    put_together: Callable[..., Any]


_FORMS: dict[str, _Form] = {}


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def storable(cls: Class) -> Class:
    """A class decorator: values of this frozen dataclass may be written down, under its module and name.

    Raises TypeError for what is no frozen dataclass.
    """
    if not is_dataclass(cls) or not cls.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        raise TypeError(f"{cls.__name__} is no frozen dataclass, so it is no value")
    names = [f.name for f in fields(cls) if f.init]
    _FORMS[_name(cls)] = _Form(lambda value: {name: getattr(value, name) for name in names}, cls)
    return cls


def storable_as(take_apart: Callable[[Any], dict[str, Any]]) -> Callable[[Class], Class]:
    """The same for another class: `cls(**take_apart(value))` is the value again."""

    def register(cls: Class) -> Class:
        _FORMS[_name(cls)] = _Form(take_apart, cls)
        return cls

    return register


def encode(value: Any) -> bytes:
    """Raises TypeError for anything that is no value: a mistake of whoever wrote the role."""
    return cbor2.dumps(_lowered(value))


def _lowered(value: Any) -> Any:
    if type(value) in _PLAIN:
        return value
    if type(value) is tuple:
        return [_lowered(item) for item in value]
    if type(value) is dict:
        return {_plain(key): _lowered(item) for key, item in value.items()}
    if isinstance(value, mpz):
        return cbor2.CBORTag(_INTEGER_OF_GMP, int(value))
    form = _FORMS.get(_name(type(value)))
    if form is None:
        raise _no_value(value)
    parts = {name: _lowered(part) for name, part in form.take_apart(value).items()}
    return cbor2.CBORTag(_RECORD, [_name(type(value)), parts])


def _plain(key: Any) -> Any:
    if type(key) not in _PLAIN:
        raise _no_value(key)
    return key


def _no_value(value: Any) -> TypeError:
    return TypeError(f"a {type(value).__name__} cannot be written down: states are made of storable values")


def decode(data: bytes) -> Any:
    """The value again; raises JournalError for bytes of no value, or of one that this version does not have."""
    try:
        return _raised(cbor2.loads(data))
    except JournalError:
        raise
    except (cbor2.CBORError, PsephosError, TypeError, ValueError, OverflowError, RecursionError) as error:
        # Not the error's own text: what is read may be secret.
        raise JournalError(f"what was written down cannot be read again ({type(error).__name__})") from None


def _raised(value: Any) -> Any:
    if type(value) in _PLAIN:
        return value
    if isinstance(value, list | tuple):  # within a tag cbor2 makes tuples
        return tuple(_raised(item) for item in value)
    if isinstance(value, Mapping):
        return {_plain(key): _raised(item) for key, item in value.items()}
    if isinstance(value, cbor2.CBORTag) and value.tag == _INTEGER_OF_GMP and type(value.value) is int:
        return mpz(value.value)
    if isinstance(value, cbor2.CBORTag) and value.tag == _RECORD:
        name, parts = value.value
        if name not in _FORMS:
            raise JournalError(f"a {name} was written down, and this version has none")
        return _FORMS[name].put_together(**{key: _raised(part) for key, part in parts.items()})
    raise TypeError
