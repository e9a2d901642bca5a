"""What a person says of packets on the wire: useful or not, at all or for a question."""

from typing import Literal

from gaiad.schemas import Output

Verdict = Literal["useful", "not-useful"]


class FeedbackRow(Output, frozen=True):
    """One verdict; `query` is what was asked when it was given, "" for the packet itself. `at` is UTC ISO 8601."""

    packet_id: str
    verdict: Verdict
    query: str
    at: str
