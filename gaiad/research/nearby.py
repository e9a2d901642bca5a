"""What bears on a request although it answers nothing: context for an agent, which reads for itself (JIT).

Pure. An answer of pages that hold only a name of the question would be made up; a briefing hands them over with their
low score, beside what stays open.
"""

from collections.abc import Collection, Sequence

from gaiad.research.evidence import Evidence, Term, union
from gaiad.research.words import content_words

# Cosine of request and page from which a page is near. Requests of nothing that was ever spoken of stay below .26 in
# talk about other things, paraphrases without a common word lie around .4.
NEAR = 0.36
MOST = 3
"""Pages that a request is given beside its answer, or instead of one."""
_WORDS = 2  # "Noted." bears on nothing, however near the talk it stands in


def near_request(evidence: Sequence[Evidence], names: Collection[str]) -> list[Evidence]:
    """At most `MOST` pages, best first, that are near in meaning or have one of the request's names (normalised)."""
    return [item for item in evidence if _is_near(item, names)][:MOST]


def completing(
    evidence: Sequence[Evidence], chosen: Collection[str], terms: Sequence[Term], names: Collection[str]
) -> list[Evidence]:
    """Near pages that have a word of the request better than any of the `chosen` (page ids), at most `MOST`."""
    had = union(item for item in evidence if item.page.page_id in chosen)
    lacking = [term.word for term in terms if had.get(term.word, 0.0) < 1.0]
    return [
        item
        for item in evidence
        if item.page.page_id not in chosen
        and _is_near(item, names)
        and any(item.credits.get(word, 0.0) > had.get(word, 0.0) for word in lacking)
    ][:MOST]


def _is_near(item: Evidence, names: Collection[str]) -> bool:
    near = item.cosine is not None and item.cosine >= NEAR
    bears = near or any(item.credits.get(name, 0.0) == 1.0 for name in names)
    return bears and len(content_words(item.page.text)) >= _WORDS
