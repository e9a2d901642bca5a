"""What a person says of packets on the wire: useful or not, at all or for a question."""

from typing import Literal

from gaiad.schemas import Input, Output

Verdict = Literal["useful", "not-useful"]


class Judged(Input, frozen=True):
    """Packets of which is asked what was said for one question; "" is what was said of the packets themselves."""

    query: str
    packet_ids: list[str]


class FeedbackRow(Output, frozen=True):
    """One verdict; `query` is what was asked when it was given, "" for the packet itself. `at` is UTC ISO 8601."""

    packet_id: str
    verdict: Verdict
    query: str
    at: str
