"""What holds for every channel, made once from the settings: the matrix as a user has it, and what is scrubbed where.

What people read can be changed, and which blocks the memory keeps (GCP 7.2, 7.3; decisions 15 and 16). The council
hears all of its own work, a command has one destination, and a session goes on from its answers.
"""

from collections.abc import Collection, Mapping
from typing import Literal, cast, get_args

from gaiad.errors import ConfigError
from router.matrix import OFF, Channel, Manner, Marker, RoutingTable, destinations, overridden, routing_table
from router.redact import RedactionRules, RedactionSettings, Stage, channel_stages, redaction_rules

_WHOLE = "the council hears all of its own work, and commands go to the shell alone"
READ_CHANNELS: tuple[Channel, ...] = ("cli_chat", "web_chat", "discord_chat")
"""Where people read answers."""


class Routing:
    """Shared by all turns; it keeps nothing of any text."""

    def __init__(self, table: RoutingTable, rules: RedactionRules, stages: Mapping[Channel, tuple[Stage, ...]]) -> None:
        self.table = table
        self.rules = rules
        self.stages = stages

    def manner(
        self, marker: Marker | Literal[""], origin: Channel, subscriptions: Collection[Channel] = ()
    ) -> Manner | None:
        """How the reader on `origin` gets a block; None when it may not go there. A subscription is what another
        channel gets, shown to the same reader.
        """
        found = destinations(self.table, marker, origin, subscriptions)
        return found.get(origin) or next(iter(found.values()), None)


def make_routing(
    overrides: Mapping[str, Mapping[str, str]],
    channels: Mapping[str, bool | list[str]],
    settings: RedactionSettings,
) -> Routing:
    """From `router.overrides`, `redaction.channels` and the lists of [redaction]. Raises ConfigError naming the key."""
    _check_known(overrides, "router.overrides", (*READ_CHANNELS, "memory"), _WHOLE)
    _check_known(channels, "redaction.channels", READ_CHANNELS, "memory, council and shell get what was said, whole")
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
        what = why if channel in get_args(Channel) else f"{channel} is no channel"
        raise ConfigError(f"{setting}.{channel}: {what}; remove it, or name one of {', '.join(known)}")


def _check_memory(given: Mapping[str, str], setting: str) -> None:
    """A block is kept as what it is kept as, or not at all."""
    shipped = routing_table().matrix
    for marker, manner in given.items():
        kept = shipped[cast(Marker, marker)]["memory"]
        if marker == "RESPONSE":
            raise ConfigError(f"{setting}.RESPONSE: a session goes on from its answers; remove this override")
        if manner not in (kept, OFF):
            raise ConfigError(f"{setting}.{marker} is {manner!r}; write {kept!r} or {OFF!r}")
