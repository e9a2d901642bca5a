"""The pipeline of GCP 7.3 as finders: PII scrub, content policy, profanity, in that order.

Where two items begin at the same place the earlier stage wins, as it would have taken its item out before the later
one looked; otherwise the one that begins first.
"""

import re
from collections.abc import Collection

from constants.load import secret_patterns
from gaiad.base.channels import Stage
from router.redact.detectors import find_card, find_email, find_home, find_iban, find_ip, find_mention, find_secrets
from router.redact.persons import find_address, find_birth, find_passport, find_social, goes_on
from router.redact.phones import find_phone
from router.redact.settings import STAGES, RedactionSettings, check_settings, redaction_table, word_table
from router.redact.words import Breaks, Finder, WordFinder, find_listed, spellings, words_in

JOINED_SCRIPTS = range(0x0590, 0x2000)
"""From Hebrew to Greek with accents: joiners belong to some of their words."""
_SIGN_IN_WORD = re.compile(r"[0-9@$!](?:(?=[^\W\d_])|(?<=[^\W\d_].))")
_SIGNS = re.compile(
    r"[0-9]|[@$!]\w|\S{16}|-----|[/\\](?:home|Users)[/\\]|[@.]\s?[\])}]|[aA][tT]\s?[\])}]"
    r"|(?<![^\W_])[dD][oO][tT](?![^\W_])"
)


class RedactionRules:
    """What is looked for, made once from the settings and shared by all streams; it keeps nothing of any text."""

    def __init__(self, settings: RedactionSettings) -> None:
        table, words = redaction_table(), word_table()
        allowed = frozenset(map(str.casefold, settings.allowed_words))
        slurs, profanity = (
            WordFinder([word for word in listed if word.casefold() not in allowed], kind, words.letters)
            for listed, kind in ((words.slurs, "slur"), (words.profanity, "profanity"))
        )
        self._finders: dict[Stage, list[Finder]] = {
            "pii": _pii(settings),
            "policy": [slurs, *_listed(settings.phrases, "phrase", any_case=True), find_mention],
            "profanity": [profanity],
        }
        listed = spellings([*settings.names, *settings.phrases])
        first_words = {words_in(text)[0] for text in listed}
        self._words = slurs.words | profanity.words | first_words
        self._unspaced = re.compile("|".join(map(re.escape, sorted(filter(_is_unspaced, listed)))) or r"(?!)", re.I)
        self.breaks = Breaks(listed, goes_on)
        self.keeps_joiners = not any(ord(character) in JOINED_SCRIPTS for text in listed for character in text)
        self.placeholders = table.placeholders
        self.window_characters = table.window_characters
        self.context_characters = table.context_characters

    def read_tables(self) -> None:
        """Read the tables of phone numbers now: it takes a moment, and a stream would wait at its first number."""
        for finder in self._finders["pii"]:
            finder("tel 0999999999", 0)  # a number nowhere, so every country's table is asked

    def finders(self, stages: Collection[Stage]) -> list[Finder]:
        """The finders of some stages, in the order of the pipeline."""
        return [finder for stage in STAGES if stage in stages for finder in self._finders[stage]]

    def may_hold_words(self, text: str) -> bool:
        """Likewise, for the finders of single words alone."""
        return not self._words.isdisjoint(words_in(text)) or _SIGN_IN_WORD.search(text) is not None

    def may_hold_items(self, text: str) -> bool:
        """A quick look: whether anything that begins in the text may be an item."""
        return (
            _SIGNS.search(text) is not None
            or not self._words.isdisjoint(words_in(text))
            or self._unspaced.search(text) is not None
        )


def redaction_rules(settings: RedactionSettings, setting: str = "redaction") -> RedactionRules:
    """The rules for what a user lists; `setting` is the section's name. Raises ConfigError for what cannot be."""
    check_settings(settings, setting)
    return RedactionRules(settings)


def _pii(settings: RedactionSettings) -> list[Finder]:
    table = redaction_table()
    phones, addresses, persons = table.phones, table.addresses, table.persons
    return [
        *find_secrets(secret_patterns()),
        find_email(frozenset(addresses.no_mailboxes), addresses.spelled_ends, frozenset(addresses.plain_words)),
        find_iban(table.ibans),
        find_card(table.cards),
        find_social(persons.social_words),
        find_passport(persons.passport_words),
        find_birth(persons.birth_words),
        find_address,
        find_ip(addresses.version_words),
        find_phone(settings.phone_regions or phones.regions, phones.words, phones.other_words),
        find_home(frozenset(addresses.nobodies)),
        *_listed(settings.names, "name", any_case=False),
    ]


def _listed(texts: list[str], kind: str, *, any_case: bool) -> list[Finder]:
    return [find_listed(texts, kind, any_case=any_case)] if texts else []


def _is_unspaced(text: str) -> bool:
    """Whether it is in running text without spaces, where no word of it would be found."""
    return not text.isascii()
