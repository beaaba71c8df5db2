"""Encoding of values, such as the states of roles, as bytes (CBOR, RFC 8949).

A value is None, a bool, int, float, str, bytes, a gmpy2 integer, a tuple of values, a dict with values and scalar keys,
or a frozen dataclass of values whose class is registered with `storable`. Nothing else is encoded or decoded; in
particular, decoding runs no code that the bytes name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import cbor2
from gmpy2 import mpz

from psephos.protocol.errors import JournalError, PsephosError

# CBOR tags from the range that is free for use without registration (RFC 8949, section 9.2).
_INTEGER_OF_GMP, _RECORD = 50_601, 50_602
_SCALARS = frozenset({type(None), bool, int, float, str, bytes})

Class = TypeVar("Class", bound=type)


_CODECS: dict[str, tuple[Callable[[Any], dict[str, Any]], Callable[..., Any]]] = {}
"""How values of the registered classes are turned into fields and back, by module and name."""


def _class_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def storable(cls: Class) -> Class:
    """Register a frozen dataclass, whose values can then be stored under its module and name. A class decorator."""
    if not is_dataclass(cls) or not cls.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        raise TypeError(f"{cls.__name__} is not a frozen dataclass, so its objects are not values")
    names = [f.name for f in fields(cls) if f.init]
    _CODECS[_class_name(cls)] = lambda value: {name: getattr(value, name) for name in names}, cls
    return cls


def storable_as(to_fields: Callable[[Any], dict[str, Any]]) -> Callable[[Class], Class]:
    """Register another class, for which `cls(**to_fields(value))` equals `value`. A class decorator."""

    def register(cls: Class) -> Class:
        _CODECS[_class_name(cls)] = to_fields, cls
        return cls

    return register


def encode(value: Any) -> bytes:
    """Encode a value; raises TypeError."""
    return cbor2.dumps(_to_cbor(value))


def _to_cbor(value: Any) -> Any:
    if type(value) in _SCALARS:
        return value
    if type(value) is tuple:
        return [_to_cbor(item) for item in value]
    if type(value) is dict:
        return {_checked_key(key): _to_cbor(item) for key, item in value.items()}
    if isinstance(value, mpz):
        return cbor2.CBORTag(_INTEGER_OF_GMP, int(value))
    name = _class_name(type(value))
    if name not in _CODECS:
        raise _not_storable(value)
    encoded_fields = {field: _to_cbor(part) for field, part in _CODECS[name][0](value).items()}
    return cbor2.CBORTag(_RECORD, [name, encoded_fields])


def _checked_key(key: Any) -> Any:
    if type(key) not in _SCALARS:
        raise _not_storable(key)
    return key


def _not_storable(value: Any) -> TypeError:
    return TypeError(f"a {type(value).__name__} cannot be stored: states consist of storable values")


def decode(data: bytes) -> Any:
    """Decode a value; raises JournalError."""
    try:
        return _from_cbor(cbor2.loads(data))
    except JournalError:
        raise
    except (cbor2.CBORError, PsephosError, TypeError, ValueError, OverflowError, RecursionError) as error:
        # The error's own text is left out: it may quote a secret.
        raise JournalError(f"a stored value cannot be decoded ({type(error).__name__})") from None


def _from_cbor(value: Any) -> Any:
    if type(value) in _SCALARS:
        return value
    if isinstance(value, list | tuple):  # cbor2 returns tuples within a tag
        return tuple(_from_cbor(item) for item in value)
    if isinstance(value, Mapping):
        return {_checked_key(key): _from_cbor(item) for key, item in value.items()}
    if isinstance(value, cbor2.CBORTag) and value.tag == _INTEGER_OF_GMP and type(value.value) is int:
        return mpz(value.value)
    if isinstance(value, cbor2.CBORTag) and value.tag == _RECORD:
        name, encoded_fields = value.value
        if name not in _CODECS:
            raise JournalError(f"a stored value has the class {name}, which this version does not have")
        return _CODECS[name][1](**{field: _from_cbor(part) for field, part in encoded_fields.items()})
    raise TypeError
