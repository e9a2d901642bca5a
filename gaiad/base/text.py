"""Text as it is compared: folded look-alikes, invisible characters, field names in words."""

import re
import unicodedata

_PLAIN = frozenset("@.+-_()") | frozenset(map(chr, (*range(48, 58), *range(65, 91), *range(97, 123))))
_LOOKALIKES = (
    ("авекмнорстухіјѕԛԝһԁ", "abekmhopctyxijsqwhd"),  # Cyrillic
    ("αβεζηικμνορτυχ", "abezhikmnoptyx"),  # Greek
    ("օսոհ", "ounh"),  # Armenian
    ("ɑɡ", "ag"),
)
_SIGNS = {
    "\u3002": ".",
    "\uff61": ".",
    "\u2010": "-",
    "\u2011": "-",
    "\u2012": "-",
    "\u2212": "-",
    "\u04cf": "l",
    "\u2800": " ",
}
_KEPT_SPACES = "\u00a0\u202f"  # finders and breaks know them


class _Table(dict[int, str]):
    """Filled as characters come."""

    def __missing__(self, code: int) -> str:
        self[code] = _folded(chr(code))
        return self[code]


def _folded(character: str) -> str:
    if (digit := unicodedata.decimal(character, None)) is not None:
        return str(digit)
    if unicodedata.category(character) == "Zs" and character not in _KEPT_SPACES:
        return " "
    plain = unicodedata.normalize("NFKC", character)
    return plain if plain in _PLAIN else character


def _case_pairs() -> dict[int, str]:
    """The same for both cases, so that case means the same before and after."""
    pairs = {ord(sign): plain for sign, plain in _SIGNS.items()}
    for letters, plain in _LOOKALIKES:
        for letter, stands_for in zip(letters, plain, strict=True):
            pairs |= {ord(letter): stands_for, ord(letter.upper()): stands_for.upper()}
    return pairs


_TABLE = _Table(_case_pairs())


def fold(text: str) -> str:
    """The text as it reads, of the same length."""
    return text if text.isascii() else text.translate(_TABLE)


_IGNORABLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029"
JOINERS = "\u200c\u200d\ufe00-\ufe0f"
"""As in a character class: ignorable ones that scripts and emoji need."""
IGNORABLE = re.compile(f"[{_IGNORABLE}]")
INVISIBLE = re.compile(f"[{_CONTROLS}{_IGNORABLE}\u2800]")
"""Anything but tabs, line feeds and spaces."""


def first_invisible(text: str) -> str:
    """The first character of `text` that nobody sees as U+XXXX, "" without one; a space is the only blank allowed."""
    for character in text:
        if not character.isprintable() or INVISIBLE.match(character):
            return f"U+{ord(character):04X}"
    return ""


def marked(text: str) -> str:
    r"""`text` with every invisible character written out as \u200b."""
    return INVISIBLE.sub(lambda found: _written(found[0]), text)


def _written(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_JOINTS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[_/.\-]+")
_JOINED = re.compile(r"\b[A-Za-z][a-z0-9]+(?:[A-Z][a-z0-9]*)+\b")


def words_of(name: str) -> str:
    """A field's name in words: `Routing/TimeToLive` -> `routing time to live`."""
    return " ".join(_JOINTS.sub(" ", name).lower().split())


def words_joined(path: str, text: str) -> str:
    """What an index of words misses of a page of fields: its path, and the names in camel case in their words."""
    names = dict.fromkeys([path, *_JOINED.findall(text)])
    return " ".join(dict.fromkeys(word for name in names for word in words_of(name).split()))
