"""What can be set about redaction: what a user lists, and which stages a channel has (GCP 7.3, decision 16)."""

from collections.abc import Mapping
from typing import get_args

import msgspec

from constants.load import load
from gaiad.base.channels import Channel, Stage, channel_table
from gaiad.base.errors import ConfigError
from router.redact.phones import known_regions

STAGES: tuple[Stage, ...] = get_args(Stage)
LONGEST_LISTED = 80


class Phones(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Countries to read national numbers as, and the words that speak for and against a number."""

    regions: list[str]
    words: list[str]
    other_words: list[str]


class Addresses(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What looks like an address or a home and is none."""

    version_words: list[str]
    no_mailboxes: list[str]
    spelled_ends: list[str]
    plain_words: list[str]
    nobodies: list[str]


class Persons(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The words that say what a date or a number is."""

    birth_words: list[str]
    passport_words: list[str]
    social_words: list[str]


class CardIssuer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """First digits, from and to, and counts of digits."""

    ranges: list[tuple[int, int]]
    lengths: list[int]


class RedactionTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """constants/redaction.toml."""

    window_characters: int
    context_characters: int
    placeholders: dict[str, str]
    phones: Phones
    addresses: Addresses
    persons: Persons
    cards: dict[str, CardIssuer]
    ibans: dict[str, int]


class ProfanityTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """constants/profanity.toml."""

    slurs: list[str]
    profanity: list[str]
    letters: dict[str, str]


class RedactionSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a user lists. Names and phrases are whole words, a name of one word in its own case or in capitals.

    `phone_regions` are two-letter countries whose national numbers are known; none means the shipped ones.
    `allowed_words` are never taken for a slur or profanity.
    """

    names: list[str] = []
    phrases: list[str] = []
    phone_regions: list[str] = []
    allowed_words: list[str] = []


def redaction_table() -> RedactionTable:
    """The shipped table."""
    return load("redaction.toml", RedactionTable)


def word_table() -> ProfanityTable:
    """The shipped words."""
    return load("profanity.toml", ProfanityTable)


def channel_stages(overrides: Mapping[str, bool | list[str]], setting: str) -> Mapping[Channel, tuple[Stage, ...]]:
    """The stages of every channel, in their order: the shipped ones, and what the user says instead.

    An override is true (all stages), false (none) or a list of stages. `setting` is the name of the setting, for the
    message. Raises ConfigError for an unknown channel or stage.
    """
    chosen: dict[Channel, tuple[Stage, ...]] = {
        channel: tuple(entry.redaction) for channel, entry in channel_table().items()
    }
    for channel, wanted in overrides.items():
        if channel not in chosen:
            raise ConfigError(f"{setting}.{channel}: {channel} is not a channel; use one of {', '.join(chosen)}")
        if not isinstance(wanted, bool) and (strange := [stage for stage in wanted if stage not in STAGES]):
            known = ", ".join(STAGES)
            raise ConfigError(f"{setting}.{channel}: {', '.join(strange)} is not a stage; write true, false or {known}")
        listed = (STAGES if wanted else ()) if isinstance(wanted, bool) else wanted
        chosen[channel] = tuple(stage for stage in STAGES if stage in listed)
    return chosen


def check_settings(settings: RedactionSettings, setting: str) -> None:
    """Raises ConfigError for what is listed and cannot be looked for; `setting` is the name of the section."""
    for key in ("names", "phrases", "allowed_words"):
        for listed in getattr(settings, key):
            if not any(character.isalnum() for character in listed):
                raise ConfigError(f"{setting}.{key}: {listed!r} has no letter or digit; write it out or remove it")
            if len(listed) > LONGEST_LISTED:
                raise ConfigError(
                    f"{setting}.{key}: {listed[:20]!r}... has {len(listed)} characters; {LONGEST_LISTED} is the most"
                )
    for region in settings.phone_regions:
        if not (len(region) == 2 and region.isascii() and region.isalpha() and region.isupper()):
            raise ConfigError(f"{setting}.phone_regions: {region!r} is not a country; write two letters such as 'US'")
        if region not in known_regions():
            raise ConfigError(
                f"{setting}.phone_regions: no country of {region!r} has phone numbers; write its ISO code, such as "
                "'GB' for the United Kingdom"
            )
