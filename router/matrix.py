"""The destination matrix (GCP 7.2): which marked block may go where. Permission only; delivery is not decided here."""

from collections.abc import Collection, Mapping
from typing import Literal

import msgspec

from constants.load import load

Marker = Literal["PLAN", "EXECUTE", "RESPONSE", "THOUGHT_SEED", "INTERRUPT", "VERIFY"]
Channel = Literal["cli_chat", "web_chat", "discord_chat", "council_chat", "shell", "memory"]
Manner = Literal["show", "log", "run", "page", "event"]


class RoutingTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """constants/routing.toml: for each marker the channels it may go to, and how a channel treats it."""

    matrix: dict[Marker, dict[Channel, Manner]]


def routing_table() -> RoutingTable:
    """The shipped matrix: GCP 7.2 with the memory column."""
    return load("routing.toml", RoutingTable)


def destinations(
    table: RoutingTable, marker: Marker, origin: Channel, subscriptions: Collection[Channel] = ()
) -> Mapping[Channel, Manner]:
    """Where a block of this marker goes: its row, cut down to `origin` (the turn's channel) and `subscriptions`.

    Nothing is subscribed by itself, the memory and the shell neither: the turn that wants them says so.
    """
    wanted = {origin, *subscriptions}
    return {channel: manner for channel, manner in table.matrix.get(marker, {}).items() if channel in wanted}
