"""A text redacted while it streams: pieces in, what can be shown out, and counts and kinds of what was taken.

Text is settled up to the last break, or, where there is none, up to a window before its end; what begins in the settled
part is decided by what has been read. So any split gives the same text, and at most a window and a part of one is held
back (`LARGEST_WAIT` windows). Linear in the text.

The pipeline of GCP 7.3 is PII scrub, content policy, profanity: where two items begin at the same place the earlier
stage wins, otherwise the one that begins first.
"""

import re
import unicodedata
from collections.abc import Collection

import msgspec

from constants.load import secret_patterns
from gaiad.base.channels import Stage
from gaiad.base.text import IGNORABLE, JOINERS, fold
from router.redact.detectors import find_card, find_email, find_home, find_iban, find_ip, find_mention, find_secrets
from router.redact.persons import find_address, find_birth, find_passport, find_social, goes_on
from router.redact.phones import find_phone
from router.redact.settings import STAGES, RedactionSettings, check_settings, redaction_table, word_table
from router.redact.words import Breaks, Finder, Item, WordFinder, find_listed, spellings, words_in

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


LARGEST_WAIT = 1.25
_UNDECIDED = frozenset(["", *".!?:@&"])  # whether a tail goes on behind such a sign, the next character says
_STROKE = re.compile("[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]")
_JOINER = re.compile(f"[{JOINERS}]")


def _strikes(character: str, last: str) -> bool:
    """Whether it is a line through, under or around the character before it, and no part of a letter."""
    if not (last and last.isascii() and _STROKE.match(character)):
        return False
    return len(unicodedata.normalize("NFC", last + character)) == 2


class Redaction(msgspec.Struct, frozen=True):
    """So many items of a kind were taken out."""

    kind: str
    count: int


class Redacted(msgspec.Struct, frozen=True):
    """A whole text as it may leave, and what was taken out of it."""

    text: str
    redactions: list[Redaction]


class Redactor:
    """One stream on its way to one channel: feed its pieces, show what comes back, `finish` gives the rest.

    Without stages every piece passes as it is. Characters that nobody sees are taken out before anything is looked for;
    joiners stay in pictures, and in scripts that need them unless a name of such a script is listed. What looks like
    another character is looked for as that one (`folding`).
    """

    def __init__(self, rules: RedactionRules, stages: Collection[Stage] = STAGES) -> None:
        self._rules = rules
        self._finders = rules.finders(stages)
        self._wordless = [finder for finder in self._finders if not isinstance(finder, WordFinder)]
        self._window = rules.window_characters
        self._step = int(self._window * (LARGEST_WAIT - 1))
        self._text = ""  # what was read: some that has left, for its context, and what is held back
        self._folded = ""  # the same as it reads, character for character
        self._place = 0  # where the held back part begins
        self._break = -1  # the last break
        self._looked = 0  # no break between the place and here
        self._tail: re.Pattern[str] | None = None  # of the item that the last text belongs to
        self._taken = ""  # the kind of the item that ended just before the place
        self._counts: dict[str, int] = {}

    @property
    def redactions(self) -> list[Redaction]:
        """What was taken out so far, by kind."""
        return [Redaction(kind, count) for kind, count in sorted(self._counts.items())]

    def feed(self, piece: str) -> str:
        """What can be shown by now."""
        if not self._finders:
            return piece
        if not piece.isascii() and (IGNORABLE.search(piece) or _STROKE.search(piece)):
            piece = self._without_ignorable(piece)
        self._text += piece
        self._folded += fold(piece)
        return self._advance(final=False)

    def _without_ignorable(self, piece: str) -> str:
        kept, last = [], self._text[-1:]
        for character in piece:
            hides = IGNORABLE.match(character) and not (_JOINER.match(character) and self._joins(last))
            if not hides and not _strikes(character, last):
                kept.append(character)
                last = character
            else:
                self._count("hidden_character", 1)
        return "".join(kept)

    def _joins(self, last: str) -> bool:
        """Whether a joiner behind this character may belong there."""
        if not last or unicodedata.category(last) in ("So", "Sk") or _JOINER.match(last):
            return bool(last)
        return ord(last) in JOINED_SCRIPTS and self._rules.keeps_joiners and not fold(last).isascii()

    def finish(self) -> str:
        """What was held back: no more text comes."""
        return self._advance(final=True)

    def _advance(self, *, final: bool) -> str:
        if self._tail is not None:
            self._swallow(self._tail, final=final)
        if self._tail is not None:
            self._forget()
            return ""
        end = len(self._text) if final else self._settled()
        if end <= self._place:
            return ""
        begun = self._folded[self._place : end if final or end == self._break else None]
        if self._rules.may_hold_items(begun):
            finders = self._finders if self._rules.may_hold_words(begun) else self._wordless
            shown = self._scrub(finders, end, final=final)
        else:
            shown, self._place, self._taken = self._text[self._place : end], end, ""
        self._forget()
        return shown

    def _settled(self) -> int:
        """Where the part ends in which all that begins can be decided."""
        text = self._folded
        place, looked = self._place, self._looked
        self._break = self._rules.breaks.last(text, looked if looked > place else place)
        if self._break < 0:
            self._looked = len(text.rstrip()) if text[-1:].isspace() else len(text)
        end = len(text) - self._window
        return end if end > self._break and end - place >= self._step else self._break

    def _scrub(self, finders: list[Finder], end: int, *, final: bool) -> str:
        """What is shown of the settled text, its items taken out."""
        text, folded, shown = self._text, self._folded, []
        ahead = [finder(folded, self._place) for finder in finders]
        while True:
            for number, item in enumerate(ahead):
                if item is not None and item.start < self._place:
                    ahead[number] = finders[number](folded, self._place)
            first = min((item for item in ahead if item is not None), key=_start, default=None)
            if first is None or first.start >= end:
                break
            shown.append(text[self._place : first.start])
            shown.append(self._take(first, final=final))
            if self._tail is not None:
                break
        if self._tail is None and self._place < end:
            shown.append(text[self._place : end])
            self._place, self._taken = end, ""
        return "".join(shown)

    def _take(self, item: Item, *, final: bool) -> str:
        """Take an item out, with its tail; one that goes on right behind another of its kind is part of it."""
        joined = item.start == self._place and item.kind == self._taken
        self._place, self._taken = item.end, item.kind
        if item.tail is not None:
            self._swallow(item.tail, final=final)
        if joined:
            return ""
        self._count(item.kind, 1)
        return self._rules.placeholders[item.kind]

    def _swallow(self, tail: re.Pattern[str], *, final: bool) -> None:
        """Pass over what belongs to the last item; the tail stays open while it may go on."""
        found = tail.match(self._folded, self._place)
        self._place = found.end() if found else self._place
        self._tail = tail if not final and self._folded[self._place :] in _UNDECIDED else None

    def _forget(self) -> None:
        """Keep no more of what has left than the context."""
        cut = self._place - self._rules.context_characters
        if cut > 0:
            self._text = self._text[cut:]
            self._folded = self._folded[cut:]
            self._place -= cut
            self._looked = self._looked - cut if self._looked > cut else 0

    def _count(self, kind: str, count: int) -> None:
        self._counts[kind] = self._counts.get(kind, 0) + count


def redact(text: str, rules: RedactionRules, stages: Collection[Stage] = STAGES) -> Redacted:
    """A whole text as its stream would be redacted."""
    redactor = Redactor(rules, stages)
    shown = redactor.feed(text) + redactor.finish()
    return Redacted(shown, redactor.redactions)


def _start(item: Item) -> int:
    return item.start
