"""Reads the tables that ship beside this file, checked against the type the caller names, once per process.

Word lists, routing and limits are data, so that a change of wording is a change of a file that a person can read. What a
table means is left to the package that asks for it.
"""

import functools
import tomllib
from importlib import resources
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


@functools.cache
def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(resources.files("constants").joinpath(f"{name}.toml").read_text(encoding="utf-8"))


@functools.cache
def load_table(name: str, kind: type[T]) -> T:
    """The table `constants/<name>.toml` as `kind`. Raises FileNotFoundError, or msgspec.ValidationError naming the key."""
    return msgspec.convert(_read(name), kind)
