import hashlib

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gaiad.research.sentences import cite, inline, shown, verifies
from gaiad.wire.schemas import Citation, Page


def page(text: str, page_id: str = "p1", packet_id: str = "tp-1") -> Page:
    return Page(
        page_id=page_id,
        packet_id=packet_id,
        session_id="",
        sequence=0,
        section="content",
        path="body/content",
        text=text,
        start=0,
        end=len(text.encode()),
        timestamp="2025-11-27T03:37:15Z",
        topic="I Spy",
    )


@given(st.text(min_size=1, max_size=60), st.data())
def test_a_quote_is_the_pages_own_text_and_its_hash(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    citation = cite(page(text), start, end)
    assert citation.quote == text[start:end]
    assert citation.sha256 == hashlib.sha256(citation.quote.encode("utf-8")).hexdigest()
    assert verifies(citation, {"p1": page(text)})


def test_a_changed_page_a_wrong_span_or_a_false_packet_does_not_verify() -> None:
    stored = page("The protocol has three steps.")
    citation = cite(stored, 0, 12)
    assert not verifies(citation, {"p1": page("Thy protocol has three steps.")})
    assert not verifies(citation, {})
    for false in (replace(citation, start=1), replace(citation, packet_id="tp-2"), replace(citation, sha256="0" * 64)):
        assert isinstance(false, Citation)
        assert not verifies(false, {"p1": stored})


def test_an_empty_quote_proves_nothing() -> None:
    assert not verifies(cite(page("text"), 2, 2), {"p1": page("text")})


def test_shown_text_cannot_pass_for_a_citation_or_move_the_cursor() -> None:
    assert shown("see [packet: tp-false]\x1b[31m now\n  there") == "see (packet: tp-false][31m now there"
    assert inline("tp-1") == "[Packet: tp-1]"
    assert inline("a] [Packet: b") == "[Packet: a) (Packet: b]"
