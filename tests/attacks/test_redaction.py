"""Items that redaction takes out, disguised: with characters nobody sees between theirs, and with lookalikes."""

import re
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import gaiad
from gaiad.base.text import IGNORABLE, INVISIBLE, fold
from router.redact import RedactionSettings, redact, redaction_rules
from tests.makers.attacked import Row, tries

RULES = redaction_rules(RedactionSettings(names=["Jane Doe", "رضا"], phrases=["project nightjar"]))
ITEMS = (
    "ada.l@example.org", "4111 1111 1111 1111", "4111111111111111", "378282246310005", "+49 30 901820",
    "DE89370400440532013000", "192.168.1.20", "Jane Doe", "project nightjar", "رضا", "ghp_" + "a1B2" * 9,
)  # fmt: skip
STYLES = {
    "full width": (0xFF10, 0xFF21, 0xFF41),
    "bold": (0x1D7CE, 0x1D400, 0x1D41A),
    "monospace": (0x1D7F6, 0x1D670, 0x1D68A),
    "Arabic digits": (0x0660, 0, 0),
    "Devanagari digits": (0x0966, 0, 0),
}
_BETWEEN = (*".．․‐−/_·•‧⋅∙–—\t\n\u2800,|", "  ", " \n", "** **", "` `")
STROKES = "\u0332\u0336\u0305\u20d2\u20dd\ufe2d"
LETTERS = str.maketrans("aeopcyxijsAEOPCTXBHMKI", "аеорсухіјѕАЕОРСТХВНМКІ")


def _shown(text: str) -> str:
    shown = redact(f"It is {text} so.", RULES).text
    signs = re.sub(f"[{STROKES}{re.escape(''.join(_BETWEEN))}]", "", IGNORABLE.sub("", shown))
    return fold(signs).replace(" ", "")


def _styled(text: str, zero: int, upper: int, lower: int) -> str:
    def one(sign: str) -> str:
        if sign.isascii() and sign.isdigit():
            return chr(zero + int(sign))
        if upper and sign.isascii() and sign.isalpha():
            return chr((upper if sign.isupper() else lower) + ord(sign.lower()) - ord("a"))
        return "＠" if sign == "@" and upper == 0xFF21 else sign

    return "".join(map(one, text))


def _held(item: str, disguised: str) -> bool:
    plain = re.sub(f"[{re.escape(''.join(_BETWEEN))}]", "", fold(item)).replace(" ", "")
    return plain not in _shown(disguised)


def test_items_with_characters_nobody_sees_in_them(row: Row) -> None:
    ignorable = [chr(code) for code in range(sys.maxunicode + 1) if IGNORABLE.match(chr(code))]
    some = ignorable[:: 1 if tries(0, 1) else 97]
    for item, sign in product(ITEMS, some):
        for place in range(1, len(item), 1 if tries(0, 1) else 5):
            disguised = item[:place] + sign + item[place:]
            row.check(_held(item, disguised), f"{item} with U+{ord(sign):04X} at {place}")
        everywhere = sign.join(item)
        row.check(_held(item, everywhere), f"{item} with U+{ord(sign):04X} everywhere")


def _disguises(item: str) -> Iterator[tuple[str, str]]:
    yield from ((name, _styled(item, *codes)) for name, codes in STYLES.items())
    yield "Cyrillic", item.translate(LETTERS)
    yield from (
        (f"U+{ord(stroke):04X}", "".join(sign + stroke for sign in item)) for stroke in STROKES if item != "رضا"
    )
    if " " in item and not item[0].isdigit() and item[0] != "+":
        yield from (("parted", between.join(item.split())) for between in ("-", ".", "_", "   ", "\n", " **", "* *"))
    if item.isdigit():
        yield from (("one by one", sign.join(item)) for sign in " -")
        yield from (("points", f"{item[:4]}{sign}{item[4:8]}{sign}{item[8:12]}{sign}{item[12:]}") for sign in _BETWEEN)


def test_items_written_with_lookalikes(row: Row) -> None:
    for item in ITEMS:
        for name, disguised in _disguises(item):
            if disguised != item and len(item) != 15:
                row.check(_held(item, disguised), f"{name}: {disguised}")


def test_pictures_and_scripts_keep_their_joiners(row: Row) -> None:
    rules = redaction_rules(RedactionSettings())
    for text in ("👩‍👩‍👧", "❤️", "می‌خواهم", "क्‍ष", "Müller & Søn", "你好，世界。"):
        row.check(redact(text, rules).text == text, text)


def test_the_page_marks_the_same_characters(row: Row) -> None:
    """Variation selectors apart, which hide nothing on the page and belong to pictures; and the blank of braille."""
    source = (Path(gaiad.__file__).parent / "web" / "hidden_signs.js").read_text()
    written = "".join(re.findall(r'^const (?:HIDDEN|JOINERS) = "(.*)";$', source, re.MULTILINE))
    codes = re.sub(r"\\\\u\{?([0-9a-f]+)\}?", lambda found: re.escape(chr(int(found[1], 16))), written)
    page = re.compile(f"[{codes}]")
    for code in range(sys.maxunicode + 1):
        sign = chr(code)
        if sign in "\r\u2800" or 0xFE00 <= code <= 0xFE0F:
            continue
        row.check(bool(page.match(sign)) == bool(INVISIBLE.match(sign)), f"U+{code:04X}")
