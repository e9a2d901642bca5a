"""Phone numbers: libphonenumber says what is one, this module where one may stand and what only looks like it.

A number with its country's prefix counts wherever it is valid. One without is read as a number of the listed countries
and must look like one: it begins with a nought and has groups, has the groups of North America, or a word before it
says that it is to be called. It never begins in the middle of a row of numbers.
"""

import re
from collections.abc import Callable, Collection, Iterator
from itertools import takewhile

from router.redact.words import Finder, Item

_SPACES = " \u00a0\u202f"
_PLACE = re.compile(
    r"[+(0-9](?:(?<=\+)(?<![0-9A-Za-z_@#$€£%+].)(?=[(]?[0-9])"  # its sign first, then what is around it: found fast
    r"|(?<!\+)(?:(?<![0-9A-Za-z_@#$€£%+./=:–-].)(?<![0-9],.)|(?<=[A-Za-z][:=].))"
    r"(?:(?<=\()(?=[0-9+])|(?<=[0-9])(?<![0-9][ \u00a0\u202f].)))"
)
_RUN = re.compile(  # a space beside a point or within its bracket is a break, for a stream may show what is before
    rf"\+?(?:[0-9)/–-]|[(.](?![{_SPACES}])|[{_SPACES}](?![).])){{6,40}}"
)
_GROUP = re.compile("[0-9]+")
_BETWEEN = re.compile(rf"\)?(?:[{_SPACES}]?[-–./][{_SPACES}]?|[{_SPACES}])?\(?|\)[{_SPACES}-]")
_GOES_ON = re.compile(r"[0-9A-Za-z_%€$£]|[-./,:–][0-9A-Za-z]")
_DATE = re.compile(
    r"(?:[0-9]{4}[-./][0-9]{1,2}[-./][0-9]{1,2}|[0-9]{1,2}[-./][0-9]{1,2}[-./](?:[0-9]{2}){1,2})(?![0-9]|[-./][0-9])"
)
_AMERICAN = frozenset({(3, 3, 4), (1, 3, 3, 4)})
_FEWEST, _FEWEST_ALONE, _MOST = 7, 9, 15
_TRIES = 3
_WORD_BEFORE = 48
_CUTS = frozenset("0123456789\n")


def find_phone(regions: Collection[str], words: Collection[str], other_words: Collection[str]) -> Finder:
    """Phone numbers as items; `words` before one say that it is one, `other_words` that it is something else."""
    called, other = _word_before(words), _word_before(other_words)

    def valid(text: str, start: int, end: int, groups: tuple[str, ...]) -> bool:
        written = text[start:end]
        if written.startswith("+") or groups[0].startswith("00"):
            whole = "+" + written.lstrip("+0") if groups[0].startswith("00") else written
            return not other(text, start) and _is_number(whole, None)
        if not _looks_national(written, groups, named=True):  # not even behind a word: most numbers end here
            return False
        named = called(text, start)
        if not _looks_national(written, groups, named=named) or other(text, start):
            return False
        return any(_is_number(written, region) for region in regions if named or _fits(groups, region))

    def find(text: str, place: int) -> Item | None:
        for found in _PLACE.finditer(text, place):
            start = found.start()
            for end, groups in _readings(text, start):
                if valid(text, start, end, groups):
                    return Item(start, end, "phone")
        return None

    return find


def known_regions() -> Collection[str]:
    """Countries and places whose national numbers can be read, by their ISO codes: 'GB', not 'UK'."""
    import phonenumbers  # only where a user lists some

    return phonenumbers.SUPPORTED_REGIONS


def _word_before(words: Collection[str]) -> Callable[[str, int], bool]:
    """Whether one of the words is before a place, in its line and with no digit between."""
    pattern = re.compile(rf"(?<!\w)(?i:{'|'.join(map(re.escape, words))})(?!\w)[^\n0-9]{{0,24}}\Z")

    def stands(text: str, place: int) -> bool:
        before = text[max(0, place - _WORD_BEFORE) : place]
        near = takewhile(lambda character: character not in _CUTS, reversed(before))
        return any(map(str.isalpha, near)) and pattern.search(before) is not None

    return stands


def _readings(text: str, start: int) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Where a number may end, the longest first, with its groups of digits."""
    run = _RUN.match(text, start)
    if run is None:
        return
    spans: list[tuple[int, int]] = []
    for group in _GROUP.finditer(text, start, run.end()):
        if spans and not _BETWEEN.fullmatch(text, spans[-1][1], group.start()):
            break
        spans.append(group.span())
    digits = sum(end - begin for begin, end in spans)
    tries = 0
    while digits >= _FEWEST and tries < _TRIES:
        begin, end = spans[-1]
        if digits <= _MOST + 2 and not _GOES_ON.match(text, end):
            tries += 1
            yield end, tuple(text[first:last] for first, last in spans)
        spans.pop()
        digits -= end - begin


def _looks_national(written: str, groups: tuple[str, ...], *, named: bool) -> bool:
    digits = sum(map(len, groups))
    if _DATE.match(written) or (len(groups) == 2 and "." in written and written.replace(".", "").isdigit()):
        return False
    if named:
        return True
    if groups[0][0] == "0":
        return digits >= _FEWEST_ALONE and len(groups[0]) > 1 and len(groups) > 1
    return tuple(map(len, groups)) in _AMERICAN


def _fits(groups: tuple[str, ...], region: str) -> bool:
    return (region in {"US", "CA"}) == (groups[0][0] != "0")


def _is_number(written: str, region: str | None) -> bool:
    import phonenumbers  # 60 ms, and only where there is a number to look at

    try:
        return phonenumbers.is_valid_number(phonenumbers.parse(written, region))
    except phonenumbers.NumberParseException:  # its way to say no
        return False
