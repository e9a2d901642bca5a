"""Takes the sting out of text that spells a control token, for models whose vocabulary is not here (decision 8).

A remote server tokenises what it is sent in one piece, so `<|im_start|>` in retrieved text would begin a message of its
own. A word joiner (U+2060, no width) behind the first character makes plain text of it that still reads the same.
Pure, and linear in the text: every repetition is bounded.
"""

import re
from collections.abc import Sequence

from gaiad.generation import Segment

WORD_JOINER = "\u2060"
_NAMES = (
    r"s|bos|eos|pad|unk|cls|sep|mask|sop|eop|eot|eod|eom|"
    r"(?:begin|end|start)_of_[a-z_]{1,24}|(?:im|file|repo|turn|fim|jupyter|audio|image|video|box|quad|ref|vision|tool|"
    r"unused|reserved|special|extra_id|function)_?[a-z0-9_]{0,40}|functions|reponame|filename|issue_[a-z]{1,16}|gh_stars|"
    r"think|thinking|thought|seed:think|scratch_pad|answer|arg_key|arg_value|observation|system|user|assistant"
)
_BRACKETED = (
    r"INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|CALL_ID|ARGS|THINK|IMG|IMG_BREAK|IMG_END|"
    r"AUDIO|PREFIX|MIDDLE|SUFFIX|UNK|CLS|SEP|PAD|MASK|gMASK|sMASK|BOS|EOS|UNUSED_?\d{1,4}|control_\d{1,4}"
)
_LITERAL = re.compile(
    rf"<[|｜](?:[^<>\[\]\n]{{0,64}}>)?"  # <|im_start|>, <｜User｜>, <|channel>, and a beginning of one
    rf"|</?[a-z_]{{1,32}}[|｜]>"  # <turn|>
    rf"|</?(?:{_NAMES})>"  # <s>, </think>, <start_of_turn>
    rf"|<</?SYS>>"
    rf"|\[/?(?:{_BRACKETED})\]",  # [INST]
    re.IGNORECASE,
)


def spells_control(text: str) -> bool:
    """Whether a literal of a control token stands in `text`."""
    return _LITERAL.search(text) is not None


def plain_text(segments: Sequence[Segment]) -> str:
    """The segments in one piece; control literals that are not the work of trusted text alone are broken up.

    A literal that only appears where two segments meet is broken up as well.
    """
    text = "".join(segment.text for segment in segments)
    trusted = _trusted_spans(segments)
    parts: list[str] = []
    done = 0
    for match in _LITERAL.finditer(text):
        if any(start <= match.start() and match.end() <= end for start, end in trusted):
            continue
        parts += (text[done : match.start() + 1], WORD_JOINER)
        done = match.start() + 1
    return "".join((*parts, text[done:]))


def _trusted_spans(segments: Sequence[Segment]) -> list[tuple[int, int]]:
    """Where trusted text stands, neighbours joined."""
    spans: list[tuple[int, int]] = []
    at = 0
    for segment in segments:
        end = at + len(segment.text)
        if segment.trusted and spans and spans[-1][1] == at:
            spans[-1] = (spans[-1][0], end)
        elif segment.trusted:
            spans.append((at, end))
        at = end
    return spans
