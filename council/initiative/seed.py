"""A thought for later (THOUGHT_SEED, GCP 7.1) and the states it goes through. Pure; `seed_store` keeps it.

open -> taken -> proposed -> passed | failed
open -> dropped                 there is nothing in it, or it was one too many
taken, proposed -> open         a person came, the model failed, the daemon stopped, the quorum was lost
taken -> dropped                nothing came of it, or it failed too often
"""

import hashlib
import re
import unicodedata
from typing import Literal, get_args

import msgspec

from gaiad.council_schemas import SeedRecord
from gaiad.errors import Conflict

SeedState = Literal["open", "taken", "proposed", "passed", "failed", "dropped"]
SEED_STATES: tuple[SeedState, ...] = get_args(SeedState)
_NEXT: dict[SeedState, tuple[SeedState, ...]] = {
    "open": ("taken", "dropped"),
    "taken": ("open", "proposed", "dropped"),
    "proposed": ("open", "passed", "failed", "dropped"),
    "passed": (),
    "failed": (),
    "dropped": (),
}
_NO_WORD = re.compile(r"[\W_]+")


class Seed(msgspec.Struct, frozen=True, kw_only=True):
    """One thought of a tenant. `turn_id` is the turn that wrote it; times are UTC.

    `proposal` is what it was developed into, also when the vote on it was left, "" before. `reason` says in words how
    it came to its state; `failures` counts the runs that failed on it.
    """

    seed_id: str
    tenant: str
    text: str
    state: SeedState
    turn_id: str
    added_at: str
    changed_at: str
    proposal: str = ""
    proposal_id: str = ""
    reason: str = ""
    failures: int = 0


def seed_record(seed: Seed) -> SeedRecord:
    """The thought on the wire; whose it is, the caller knows."""
    return msgspec.convert(seed, SeedRecord, from_attributes=True)


def check_step(seed_id: str, was: SeedState, now: SeedState) -> None:
    """Raises Conflict for a step that no thought may take."""
    if now not in _NEXT[was]:
        choices = ", ".join(_NEXT[was]) or "nothing else, for it is done"
        raise Conflict(f"the thought {seed_id!r} is {was} and cannot become {now}; it may become {choices}")


def thought_key(text: str) -> str:
    """The same for two texts that differ in case, space and punctuation only; "" for a text without a word."""
    words = _NO_WORD.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()
    return hashlib.sha256(words.encode("utf-8", "replace")).hexdigest() if words else ""


def cut_thought(text: str, most_characters: int) -> str:
    """The text without space around it, cut at its limit with a sign that it was."""
    text = text.encode("utf-8", "replace").decode().strip()
    return text if len(text) <= most_characters else text[: most_characters - 1].rstrip() + "…"
