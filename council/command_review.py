"""A command's identity and the word of who reviews it (decision 13). Pure.

Arguments are bound by a SHA-256 that anyone can compute. A review that leaves a doubt is a reject.
"""

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Annotated, Literal

import msgspec

from council.forms import fitted_schema
from council.marked_text import read_marked, without_fence
from council.observer_rules import without_secrets
from council.stages import Form
from gaiad.errors import BadInput

REASON_CHARACTERS = 300
_CUT_REVIEW = re.compile(
    r'(\{\s*"verdict"\s*:\s*"(?:accept|reject)"\s*,\s*"reason"\s*:\s*"(?:[^"\\]|\\.){8,300})\\?', re.DOTALL
)


class CommandReview(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the reviewing role writes (JSON) of a command: whether it may be voted on, and what it does."""

    verdict: Literal["accept", "reject"]
    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=REASON_CHARACTERS)]


def review_form(max_tokens: int) -> Form:
    """What a review of at most `max_tokens` is held to."""
    return Form(schema=fitted_schema(CommandReview, max_tokens))


def argv_sha256(argv: Sequence[str]) -> str:
    """SHA-256 of the exact arguments, each with a zero byte behind it: `printf '%s\\0' ARGUMENTS... | sha256sum`.

    Raises BadInput for arguments that no process can be given.
    """
    if not argv or not argv[0]:
        raise BadInput("a command without a program; give its name as the first argument")
    if any("\0" in part for part in argv):
        raise BadInput(f"command {argv[0]!r}: an argument holds a zero byte; leave it out")
    try:
        return sha256(b"".join(part.encode() + b"\0" for part in argv)).hexdigest()
    except UnicodeEncodeError as error:
        raise BadInput(f"command {argv[0]!r}: an argument is no text ({error.reason}); write it in Unicode") from error


def read_review(text: str) -> CommandReview:
    """A reply under the review's schema, also when it was cut within its reason. All else is a reject: doubt is one.

    A reason that shows a secret is withheld.
    """
    found = _read(text)
    return msgspec.structs.replace(found, reason=without_secrets(found.reason))


def _read(text: str) -> CommandReview:
    marked = read_marked(text.encode("utf-8", "replace").decode(), "REVIEW")
    body = without_fence("\n".join(block.body for block in marked.blocks))
    try:
        return msgspec.json.decode(body, type=CommandReview)
    except msgspec.DecodeError:
        if (cut := _CUT_REVIEW.fullmatch(body)) and (whole := _whole(f'{cut[1]}"}}')):
            return whole
        return CommandReview(verdict="reject", reason="its review cannot be read")


def _whole(body: str) -> CommandReview | None:
    try:
        return msgspec.json.decode(body, type=CommandReview)
    except msgspec.DecodeError:
        return None
