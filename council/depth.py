"""How deep a turn goes (`council.depth = auto | fast | full`): a published truth table, and why, for the turn to say.

Pure. What a message asks for and how risky it is, is read by asking; who is there comes from the heartbeat.
"""

import re
from collections.abc import Iterable
from functools import cache
from typing import Annotated, Literal, get_args

import msgspec

from constants.load import load
from council.stages import Depth
from gaiad.base.errors import ConfigError
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
    """How the number of active roles that can write and vote compares with the quorum."""
    return "whole" if writers >= quorum_roles else "reduced" if writers else "none"


def length_of(table: DepthTable, message: str) -> Length:
    return "long" if len(message) >= table.long_characters else "short"


_SENTENCE = re.compile(r"[.!?;:\n]+")
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_QUOTED = re.compile(r"```.*?(?:```|\Z)|^[ \t]*>[^\n]*", re.DOTALL | re.MULTILINE)


class AskingWords(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """constants/asking_words.toml."""

    actions: tuple[str, ...]
    objects: tuple[str, ...]
    courtesies: tuple[str, ...]
    high: tuple[str, ...]
    med: tuple[str, ...]


class RequestSignals(msgspec.Struct, frozen=True, kw_only=True):
    """`action` is the words that ask for something to be done, "" for none; `risk_words` those that made the risk."""

    action: str
    risk: RiskLevel
    risk_words: tuple[str, ...]


def what_is_asked(message: str) -> RequestSignals:
    """Read a message as the shipped words have it; what is quoted in it counts for the risk, not as an order."""
    words = load("asking_words.toml", AskingWords)
    for risk, entries in (("high", words.high), ("med", words.med)):
        found = tuple(dict.fromkeys(hit[0].lower() for hit in _any_of(entries).finditer(message)))
        if found:
            return RequestSignals(
                action=_action(message, words), risk=msgspec.convert(risk, RiskLevel), risk_words=found
            )
    return RequestSignals(action=_action(message, words), risk="low", risk_words=())


def _action(message: str, words: AskingWords) -> str:
    """The first sentence that begins with an action and names what it is done to."""
    passed, actions, objects = frozenset(words.courtesies), frozenset(words.actions), _any_of(words.objects)
    for sentence in _SENTENCE.split(_QUOTED.sub(" ", message)):
        said = _WORD.findall(sentence.lower())
        start = next((place for place, word in enumerate(said) if word not in passed), len(said))
        if said[start : start + 1] and said[start] in actions and objects.search(" ".join(said[start + 1 :])):
            return " ".join(said[start : start + 6])
    return ""


@cache
def _any_of(entries: Iterable[str]) -> re.Pattern[str]:
    """Any of the words, whole; a star at the end matches any ending."""
    parts = [
        re.escape(entry.removesuffix("*")).replace(r"\ ", r"\s+") + (r"\w*" if entry.endswith("*") else "")
        for entry in entries
    ]
    return re.compile(rf"(?<!\w)(?:{'|'.join(parts)})(?!\w)", re.IGNORECASE)
