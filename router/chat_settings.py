"""The settings of channels that the daemon opens: what all have, and the channel's own, read by its own module.

A module router/channels/SECTION.py has `read_settings(values) -> ChatSettings`, which raises ConfigError, and
`open_bot(settings, environment) -> ChatBot`. It is imported when its section is read, not before.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, TypeVar

import msgspec

from gaiad.base.channels import channel_sections
from gaiad.base.config import Config
from gaiad.base.errors import ConfigError
from gaiad.base.ports import ChatBot

_LONGEST_S = 3600.0
_MOST_TURNS = 64
_MOST_WAITING = 100_000
S = TypeVar("S", bound="ChatSettings")


class ChatSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`turns` are worked on at once; `timeout_s` is how long one message may take; `queue` messages may wait."""

    enabled: bool
    tenant: str
    turns: int
    timeout_s: float
    queue: int


def convert_settings(section: str, values: Mapping[str, Any], kind: type[S]) -> S:
    """The section as `kind`. Raises ConfigError naming the key."""
    try:
        settings = msgspec.convert(dict(values), kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"[{section}]: {error}; see the defaults in config.toml") from error
    for key, low, high in (("turns", 1, _MOST_TURNS), ("timeout_s", 1, _LONGEST_S), ("queue", 1, _MOST_WAITING)):
        if not low <= getattr(settings, key) <= high:
            raise ConfigError(f"{section}.{key} = {getattr(settings, key):g}: give a number from {low} to {high:.10g}")
    return settings


def chat_settings(config: Config) -> dict[str, ChatSettings]:
    """By section. Raises ConfigError."""
    return {section: _module(section).read_settings(config.channels[section]) for section in channel_sections()}


def open_bot(section: str, settings: ChatSettings, environment: Mapping[str, str]) -> ChatBot:
    """The channel's side of the outside. Raises ConfigError."""
    opener: Callable[[ChatSettings, Mapping[str, str]], ChatBot] = _module(section).open_bot
    return opener(settings, environment)


def _module(section: str) -> Any:
    return import_module(f"router.channels.{section}")
