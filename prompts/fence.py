"""Retrieved text is data (decision 8): it stands between two lines that it cannot write itself.

Both lines carry a word that does not occur in the text, made from the text: the same page is always fenced alike (the
model's prefix cache lives on that) and no page can close its own fence. A line of the page that begins like one of
gaiad's markers (GCP 7.1) or like a fence gets a visible bar in front. Only the prompt's copy changes, never what is
stored. Control tokens are not dealt with here: the tokenizer breaks their literals in every untrusted segment.
"""

import hashlib
import re
from functools import cache

import msgspec

from constants.load import load
from gaiad.generation import Segment
from prompts.packet import ContextItem

_LABEL_CHARACTERS = 120
_WORD_DIGITS = 6
_INVISIBLE = "\ufeff\u200b-\u200f\u2060\u00ad"
_LINE_START = rf"(?P<start>\A|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029])(?P<space>[ \t\u00a0\u3000{_INVISIBLE}]*)"
_BAR = "| "
_NO_BRACKETS = str.maketrans("[]", "()")


class _Routing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    matrix: dict[str, dict[str, str]]


def fenced(item: ContextItem) -> list[Segment]:
    """The page between its lines: head, text (its `source` is the packet id), end. All untrusted."""
    text = neutralised(item.text)
    word = _word_absent_from(text, f"{item.packet_id}\0{item.page_id}")
    said = ", ".join(part for part in (_label(item.timestamp), _label(item.topic)) if part)
    source = _label(item.packet_id).translate(_NO_BRACKETS)
    return [
        Segment(f"<<memory {word} [Packet: {source}]{' ' if said else ''}{said}>>\n"),
        Segment(text, source=item.packet_id),
        Segment(f"\n<<end {word}>>\n\n"),
    ]


def neutralised(text: str) -> str:
    """The text with a bar before every line that begins like a marker or a fence; all else as it is."""
    return _dangerous().sub(rf"\g<start>\g<space>{_BAR}", text)


@cache
def _dangerous() -> re.Pattern[str]:
    markers = "|".join(re.escape(marker) for marker in sorted(load("routing.toml", _Routing).matrix))
    return re.compile(rf"{_LINE_START}(?=(?:{markers})[ \t{_INVISIBLE}]*[:\uff1a]|<<)")


def _word_absent_from(text: str, seed: str) -> str:
    number = 0
    while True:
        digest = hashlib.sha256(f"{number}\0{seed}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()
        if (word := digest[:_WORD_DIGITS]) not in text.lower():
            return word
        number += 1


def _label(text: str) -> str:
    """What a packet says about itself, on one line and without the fence's own signs."""
    plain = " ".join("".join(character if character.isprintable() else " " for character in text).split())
    return plain.replace("<<", "< <").replace(">>", "> >")[:_LABEL_CHARACTERS]
