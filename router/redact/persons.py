"""What says who a person is: dates of birth, postal addresses, numbers of passports and of social security.

In English, German, French and Spanish. A number with check digits counts wherever it is right; a passport's has none,
so a word before it must say what it is, and so must one before a date of birth. Where python-stdnum knows a number, it
judges.
"""

import re
from collections.abc import Callable, Collection

from router.redact.words import Finder, Item

_MONTH = (
    "January|February|March|April|May|June|July|August|September|October|November|December|Jan|Feb|Mar|Apr|Jun|Jul|Aug|"
    "Sept?|Oct|Nov|Dec|Januar|Jänner|Februar|März|Mai|Juni|Juli|Oktober|Dezember|janvier|février|mars|avril|mai|juin|"
    "juillet|août|septembre|octobre|novembre|décembre|enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|"
    "octubre|noviembre|diciembre"
)
_OF = r"(?:(?:of|de|del) )?"
_DATE = re.compile(
    rf"(?<![\w./-])(?:[0-9]{{4}}[./-][0-9]{{1,2}}[./-][0-9]{{1,2}}|[0-9]{{1,2}}[./-] ?[0-9]{{1,2}}[./-] ?[0-9]{{2,4}}"
    rf"|[0-9]{{1,2}}(?:st|nd|rd|th|er|º|\.)? {_OF}(?i:{_MONTH})\.?,? {_OF}[0-9]{{4}}"
    rf"|(?i:{_MONTH})\.? [0-9]{{1,2}}(?:st|nd|rd|th)?,? [0-9]{{4}})(?![\w/]|[.-][0-9])"
)
_WORD_BEFORE = 48

_ENGLISH = (
    r"Street|St|Road|Rd|Avenue|Ave|Lane|Ln|Drive|Dr|Court|Ct|Boulevard|Blvd|Terrace|Crescent|Close|Square|Gardens|Way"
)
_GERMAN_END = r"straße|strasse|str\.|weg|platz|allee|gasse|damm|ufer|chaussee"
_GERMAN = r"Straße|Strasse|Str\.|Weg|Platz|Allee|Gasse|Damm|Ufer|Chaussee"
_FRENCH = r"rue|avenue|boulevard|place|chemin|allée|impasse|quai|cours|route"
_SPANISH = r"[Cc]alle|C/|[Aa]venida|Avda\.|[Pp]laza|[Pp]aseo|[Cc]amino|[Cc]arretera|Travesía"
_CAP = r"[A-ZÀ-Þ][\w'’.-]{0,30}"
_SMALL = r"de la|de los|de las|de|du|des|del|la|le|les|los|las|y|et"
_NAMES = rf"(?:(?:(?:{_SMALL}) )?(?:[dl]['’])?{_CAP})(?:[ -](?:(?:{_SMALL}) )?(?:[dl]['’])?{_CAP}){{0,3}}"
_OF_TOWN = r"am|an der|an dem|ob der|in der|im|sur|sous|en|lès|lez|aux?|à|el"
_TOWN_NAME = r"[A-ZÀ-Þ](?:[\w'’-]{0,30}\w)?"
_BETWEEN = rf"(?:[ -](?:St\. |(?:{_SMALL}|{_OF_TOWN})[ -](?:[dl]['’])?)|[ -](?:[dl]['’])?)"
_TOWN_NAMES = rf"{_TOWN_NAME}(?:{_BETWEEN}{_TOWN_NAME}){{0,4}}"
_GAP = r"(?:, ?\n?|[ \n]{1,2})"
_ENDS = r"(?=[.,;:!?)\]}\"“”»\n]|[ ]?\Z)"
_LONE_TOWN = rf", ?\n?(?:(?:{_SMALL}) )?{_TOWN_NAMES}{_ENDS}"
_CEDEX = r"(?: [0-9]{2}(?<=[Cc][Ee][Dd][Ee][Xx] ..)(?!\w))?"
_POSTCODE = r"(?:[A-Z]{1,2}-[0-9]{4,5}|[0-9]{5})"
_FLOOR = r"(?:, ?(?:[Pp]iso )?[0-9]{1,2}(?:\.?[ºª°o]|\.) ?(?:[A-Z]|izda\.?|dcha\.?|izq\.?)?(?!\w))?"
_TOWN = (
    rf"{_FLOOR}(?:{_GAP}{_POSTCODE} {_TOWN_NAMES}{_CEDEX}|{_GAP}[0-9]{{4}} {_TOWN_NAMES}{_ENDS}"
    rf"|{_LONE_TOWN}|,? (?:in|à|en) (?!(?i:{_MONTH})\b){_TOWN_NAMES}{_ENDS})?"
)
_TOWN_ENGLISH = (
    rf"(?:{_GAP}(?:{_TOWN_NAME},? ){{0,3}}{_TOWN_NAME},?[ \n]"
    r"(?:[A-Z]{2} [0-9]{5}(?:-[0-9]{4})?|[A-Z]{1,2}[0-9][A-Z0-9]? [0-9][A-Z]{2})"
    rf"|,[ \n]{{1,2}}(?:{_TOWN_NAME},? ){{1,4}}[0-9]{{5}}(?:-[0-9]{{4}})?"
    rf"|(?:, ?\n?|\n){_TOWN_NAMES}, ?[A-Z]{{2}}(?![\w-])"
    rf"|{_LONE_TOWN}|,? in (?!(?i:{_MONTH})\b){_TOWN_NAMES}{_ENDS})?"
)
_ADDRESS = re.compile(
    rf"(?<![\w.,:-])(?:[0-9]{{1,5}}[A-Za-z]? (?:{_CAP} ){{1,3}}(?:{_ENGLISH})\b\.?(?: (?:N|S|E|W|NE|NW|SE|SW)\b)?"
    rf"(?:,? (?:(?:Apt|Apartment|Suite|Flat|Unit|Ste)\.? |#)[0-9A-Z-]{{1,6}})?{_TOWN_ENGLISH}"
    rf"|(?:{_POSTCODE} {_TOWN_NAMES},?[ \n])?"
    rf"(?:[A-ZÄÖÜ][\wäöüß-]{{1,30}}er (?:{_GERMAN})|[A-ZÄÖÜ][\wäöüß-]{{1,30}}?(?:{_GERMAN_END}|-(?:{_GERMAN})))"
    rf" [0-9]{{1,3}} ?[a-z]?(?!\w){_TOWN}"
    rf"|[0-9]{{1,4}}(?: ?(?:bis|ter|quater))?,? (?i:{_FRENCH}) {_NAMES}{_TOWN}"
    rf"|(?:{_SPANISH}) {_NAMES},? (?:n\.?º ?|núm\. )?[0-9]{{1,4}}{_TOWN})(?![\w-])"
)
_TOKEN = (
    rf"[ \n]{{1,2}}(?:{_CAP},?|#?[0-9][\w.-]{{0,9}}[º°ª]?,?"
    rf"|(?:{_SMALL}|{_OF_TOWN}|in|ob|an|rue|bis|ter|quater|[Pp]iso|izda|izq|dcha|n\.?º)[.,]?|[dl]['’]{_CAP},?)"
)
_GOES_ON = re.compile(
    rf"(?<![\w])(?:[0-9]{{1,5}}[\w.º]{{0,2}},?(?: (?i:of|de|del|{_FRENCH}))?(?:{_TOKEN}){{0,9}}"
    rf"|(?:(?i:{_MONTH})\.?,?|[A-ZÄÖÜ][\wäöüß-]{{1,30}}er|(?:[\wäöüß-]{{1,30}}?(?:{_GERMAN_END})|{_GERMAN}|{_ENGLISH}"
    rf"|{_SPANISH})[.,]?)(?: (?:of|de|del))?(?:{_TOKEN}){{0,9}}"
    rf"|[0-9]{{1,2}}[\w.º]{{0,2}} {_OF}(?i:{_MONTH})\.?,?(?: (?:de|del))?)\Z"
)
_LONGEST = 120


def goes_on(before: str) -> bool:
    """Whether a date or an address may have begun in this text and go on behind the space that follows it."""
    return _GOES_ON.search(before[-_LONGEST:]) is not None


def find_birth(words: Collection[str]) -> Finder:
    """Dates behind a word that says that somebody was born then."""
    born = _behind(words)

    def find(text: str, place: int) -> Item | None:
        for found in _DATE.finditer(text, place):
            if born(text, found.start()):
                return Item(found.start(), found.end(), "birth_date")
        return None

    return find


def find_address(text: str, place: int) -> Item | None:
    """Street and number, with postcode and town where they follow. A town without a postcode counts behind a comma or
    "in", and only where a sentence or a part of it ends behind it.
    """
    found = _ADDRESS.search(text, place)
    return Item(found.start(), found.end(), "address") if found else None


_PASSPORT = re.compile(r"(?<![\w-])(?=(?:[A-Z]{0,5}[0-9]){2})[A-Z0-9]{7,10}(?![\w-])")


def find_passport(words: Collection[str]) -> Finder:
    """Numbers of passports and identity cards behind a word that says so."""
    named = _behind(words)

    def find(text: str, place: int) -> Item | None:
        for found in _PASSPORT.finditer(text, place):
            if named(text, found.start()):
                return Item(found.start(), found.end(), "passport")
        return None

    return find


_NUMBER = re.compile(
    r"(?<![\w.-])(?:(?P<ssn>[0-9]{3}([- ])[0-9]{2}\2[0-9]{4})"
    r"|(?P<nir>[12] ?[0-9]{2} ?[0-9]{2} ?[0-9][0-9AB] ?[0-9]{3} ?[0-9]{3} ?[0-9]{2})"
    r"|(?P<nie>[XYZ]-?[0-9]{7}-?[A-Z])|(?P<dni>[0-9]{8}-?[A-Z])|(?P<nss>[0-9]{2}[ /]?[0-9]{8}[ /]?[0-9]{2})"
    r"|(?P<rvnr>[0-9]{2} ?[0-9]{6} ?[A-Z] ?[0-9]{3})"
    r"|(?P<nino>[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?[0-9]{2} ?[0-9]{2} ?[0-9]{2} ?[A-D]))(?![\w-])"
)
_NAMED = frozenset(("nss",))  # check digits alone are not enough: other numbers of this length are common


def find_social(words: Collection[str]) -> Finder:
    """Numbers of social security, and of persons in Spain, whose check digits are right; some only behind a word."""
    named = _behind(words)

    def find(text: str, place: int) -> Item | None:
        for found in _NUMBER.finditer(text, place):
            kind, written = found.lastgroup or "", found[0]
            sure = kind not in _NAMED and not (kind == "ssn" and " " in written)
            if _is_right(kind, written) and (sure or named(text, found.start())):
                return Item(found.start(), found.end(), "social_security")
        return None

    return find


def _is_right(kind: str, written: str) -> bool:
    from stdnum.es import dni, nie  # only where there is a number to look at
    from stdnum.fr import nir
    from stdnum.us import ssn

    digits = re.sub("[ /-]", "", written)
    match kind:
        case "ssn":
            return bool(ssn.is_valid(digits))
        case "nir":
            return bool(nir.is_valid(digits))
        case "nie":
            return bool(nie.is_valid(digits))
        case "dni":
            return bool(dni.is_valid(digits))
        case "nss":
            return int(digits[:10]) % 97 == int(digits[10:])
        case "rvnr":
            return _pension_sum(digits)
    return digits[:2] not in ("BG", "GB", "KN", "NK", "NT", "TN", "ZZ")


def _pension_sum(number: str) -> bool:
    """The check digit of a German pension insurance number; its letter counts as two digits."""
    spelled = number[:8] + f"{ord(number[8]) - 64:02}" + number[9:11]
    factors = (2, 1, 2, 5, 7, 1, 2, 1, 2, 1, 2, 1)
    products = (int(digit) * factor for digit, factor in zip(spelled, factors, strict=True))
    return sum(product // 10 + product % 10 for product in products) % 10 == int(number[11])


def _behind(words: Collection[str]) -> Callable[[str, int], bool]:
    """Whether one of the words is before a place, in its line and with no digit between."""
    pattern = re.compile(rf"(?<!\w)(?i:{'|'.join(map(re.escape, words))})(?!\w)[^\n0-9]{{0,24}}\Z")
    return lambda text, place: pattern.search(text[max(0, place - _WORD_BEFORE) : place]) is not None
