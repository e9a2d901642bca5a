"""What a block looks like on Discord: cut into messages of at most 2,000 characters, code fences whole in each. Pure.

Discord does not say whether it counts characters or UTF-16 units; what fits in units fits either way.
"""

import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

LIMIT = 2000
"""Characters of a message."""
_FENCE = "```"
_OPENING = re.compile(r"```(?:[\w+#.-]{0,30}(?=\n))?")
_CLOSE = f"\n{_FENCE}"
_CUTS = (re.compile(r"\n\s*\n"), re.compile(r"\n"), re.compile(r"(?<=[.!?…])\s"), re.compile(r"\s"))
"""Where a text may be cut, the best first."""
_CODE_CUTS = (_CUTS[1], _CUTS[3])
_FROM_CITATION = re.compile(r"\[Packet: [^\[]+")
"""Up to the next bracket; from a mark to any "](" in it, Discord would make a link to wherever the text says."""
_NEWLINES = re.compile(r"\n*")
_ENDED = re.compile(rf"\s*{_FENCE}")
"""Nothing of the code is left."""
_VIEW = 3
"""Limits of text that one message is cut from: it, a fence that begins at its end, and what follows that."""
_WORTH = 4
"""A cut in the first quarter of a message leaves too little for it to be a good one."""
_MOST_SOURCES = 5
_QUIET = "-# "
_JOINER = "\u200d"
_NEVER_FIRST = {_JOINER, "\ufe0e", "\ufe0f", *map(chr, range(0x1F3FB, 0x1F400))}
_LONGEST_CLUSTER = 32


class _Cut(NamedTuple):
    """A message, where the text goes on after it, and the line that opens a fence again there, "" for none."""

    message: str
    after: int
    opening: str


class _Fence(NamedTuple):
    """A code fence of a text: its span, and the line that opens it."""

    start: int
    end: int
    opening: str


def split_message(text: str, limit: int = LIMIT) -> list[str]:
    """The text in messages of at most `limit` UTF-16 units, none of them blank.

    Cut between paragraphs, else lines, else sentences, else words. A code fence that fits into a message is not cut;
    a longer one is closed at a cut and opened again. What is longer than a message without a space is cut anywhere.
    Linear in the text: each message is cut from a view that holds all that counts for it.
    """
    pieces = []
    text = text.strip("\n")
    place, opening = 0, ""
    while units(view := opening + text[place : place + _VIEW * limit]) > limit:
        cut = _cut(view, limit)
        pieces.append(cut.message)
        place += cut.after - len(opening)
        opening = cut.opening
        if not opening:
            place += len(_NEWLINES.match(text, place)[0])  # type: ignore[index]  # it matches anywhere
    return [piece for piece in (*pieces, view) if piece.strip()]


def block_messages(marker: str, text: str, *, quiet: bool = False) -> list[str]:
    """A block's messages: an answer as it is, another marker named above; a `quiet` one in small print."""
    text = _without_links(text.strip())
    if quiet:
        text = "\n".join(f"{_QUIET}{line}" for line in text.splitlines() if line.strip())
    head = "" if marker == "RESPONSE" else f"{_QUIET}{marker.lower().replace('_', ' ')}\n"
    return split_message(head + text) if text else []


def with_sources(messages: Sequence[str], sources: Sequence[str], redacted: Collection[str] = ()) -> list[str]:
    """The messages with the packets they stand on named under the last, or in one more where that is full.

    Those `redacted` are marked: what was said of them is not word for word what they say (decision 16).
    """
    if not sources or not messages:
        return list(messages)
    named = [
        f"`{name.replace('`', '')}`{' (redacted)' if name in redacted else ''}" for name in sources[:_MOST_SOURCES]
    ]
    more = len(sources) - _MOST_SOURCES
    line = f"{_QUIET}sources: {', '.join(named)}{f' and {more} more' if more > 0 else ''}"
    return _with_line(messages, line)


def with_also(messages: Sequence[str], words: str) -> list[str]:
    """The messages with an earlier packet named in small print under the last; "" for none."""
    line = _without_links(" ".join(words.split()))
    return _with_line(messages, f"{_QUIET}{line}") if line and messages else list(messages)


def _without_links(text: str) -> str:
    """The text with no citation that Discord would make the words of a link."""
    return _FROM_CITATION.sub(lambda found: found[0].replace("](", "] ("), text)


def _with_line(messages: Sequence[str], line: str) -> list[str]:
    """One more line under the last message, or in one more where that is full."""
    last = f"{messages[-1]}\n{line}"
    return [*messages[:-1], last] if units(last) <= LIMIT else [*messages, *split_message(line)]


def thread_name(text: str) -> str:
    """What a thread about this is called: its first words, in one line of at most 90 characters."""
    line = " ".join(text.split())
    if len(line) > 90:
        line = line[:89].rsplit(" ", 1)[0] + "…"
    return line or "conversation"


def without_call(text: str, user_id: int) -> str:
    """A message as Discord has it, without the mention of this user that it begins with."""
    return re.sub(rf"\A(?:\s*<@!?{user_id}>)+\s*", "", text)


def units(text: str) -> int:
    """How long Discord may take it to be."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def _cut(text: str, limit: int) -> _Cut:
    """The first message of a text that is longer than one."""
    window = _longest(text, limit)
    fences = list(_fences(text, window, limit))
    torn = next((fence for fence in fences if fence.start < window < fence.end), None)
    if torn is None:
        at, after = _best_cut(text, 0, window, _CUTS, fences)
        return _Cut(text[:at].rstrip(), after, "")
    whole = units(text[torn.start : torn.end]) <= limit
    if torn.start and (whole or torn.start >= window // _WORTH):
        return _Cut(text[: torn.start].rstrip(), torn.start, "")
    return _cut_fence(text, torn, limit)


def _cut_fence(text: str, fence: _Fence, limit: int) -> _Cut:
    """Close the fence within the limit, and open it again."""
    inside = fence.start + len(fence.opening) + 1
    at, after = _best_cut(text, inside, _longest(text, limit - units(_CLOSE)), _CODE_CUTS, ())
    if ended := _ENDED.match(text, after):
        return _Cut(f"{text[:at]}{_CLOSE}", ended.end(), "")
    return _Cut(f"{text[:at]}{_CLOSE}", after, f"{fence.opening}\n")


def _best_cut(
    text: str, begin: int, window: int, cuts: Sequence[re.Pattern[str]], fences: Sequence[_Fence]
) -> tuple[int, int]:
    """Where the first part ends and the second begins, at most `window` characters in and after `begin`."""
    found: list[tuple[int, int]] = []
    for cut in cuts:
        places = [match.span() for match in cut.finditer(text, begin + 1, min(len(text), window + 1))]
        outside = ((at, to) for at, to in reversed(places) if not any(one.start < at < one.end for one in fences))
        last = next(outside, None)
        if last and last[0] >= window // _WORTH:
            return last
        found += [last] if last else []
    return max(found, default=None) or _anywhere(text, begin, window)


def _anywhere(text: str, begin: int, window: int) -> tuple[int, int]:
    """Before the last whole character that a reader sees."""
    for at in range(window, max(begin, window - _LONGEST_CLUSTER), -1):
        follows = unicodedata.combining(text[at]) or text[at] in _NEVER_FIRST or text[at - 1] == _JOINER
        if not follows:
            return at, at
    return window, window


def _fences(text: str, window: int, limit: int) -> Iterator[_Fence]:
    """Those that begin within the first `window` characters. One that nothing closes goes to the end, and so does one
    that is longer than a message of `limit`: how much longer is all the same.
    """
    place = 0
    while (start := text.find(_FENCE, place, window + len(_FENCE))) >= 0 and start < window:
        match = _OPENING.match(text, start)
        opening = match.group() if match else _FENCE
        close = text.find(_FENCE, start + len(opening), start + limit + len(_FENCE))
        place = len(text) if close < 0 else close + len(_FENCE)
        yield _Fence(start, place, opening)


def _longest(text: str, limit: int) -> int:
    """How many characters of it fit into `limit` units."""
    end = min(len(text), limit)
    while units(text[:end]) > limit:
        end -= (units(text[:end]) - limit + 1) // 2
    return end
