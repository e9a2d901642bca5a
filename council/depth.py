"""How deep a turn goes (`council.depth = auto | fast | full`): a published truth table, and why, for the turn to say.

Pure. What a message asks for and how risky it is, is read by asking; who is there comes from the heartbeat.
"""

from typing import Annotated, Literal, get_args

import msgspec

from constants.load import load
from council.stages import Depth
from gaiad.errors import ConfigError
from prompts.packet import RiskLevel

Setting = Literal["auto", "fast", "full"]
Presence = Literal["none", "reduced", "whole"]
Length = Literal["short", "long"]


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """What the table asks for; `action` is whether something is to be done and not only said."""

    setting: Setting
    quorum: Presence
    risk: RiskLevel
    length: Length
    action: bool


class DepthRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fits a situation whose values are among these; all of them unless given."""

    depth: Depth
    why: Annotated[str, msgspec.Meta(min_length=1)]
    setting: tuple[Setting, ...] = get_args(Setting)
    quorum: tuple[Presence, ...] = get_args(Presence)
    risk: tuple[RiskLevel, ...] = get_args(RiskLevel)
    length: tuple[Length, ...] = get_args(Length)
    action: tuple[bool, ...] = (False, True)

    def fits(self, situation: Situation) -> bool:
        return all(getattr(situation, name) in getattr(self, name) for name in Situation.__struct_fields__)


class DepthTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """constants/depth.toml."""

    rows: tuple[DepthRow, ...]
    long_characters: Annotated[int, msgspec.Meta(ge=1)]


class DepthChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The depth, and why in words."""

    depth: Depth
    why: str


def depth_table() -> DepthTable:
    """The shipped truth table."""
    return load("depth.toml", DepthTable)


def choose_depth(table: DepthTable, situation: Situation) -> DepthChoice:
    """The one row that fits. Raises ConfigError when none or several do, which the shipped table never has."""
    rows = [row for row in table.rows if row.fits(situation)]
    if len(rows) != 1:
        raise ConfigError(f"depth.toml: {len(rows)} rows fit {situation}; exactly one must")
    return DepthChoice(depth=rows[0].depth, why=rows[0].why)


def presence(writers: int, quorum_roles: int) -> Presence:
    """How the number of active roles that can write and vote stands to the quorum."""
    return "whole" if writers >= quorum_roles else "reduced" if writers else "none"


def length_of(table: DepthTable, message: str) -> Length:
    return "long" if len(message) >= table.long_characters else "short"
