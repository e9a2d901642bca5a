"""The destination matrix (GCP 7.2): which marked block may go where. Permission only; delivery is not decided here.

The shipped table is data; what a user changes is laid over it channel by channel. A command has one destination, the
shell, which asks a person first (decision 13); neither that nor what the shell and the memory get can be widened.
"""

from collections.abc import Collection, Mapping
from typing import Literal, cast, get_args

import msgspec

from constants.load import load
from constants.marker_forms import Marker as Marker
from gaiad.errors import ConfigError

Channel = Literal["cli_chat", "web_chat", "discord_chat", "council_chat", "shell", "memory"]
Manner = Literal["show", "log", "run", "page", "event"]
OFF = "off"
"""What an override says where a channel shall not get a block."""
_READ: tuple[str, ...] = ("show", "log", OFF)
_KEPT: tuple[str, ...] = ("page", "event", OFF)
_MANNERS = dict.fromkeys(("cli_chat", "web_chat", "discord_chat", "council_chat"), _READ) | {"memory": _KEPT}
_UNMARKED: Mapping[Channel, Manner] = {"council_chat": "log"}


class RoutingTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """constants/routing.toml: for each marker the channels it may go to, and how a channel treats it."""

    matrix: dict[Marker, dict[Channel, Manner]]


def routing_table() -> RoutingTable:
    """The shipped matrix: GCP 7.2 with the memory column."""
    return load("routing.toml", RoutingTable)


def overridden(table: RoutingTable, overrides: Mapping[str, Mapping[str, str]], setting: str) -> RoutingTable:
    """The table with a user's changes, by channel, then marker: "show", "log", "off" (memory: "page", "event", "off").

    What is not named stays as it is. `setting` is the name of the setting, for the message. Raises ConfigError for
    what no channel, marker or manner is, and for any change of EXECUTE or the shell.
    """
    matrix = {marker: dict(row) for marker, row in table.matrix.items()}
    for channel, changes in overrides.items():
        for marker, manner in changes.items():
            _check(channel, marker, manner, f"{setting}.{channel}.{marker}")
            row = matrix.setdefault(cast(Marker, marker), {})
            row.pop(cast(Channel, channel), None)
            if manner != OFF:
                row[cast(Channel, channel)] = cast(Manner, manner)
    return RoutingTable(matrix=matrix)


def kept(table: RoutingTable) -> Mapping[str, Manner]:
    """How the memory keeps the blocks of a marker, "page" or "event"; a marker that is not named is not kept."""
    return {marker: row["memory"] for marker, row in table.matrix.items() if "memory" in row}


def _check(channel: str, marker: str, manner: str, key: str) -> None:
    if marker not in get_args(Marker):
        raise ConfigError(f"{key}: {marker} is no marker; there are {', '.join(get_args(Marker))}")
    if marker == "EXECUTE" or channel == "shell":
        raise ConfigError(f"{key}: commands go to the shell alone and nothing else does; remove this override")
    if channel not in _MANNERS:
        raise ConfigError(f"{key}: {channel} is no channel; there are {', '.join(_MANNERS)}")
    if manner not in _MANNERS[channel]:
        raise ConfigError(f"{key} is {manner!r}; write one of {', '.join(map(repr, _MANNERS[channel]))}")


def destinations(
    table: RoutingTable, marker: Marker | Literal[""], origin: Channel, subscriptions: Collection[Channel] = ()
) -> Mapping[Channel, Manner]:
    """Where a block of this marker goes: its row, cut down to `origin` (the turn's channel) and `subscriptions`.

    Nothing is subscribed by itself, the memory and the shell neither: the turn that wants them says so. What belongs
    to no marker ("": preambles, thoughts) goes to the council's log.
    """
    wanted = {origin, *subscriptions}
    row = table.matrix.get(marker, {}) if marker else _UNMARKED
    return {channel: manner for channel, manner in row.items() if channel in wanted}
