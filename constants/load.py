"""One loader for all data files here: TOML in, a checked struct out, read on first use and kept; and the one table that
more than one package reads.

A misspelt key or a wrong type in a shipped file is an error that names the file and the place, not a default.
"""

from functools import cache
from importlib.resources import files
from typing import Any, TypeVar, cast

import msgspec

T = TypeVar("T")


class ConstantsError(Exception):
    """A shipped data file does not fit the struct that reads it; the message says where and what to do."""


def load(name: str, kind: type[T]) -> T:
    """The file constants/`name` as a `kind`; the same object on every call. Raises ConstantsError.

    `kind` is a frozen msgspec struct; declare it with `forbid_unknown_fields=True` so that a misspelt key is found.
    """
    wanted: Any = kind
    return cast(T, _load(name, wanted))


@cache
def _load(name: str, kind: Any) -> object:
    place = files("constants") / name
    try:
        return msgspec.toml.decode(place.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError) as error:
        raise ConstantsError(f"constants/{name}: {error}; restore the shipped file or reinstall gaiad") from error


class SecretPatterns(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """constants/secrets.toml: patterns by what they find, in words.

    `secrets` are in one run of characters without a space, `headers` begin a key of many lines, `credentials` are
    secrets by what is before them, in the group `value`.
    """

    secrets: dict[str, str]
    headers: dict[str, str]
    credentials: dict[str, str]


def secret_patterns() -> SecretPatterns:
    """The shipped table."""
    return load("secrets.toml", SecretPatterns)
