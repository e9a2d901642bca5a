"""Citations that prove themselves: a quote is the stored page's text from `start` to `end`, its SHA-256 beside it.

Before an answer leaves, each citation is held against the page as the archive gives it now (ARCHITECTURE decision 22).
"""

import hashlib
import re
from collections.abc import Mapping, Sequence

from gaiad.ports import Archive, Call
from gaiad.schemas import Citation, Page

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_INLINE = re.compile(r"\[\s*packet\s*:", re.IGNORECASE)
_NO_BRACKETS = str.maketrans("[]", "()")  # an id with brackets could pass for two citations


def cite(page: Page, start: int, end: int) -> Citation:
    """A citation of `page.text[start:end]`; offsets are characters."""
    quote = page.text[start:end]
    return Citation(
        packet_id=page.packet_id,
        page_id=page.page_id,
        start=start,
        end=end,
        sha256=hashlib.sha256(quote.encode()).hexdigest(),
        quote=quote,
        timestamp=page.timestamp,
        topic=page.topic,
        classification=page.classification,
        policy_tags=page.policy_tags,
    )


def verifies(citation: Citation, pages: Mapping[str, Page]) -> bool:
    """Whether the stored page still says exactly this, in the packet it is cited from."""
    page = pages.get(citation.page_id)
    if page is None or page.packet_id != citation.packet_id or not citation.quote:
        return False
    stored = page.text[citation.start : citation.end]
    return stored == citation.quote and hashlib.sha256(stored.encode()).hexdigest() == citation.sha256


async def confirmed(archive: Archive, citations: Sequence[Citation], call: Call) -> list[Citation]:
    """The citations that the archive still confirms, read afresh (decision 22)."""
    page_ids = list(dict.fromkeys(citation.page_id for citation in citations))
    stored = {page.page_id: page for page in await archive.pages(page_ids, call)} if page_ids else {}
    return [citation for citation in citations if verifies(citation, stored)]


def inline(packet_id: str) -> str:
    """The mark GAM puts behind what a packet says."""
    return f"[Packet: {packet_id.translate(_NO_BRACKETS)}]"


def shown(text: str) -> str:
    """Stored text as it may stand in an answer: one line, no control characters, nothing that passes for a citation."""
    return _INLINE.sub("(Packet:", _CONTROL.sub("", " ".join(text.split())))
