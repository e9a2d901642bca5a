"""The mark of a citation in a text, `[Packet: id]`, and everything that only looks like one.

A citation is an id in the structure of an answer; its mark is written by gaiad alone. What else reads like the mark
(other brackets, emphasis, line breaks or invisible characters inside, lookalike letters, a plural) is shown as text.
"""

import re
import unicodedata

from gaiad.base.text import INVISIBLE, fold

OPENING = "[Packet:"
_NO_BRACKETS = "({\u201a\u201e\u2768\u276a\u2774"
"""Parentheses, braces and low quotes: nothing in these counts as a citation."""


def _signs(category: str) -> str:
    found = (chr(code) for code in (*range(0x4000), *range(0xFE00, 0x10000)) if chr(code) not in _NO_BRACKETS)
    signs = (sign for sign in found if unicodedata.category(sign) == category)
    return "".join(sign for sign in signs if unicodedata.normalize("NFKC", sign)[0] not in "(){}")


BRACKETS = "⎡⎢⎣" + _signs("Ps")
_CLOSING = "⎤⎥⎦" + _signs("Pe")
_ROUND = str.maketrans({**dict.fromkeys(BRACKETS, "("), **dict.fromkeys(_CLOSING, ")")})
_COLONS = ":：︰︓﹕∶ː꞉⦂։׃܃᛬፥⁚⁝≔;=＝—–#"
_HYPHENS = "\\-‐‑‒−"
_LONGEST_GAP = 64
_WORDS_BEFORE, _LONGEST_WORD = 2, 12
"""Such as [see Packet: x]."""
_NO_GAP = re.escape(BRACKETS + _CLOSING + _NO_BRACKETS)
_GAP = rf"(?:[^\w{_NO_GAP}]|[_\u115f\u1160\u3164\uffa0]){{0,{_LONGEST_GAP}}}"  # of two that never meet
_LETTER = r"[^\W\d_]"
_WORD_BEFORE = rf"{_LETTER}{{1,{_LONGEST_WORD}}}[^\w{_NO_GAP}]{{1,3}}"
_OPENS = (
    f"[{re.escape(BRACKETS)}](?:{_WORD_BEFORE}){{0,{_WORDS_BEFORE}}}{_GAP}"
    f"(?:{_GAP.join('transmission')}{_GAP})?{_GAP.join('packet')}{_GAP}"
)
_ENDS = rf"(?:[{_COLONS}]|(?<=\s)[{_HYPHENS}](?=\s))"
_LOOKS = re.compile(rf"{_OPENS}(?:s{_GAP})?(?:(?:ids?|no|nr|number){_GAP})?{_ENDS}", re.IGNORECASE)
_BEFORE = re.compile(_WORD_BEFORE)
_IN_WORD = re.compile(rf"{_LETTER}{{0,{_LONGEST_WORD}}}[^\w{_NO_GAP}]{{0,3}}")
_BEGINNINGS = tuple(f"{before}packet{after}" for before in ("", "transmission") for after in ("sids", "ids", "snumber"))
_ANOTHER = re.compile(f"[{_NO_GAP}]")
_NO_LETTER = re.compile(rf"[\W_]|{INVISIBLE.pattern}")
LONGEST_LOOK = 1 + (_LONGEST_WORD + 3) * _WORDS_BEFORE + (_LONGEST_GAP + 1) * len("transmissionpacketsids")


class _Letters(dict[int, str]):
    """What is read as a letter: accented ones, small capitals, squares, lookalikes. Filled as they come."""

    def __missing__(self, code: int) -> str:
        parts = unicodedata.normalize("NFD", chr(code))
        self[code] = parts[0] if all(map(unicodedata.combining, parts[1:])) else chr(code)
        return self[code]


_LETTERS = _Letters(
    zip(map(ord, "ᴘᴀᴄᴋᴇᴛꜱɪᴅᏢᎪᏟᏦᎬᎢᏚꓑꓮꓚꓗꓰꓔꓢᑭƥƤƙƘĸƈƇϲϹⲣⲁⲥⲕⲉⲧ"), "packetsidpacketspacketsppPkKkcCcCpacket", strict=True)
)
_LETTERS.update({start + place: chr(65 + place) for start in (0x1F150, 0x1F170, 0x1F1E6) for place in range(26)})


def _read(text: str) -> str:
    """As it reads, of the same length."""
    return text if text.isascii() else fold(text).translate(_LETTERS)


def mark(packet_id: str) -> str:
    """The citation of a packet; an id with brackets could pass for two."""
    return f"{OPENING} {' '.join(packet_id.translate(_ROUND).split())}]"


def looks(text: str) -> list[tuple[int, int]]:
    """Where something in the text reads like the opening of a citation, a real one included."""
    return [found.span() for found in _LOOKS.finditer(_read(text))]


def may_become(tail: str) -> bool:
    """Whether a text that begins with a bracket may still come to read like a citation's opening."""
    if len(tail) > LONGEST_LOOK or _ANOTHER.search(tail, 1):
        return False
    rest, before = _read(tail)[1:], 0
    while not _begins(rest):
        if before == _WORDS_BEFORE or not (word := _BEFORE.match(rest)):
            return before < _WORDS_BEFORE and _IN_WORD.fullmatch(rest) is not None
        rest, before = rest[word.end() :], before + 1
    return True


def _begins(text: str) -> bool:
    letters = _NO_LETTER.sub("", text).casefold()
    return any(beginning.startswith(letters) for beginning in _BEGINNINGS)


def as_text(text: str) -> str:
    """The text with nothing in it that passes for a citation."""
    parts, place = [], 0
    for start, _ in looks(text):
        parts += [text[place:start], "("]
        place = start + 1
    return "".join([*parts, text[place:]])
