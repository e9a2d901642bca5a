"""The two things a comparison holds side by side: "the difference between A and B", "how much more A costs than B".

Pure.
"""

import re

from gaiad.research.words import is_letter, stop_words

_MORE = (
    r"(?:much |far |still |a lot |even )?"
    r"(?:more|less|fewer|better|worse|(?!(?:rather|whether|either|neither|number|other|under|over|after|ever|never)\b)\w{2,}er)\b"
)
_DETERMINER = r"(?:the|our|my|your|his|her|their|a|an|this|that)"
_THING = rf"(?:{_DETERMINER}\s+\w+(?:\s\w+)?|(?-i:[A-Z])[\w.-]*(?:\s(?-i:[A-Z0-9])[\w.-]*)?)"
_IS, _DOES = r"(?:is|was|are|were|has|had)", r"(?:does|do|did|will|would|can)"
# One is held against the other: "Is A dearer than B?", "Does A cost more than B?", "Which costs more, A or B?".
_EXCEEDS = (
    rf"{_MORE}.*?\b{_IS}\s+(?P<a>{_THING})\s+than\s+(?P<b>{_THING})",
    rf"{_MORE}.*?\b{_DOES}\s+(?P<a>{_THING})\s+\w+\s+than\s+(?P<b>{_THING})",
    rf"\b{_IS}\s+(?P<a>{_THING})\s+{_MORE}.*?\bthan\s+(?P<b>{_THING})",
    rf"\b{_DOES}\s+(?P<a>{_THING})\s+\w+\s+{_MORE}.*?\bthan\s+(?P<b>{_THING})",
    rf"\b(?:which|who|what)\b(?:\s\w+){{0,2}}\s{_MORE}[^,:]*[,:]\s*(?P<a>{_THING})\s+or\s+(?P<b>{_THING})",
)
_SUBJECTS = (
    r"(?:between|compar\w+)\s+(?P<a>.+?)\s+(?:and|with|to|vs\.?|versus)\s+(?P<b>.+?)(?=\s+(?:on|in|about|regarding|for|over|when|handle\w*|approach\w*)\b|[?.!,;]|$)",
    r"\bcompar\w+\s+how\s+(?P<a>.+?)\s+and\s+(?P<b>.+?)\s+(?:\w+(?:ed|led|ought|aid|aw|ent|ook|ell)|handle|see|view|think|feel|approach|describe)\b",
    r"\bhow\s+(?:do|did|does)\s+(?P<a>.+?)\s+and\s+(?P<b>.+?)\s+differ\b",
    r"\b(?:do|does|did)\s+(?P<a>.+?)\s+and\s+(?P<b>.+?)\s+have in common\b",
    r"(?P<a>[\w.-]+(?:\s[\w.-]+)?)\s+(?:vs\.?|versus)\s+(?P<b>[\w.-]+(?:\s[a-z]\b)?)",
    *_EXCEEDS,
)


def exceeds(question: str) -> bool:
    """Whether it asks if, or by how much, one thing is more than another one that it names."""
    return any(re.search(pattern, question, flags=re.IGNORECASE) for pattern in _EXCEEDS)


def subjects_of(question: str) -> tuple[str, ...]:
    """The two, without their articles; () when the question names none, or one twice."""
    for pattern in _SUBJECTS:
        match = re.search(pattern, question, flags=re.IGNORECASE)
        if match:
            first, second = (_bare_subject(match[group]) for group in ("a", "b"))
            return (first, second) if first and second and first.lower() != second.lower() else ()
    return ()


def _bare_subject(text: str) -> str:
    """The name in `GAM architecture` is GAM, `plan A` keeps its letter; without a name all words but articles."""
    said = text.strip(" \"'").split()
    if said and is_letter(said[-1]):
        return " ".join([*(word for word in said[-2:-1] if word.lower() not in stop_words()), said[-1]])
    names = [word for word in said if word[:1].isupper() and word.lower() not in stop_words()]
    return " ".join(names or [word for word in said if word.lower() not in ("how", "the", "a", "an")])
