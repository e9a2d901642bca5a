"""The words by which disagreement shows, from constants/disagreement_words.toml, read once."""

import functools

import msgspec

from constants.load import load


class DisagreementWords(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """As the file has them; `units` maps a word or symbol to its unit and how many of it that is."""

    negations: frozenset[str]
    hedges: frozenset[str]
    replacements: tuple[str, ...]
    given_up: tuple[str, ...]
    one_value: tuple[str, ...]
    about_changes: frozenset[str]
    pronouns: frozenset[str]
    first_person: frozenset[str]
    same: tuple[tuple[str, ...], ...]
    labels: tuple[str, ...]
    numbers: tuple[str, ...]
    tens: tuple[str, ...]
    about: tuple[str, ...]
    at_least: tuple[str, ...]
    at_most: tuple[str, ...]
    opposites: tuple[tuple[str, str], ...]
    units: dict[str, tuple[str, float]]


@functools.cache
def disagreement_words() -> DisagreementWords:
    """The shipped table."""
    return load("disagreement_words.toml", DisagreementWords)
