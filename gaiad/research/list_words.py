"""What a listing question says of the list itself and not of a topic: how many, in which order, and what is left out.

Pure. "The three latest conversations about the garden, not Gemini's" is about the garden alone.
"""

import re

import msgspec

_PACKETS = r"(?:packets?|conversations?|sessions?|discussions?|chats?)"
_ENDS = r"(?:first|last|latest|earliest|oldest|newest|most recent)"
_NUMBERS = {
    word: number
    for number, word in enumerate(
        ["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"], start=2
    )
}
_NUMBER = rf"(?P<number>\d{{1,3}}|{'|'.join(_NUMBERS)})(?![\w.])"
# After one of these a number counts; after any other word it may be a version (GPT 4 conversations).
_BEFORE = rf"(?:^|\b(?:me|us|the|our|my|show|list|give|get|find|pull|fetch|which|what|{_ENDS})\s+)"
_COUNT = re.compile(rf"{_BEFORE}(?P<all>{_NUMBER}\s+)(?:[\w'’.-]+\s+){{0,3}}?{_PACKETS}\b", re.IGNORECASE)
_ONE = re.compile(
    rf"\b{_ENDS}\s+(?:[\w'’.-]+\s+){{0,2}}?(?:packet|conversation|session|discussion|chat)\b", re.IGNORECASE
)
_END = re.compile(rf"\b{_ENDS}\b(?=(?:\s+[\w'’.-]+){{0,3}}?\s+{_PACKETS}\b)", re.IGNORECASE)
_SPEAK = r"(?:mention|speak of|talk about|discuss|contain|involve|name)"
_LEFT_OUT = re.compile(
    r"[\s,;]+(?:"
    r"(?:except|excluding)(?: for)?|apart from|other than|(?<=everything )but|(?<=all )but"
    rf"|(?:(?<=[,;] )|but |and )not|(?<=[,;] )without|(?:that |which )?(?:do|does|did)(?:n['’]t| not) {_SPEAK}"
    rf"|(?<=s )without(?=\s+(?-i:[A-Z]))|(?<=packets )without|(?<=conversations )without|(?<=sessions )without"
    r")\s+(?P<what>[^,;?.!]+)",
    re.IGNORECASE,
)


class ListWords(msgspec.Struct, frozen=True, kw_only=True):
    """`text` is the question without the words of the list; `most` how many packets it wants, 0 for all; `left_out`
    the words for what is not to be in it, "" when all is."""

    text: str
    most: int = 0
    left_out: str = ""


def read_list(question: str) -> ListWords:
    """`question` asks for a list and has no dates any more."""
    found = _LEFT_OUT.search(question)
    text = question if found is None else f"{question[: found.start()]} {question[found.end() :]}"
    count = _COUNT.search(text)
    most = 1 if _ONE.search(text) else 0
    if count is not None:
        said = count["number"].lower()
        most = _NUMBERS.get(said) or int(said)
        text = f"{text[: count.start('all')]} {text[count.end('all') :]}"
    text = " ".join(_END.sub(" ", text).split())
    return ListWords(text=text, most=most, left_out=found["what"].strip() if found else "")
