"""What holds for every channel, made once from the settings: the matrix as a user has it, and what is scrubbed where.

What people read can be changed, and which blocks the memory keeps (GCP 7.2, 7.3; decisions 15 and 16). The council
hears all of its own work, a command has one destination, and a session goes on from its answers.

The settings of a channel that the daemon opens are read by its own module, imported when its section is read and not
before: router/channels/SECTION.py has `read_settings(values) -> ChatSettings`, which raises ConfigError, and
`open_bot(settings, environment) -> ChatBot`.
"""

from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from typing import Any, Literal, TypeVar, cast

import msgspec

from gaiad.base.channel_ports import ChatBot
from gaiad.base.channels import Channel, DeliveryMode, Stage, channel_sections, channel_table, chats
from gaiad.base.config import Config
from gaiad.base.errors import ConfigError
from gaiad.base.marker_forms import MARKERS
from gaiad.base.marker_forms import Marker as Marker
from router.redact import RedactionRules, RedactionSettings, channel_stages, redaction_rules

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


OFF = "off"
"""What an override says where a channel must not get a block."""
_READ: tuple[str, ...] = ("show", "log", OFF)
_KEPT: tuple[str, ...] = ("page", "event", OFF)
_UNMARKED: Mapping[Channel, DeliveryMode] = {"council_chat": "log"}


class RoutingTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """For each marker the channels it may go to, and how a channel treats it."""

    matrix: dict[Marker, dict[Channel, DeliveryMode]]


def routing_table() -> RoutingTable:
    """The shipped matrix: GCP 7.2 with the memory column."""
    blocks = {name: entry.blocks for name, entry in channel_table().items()}
    rows = {marker: {name: row[marker] for name, row in blocks.items() if marker in row} for marker in MARKERS}
    return RoutingTable(matrix=rows)


def overridden(table: RoutingTable, overrides: Mapping[str, Mapping[str, str]], setting: str) -> RoutingTable:
    """The table with a user's changes, by channel, then marker: "show", "log", "off" (memory: "page", "event", "off").

    What is not named stays as it is. `setting` is the name of the setting, for the message. Raises ConfigError for an
    unknown channel, marker or manner, and for any change of EXECUTE or the shell.
    """
    matrix = {marker: dict(row) for marker, row in table.matrix.items()}
    for channel, changes in overrides.items():
        for marker, manner in changes.items():
            _check(channel, marker, manner, f"{setting}.{channel}.{marker}")
            row = matrix.setdefault(cast(Marker, marker), {})
            row.pop(channel, None)
            if manner != OFF:
                row[channel] = cast(DeliveryMode, manner)
    return RoutingTable(matrix=matrix)


def kept(table: RoutingTable) -> Mapping[str, DeliveryMode]:
    """How the memory keeps the blocks of a marker, "page" or "event"; a marker that is not named is not kept."""
    return {marker: row["memory"] for marker, row in table.matrix.items() if "memory" in row}


def _check(channel: str, marker: str, manner: str, key: str) -> None:
    if marker not in MARKERS:
        raise ConfigError(f"{key}: {marker} is not a marker; use one of {', '.join(MARKERS)}")
    if marker == "EXECUTE" or channel == "shell":
        raise ConfigError(f"{key}: only commands go to the shell; remove this override")
    if channel not in (known := channel_table()):
        raise ConfigError(f"{key}: {channel} is not a channel; use one of {', '.join(known)}")
    manners = _KEPT if known[channel].readers == "program" else _READ
    if manner not in manners:
        raise ConfigError(f"{key} is {manner!r}; write one of {', '.join(map(repr, manners))}")


def destinations(
    table: RoutingTable, marker: Marker | Literal[""], origin: Channel, subscriptions: Collection[Channel] = ()
) -> Mapping[Channel, DeliveryMode]:
    """Where a block of this marker goes: its row, cut down to `origin` (the turn's channel) and `subscriptions`.

    Nothing is subscribed by itself, the memory and the shell neither: the turn that wants them says so. What belongs
    to no marker ("": preambles, thoughts) goes to the council's log.
    """
    wanted = {origin, *subscriptions}
    row = table.matrix.get(marker, {}) if marker else _UNMARKED
    return {channel: manner for channel, manner in row.items() if channel in wanted}


_WHOLE = "the council receives all of its own work, and commands go only to the shell"


class Routing:
    """Shared by all turns; it keeps nothing of any text."""

    def __init__(self, table: RoutingTable, rules: RedactionRules, stages: Mapping[Channel, tuple[Stage, ...]]) -> None:
        self.table = table
        self.rules = rules
        self.stages = stages

    def manner(
        self, marker: Marker | Literal[""], origin: Channel, subscriptions: Collection[Channel] = ()
    ) -> DeliveryMode | None:
        """How the reader on `origin` gets a block; None when it may not go there. A subscription is what another
        channel gets, shown to the same reader.
        """
        found = destinations(self.table, marker, origin, subscriptions)
        return found.get(origin) or next(iter(found.values()), None)


def routing_of(config: Config) -> Routing:
    """From [router], [redaction] and the channels' own sections. Raises ConfigError naming the key and the remedy."""
    chat_settings(config)
    said = config.redaction
    lists = RedactionSettings(
        names=said.names, phrases=said.phrases, phone_regions=said.phone_regions, allowed_words=said.allowed_words
    )
    return make_routing(config.router.overrides, said.channels, lists)


def make_routing(
    overrides: Mapping[str, Mapping[str, str]],
    channels: Mapping[str, bool | list[str]],
    settings: RedactionSettings,
) -> Routing:
    """From `router.overrides`, `redaction.channels` and the lists of [redaction]. Raises ConfigError naming the key."""
    _check_known(overrides, "router.overrides", (*chats(), "memory"), _WHOLE)
    _check_known(channels, "redaction.channels", chats(), "memory, council and shell get the full, unredacted text")
    table = overridden(routing_table(), overrides, "router.overrides")
    _check_memory(overrides.get("memory", {}), "router.overrides.memory")
    return Routing(
        table,
        redaction_rules(settings),
        channel_stages(channels, "redaction.channels"),
    )


def _check_known(given: Collection[str], setting: str, known: Collection[str], why: str) -> None:
    for channel in given:
        if channel in known:
            continue
        what = why if channel in channel_table() else f"{channel} is not a channel"
        raise ConfigError(f"{setting}.{channel}: {what}; remove it, or name one of {', '.join(known)}")


def _check_memory(given: Mapping[str, str], setting: str) -> None:
    """A block is kept as what it is kept as, or not at all."""
    shipped = routing_table().matrix
    for marker, manner in given.items():
        kept = shipped[cast(Marker, marker)]["memory"]
        if marker == "RESPONSE":
            raise ConfigError(f"{setting}.RESPONSE: a session continues from its answers; remove this override")
        if manner not in (kept, OFF):
            raise ConfigError(f"{setting}.{marker} is {manner!r}; write {kept!r} or {OFF!r}")
