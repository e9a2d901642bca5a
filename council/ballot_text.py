"""A ballot read from what a role wrote, also when no grammar held its model to the form (GCP 8.3). Pure.

Nothing is guessed: JSON that is cut or too long gives what is whole in it, plain text counts only when it begins with
the vote and names no other one on that line. What gives no confidence counts as sure of nothing.
"""

import re
from typing import cast

import msgspec

from council.ballots import REASON_CHARACTERS, BallotForm, read_ballot
from council.marked_text import read_marked, without_fence
from council.observer_rules import without_secrets
from council.quorum import Vote
from gaiad.errors import BadInput

_CUT_VOTE = re.compile(r'"vote"\s*:\s*"(yes|no|abstain)"', re.IGNORECASE)
_CUT_CONFIDENCE = re.compile(r'"confidence"\s*:\s*([01](?:\.\d{1,8})?)\b')
_CUT_REASON = re.compile(r'"reason"\s*:\s*"((?:[^"\\]|\\.)*)')
_PLAIN_VOTE = re.compile(
    r"\W{0,4}(?:vote\W{1,4})?(yes|no|abstain)\b\W{0,3}(?=[.,:;!\n(\u2013\u2014-]|\Z)", re.IGNORECASE
)
_VOTE_LINE = re.compile(r"^\W{0,4}vote\W", re.IGNORECASE | re.MULTILINE)
_ANY_VOTE = re.compile(r"\b(yes|no|abstain)\b", re.IGNORECASE)
_PLAIN_CONFIDENCE = re.compile(r"\bconfidence\W{1,4}([01](?:\.\d{1,8})?)(?!\d|\.\d|\s?%)", re.IGNORECASE)
_NO_REASON = "no reason was given"


def read_ballot_text(text: str) -> BallotForm:
    """The ballot in a reply, its reason withheld if it shows a secret. Raises BadInput when there is none, or more than
    one vote.
    """
    found = _read(text)
    return msgspec.structs.replace(found, reason=without_secrets(found.reason))


def _read(text: str) -> BallotForm:
    marked = read_marked(text.encode("utf-8", "replace").decode(), "VOTE")
    own = marked.bodies("VOTE")
    if len(own) > 1:
        raise BadInput(f"{len(own)} ballots in one reply; a role votes once")
    body = without_fence("\n".join(own or [block.body for block in marked.blocks]))
    try:
        return read_ballot(body)
    except BadInput as error:
        found = _cut(body) if "{" in body else _plain(body)
        if found is None:
            raise error
        return found


def _cut(body: str) -> BallotForm | None:
    votes = {found[1].lower() for found in _CUT_VOTE.finditer(body)}
    if len(votes) != 1:
        return None
    reason = _CUT_REASON.search(body)
    return _form(votes.pop(), _CUT_CONFIDENCE.search(body), _string(reason[1]) if reason else "")


def _plain(body: str) -> BallotForm | None:
    found = _PLAIN_VOTE.match(body)
    if found is None or len(_VOTE_LINE.findall(body)) > 1:
        return None
    line = body.split("\n", 1)[0]
    if {other.lower() for other in _ANY_VOTE.findall(line)} - {found[1].lower()}:
        return None
    return _form(found[1].lower(), _PLAIN_CONFIDENCE.search(body), body[found.end() :].strip(" \n.,:;!-\u2013\u2014*_"))


def _form(vote: str, confidence: re.Match[str] | None, reason: str) -> BallotForm:
    """The struct; a share above 1 is none."""
    share = float(confidence[1]) if confidence else 0.0
    said = reason.strip()[:REASON_CHARACTERS] or _NO_REASON
    return BallotForm(vote=cast(Vote, vote), confidence=share if share <= 1 else 0.0, reason=said)


def _string(inside: str) -> str:
    try:
        return str(msgspec.json.decode(f'"{inside}"'))
    except msgspec.DecodeError:
        return ""
