"""The one table of channels (constants/channels.toml): names, readers, blocks, default redaction, config section.

Routing, redaction, requests, settings and the daemon all read it, so a new channel is an entry there, its section in
config.toml and its module in router/channels.
"""

from typing import Literal

import msgspec

from constants.load import load
from gaiad.base.errors import BadInput
from gaiad.base.marker_forms import Marker

Channel = str
"""A channel's name, such as "cli_chat"."""
DeliveryMode = Literal["show", "log", "run", "page", "event"]
Readers = Literal["owner", "others", "council", "program"]
Stage = Literal["pii", "policy", "profanity"]


class ChannelEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of the table; `section` is "" for a channel that no setting opens."""

    title: str
    readers: Readers
    blocks: dict[Marker, DeliveryMode]
    redaction: list[Stage]
    section: str = ""

    @property
    def is_chat(self) -> bool:
        """Whether people talk there, so that turns come from it."""
        return self.readers in ("owner", "others")


def channel_table() -> dict[Channel, ChannelEntry]:
    """The shipped channels by name."""
    return load("channels.toml", dict[Channel, ChannelEntry])


def chats() -> list[Channel]:
    """The channels that turns come from."""
    return [name for name, entry in channel_table().items() if entry.is_chat]


def channel_sections() -> dict[str, Channel]:
    """The sections of config.toml that belong to a channel."""
    return {entry.section: name for name, entry in channel_table().items() if entry.section}


def channel_named(text: str) -> Channel:
    """The readable channel that a person calls so: by its name or its title. Raises BadInput."""
    titles = {entry.title.lower(): name for name, entry in channel_table().items() if entry.readers != "program"}
    found = titles.get(text.lower(), text)
    if found not in titles.values():
        raise BadInput(f"{text!r} is not a channel; use one of {', '.join(titles)}")
    return found


def check_chat(channel: Channel) -> None:
    """Raises BadInput unless turns can come from this channel."""
    if channel not in chats():
        raise BadInput(f"channel {channel!r} is not a chat channel; use one of {', '.join(chats())}")
