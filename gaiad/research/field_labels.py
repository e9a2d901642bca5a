"""Names of fields in the text of a page: "torsion_analysis/coherence_assessment: Short and direct session."

Pure. A page made of a packet's fields has them at the beginning of its lines; a quote leaves them out where what they
name speaks for itself.
"""

import re

_FIELD = r"[a-z][\w.-]*(?:/[\w.-]+)*(?: \([^)\n]*\))?"
_LABEL = re.compile(rf"{_FIELD}:\s+")
_ALONE = re.compile(r"[a-z][\w.-]*(?:/[\w.-]+)*(?: \([^)\n]*\))")
_BARE = re.compile(rf"\s*\n\s*{_FIELD}:?\s*$")
LEAST_WORDS = 4
"""Words that say something without the name of their field; "0.25" does not."""


def labelled(text: str) -> bool:
    """Whether it begins with the name of a field."""
    return _LABEL.match(text) is not None


def only_field(text: str) -> bool:
    """Whether it is the name of a field, with a value that says nothing without it or with none."""
    return labelled(text) or _ALONE.fullmatch(text) is not None


def value_of(text: str) -> tuple[int, int]:
    """Where what the field says begins and ends in `text`: all of it when there is no field, or too little after it."""
    match = _LABEL.match(text)
    start = match.end() if match else 0
    bare = _BARE.search(text, start)
    end = bare.start() if bare else len(text)
    return (start, end) if len(text[start:end].split()) >= LEAST_WORDS else (0, len(text))
