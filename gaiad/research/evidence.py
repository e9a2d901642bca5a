"""What a found page says of the question: which of its terms it covers, how near it is in meaning, how relevant in all.

Pure: takes hits and the pages behind them. A term counts in full where it or a form of it (met, of meet) stands in the
page, less in the page's topic, in a neighbouring page, or by a synonym.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

import msgspec

from gaiad.research.cue_words import WEIGHT, all_denied, cues, deciding, deciding_stems, own_forms
from gaiad.research.echoes import own_words
from gaiad.research.query import SearchParameters
from gaiad.research.words import (
    content_words,
    expand_initials,
    forms,
    has_letter,
    is_letter,
    normalise,
    rarity,
    stem,
    stems,
    synonyms,
)
from gaiad.schemas import Hit, Page

DENIED = 0.3  # of a word of deciding where the page says "we did not agree"
IN_HEADER, IN_NEIGHBOUR, BY_SYNONYM = 0.8, 0.6, 0.6
# MiniLM cosines: unrelated text lies around .1, a paraphrase above .5; between these the semantic score is linear.
COSINE_FLOOR, COSINE_FULL = 0.15, 0.7
LEXICAL_SHARE, SEMANTIC_SHARE, RANK_SHARE = 0.45, 0.35, 0.2
# What a model wrote in a chat with gaiad ranks below packets and what people said: it may have been made up.
OWN_WORDS = 0.8
_THIN_SECTIONS = {"header": 0.7, "integrity": 0.4, "behavior": 0.6, "closure": 0.75, "instructions": 0.75}


class Term(msgspec.Struct, frozen=True, kw_only=True):
    """A keyword of the question. `frequency` counts the pages it (or, with none, its best alternative) stands in;
    `forms` are the stems of its irregular forms, which are the same word, and of all cues where it is a `cue`."""

    word: str
    stem: str
    weight: float
    frequency: int
    forms: frozenset[str] = frozenset()
    synonyms: frozenset[str] = frozenset()
    meaning: frozenset[str] = frozenset()
    cue: bool = False

    @property
    def unknown(self) -> bool:
        """Stands nowhere in the archive, neither as it is nor spelled out nor by a synonym."""
        return self.frequency == 0

    def said_in(self, text: AbstractSet[str]) -> bool:
        """Whether it stands among these stems, in any form."""
        return self.stem in text or not self.forms.isdisjoint(text)


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """A page held against the question. `credits` is what each term earned here, 0 to 1; `cosine` is None when the
    dense retriever did not see the page; `relevance` is 0 to 1 and comparable between searches. `standing`, half of it
    the archive's own ranking, puts packets in order: it knows a page's neighbours and session, and is of one search."""

    page: Page
    credits: dict[str, float]
    lexical: float
    cosine: float | None
    fused: float
    relevance: float
    standing: float
    neighbours: tuple[Page, ...] = ()

    @property
    def semantic(self) -> float:
        return semantic_score(self.cosine)


def semantic_score(cosine: float | None) -> float:
    """A cosine on the scale of 0 (unrelated) to 1 (says the same)."""
    if cosine is None:
        return 0.0
    return min(1.0, max(0.0, (cosine - COSINE_FLOOR) / (COSINE_FULL - COSINE_FLOOR)))


def lookup_words(parameters: SearchParameters) -> list[str]:
    """Every word whose frequency `make_terms` wants: keywords, their forms and synonyms, what initials stand for."""
    words = [*parameters.keywords]
    for keyword in parameters.keywords:
        words += [*forms(keyword), *synonyms(keyword), *_meaning(keyword)]
    words += deciding() if _cues(parameters) else ()
    return list(dict.fromkeys(words))


def make_terms(parameters: SearchParameters, frequencies: Mapping[str, int], pages: int) -> list[Term]:
    """The question's keywords with their weights (rare ones weigh more) and alternatives."""
    cued = _cues(parameters)
    effective = {
        word: sum(frequencies.get(one, 0) for one in deciding()) if word in cued else _frequency(word, frequencies)
        for word in parameters.keywords
    }
    weights = rarity(effective, pages)
    by_forms: dict[frozenset[str], Term] = {}
    for word in parameters.keywords:
        by_forms.setdefault(
            deciding_stems() if word in cued else frozenset({stem(word), *_stems_of(forms(word))}),
            Term(
                word=word,
                stem=stem(word),
                weight=weights[word] * (WEIGHT if word in cued else 1.0),
                frequency=effective[word],
                forms=deciding_stems() if word in cued else _stems_of(forms(word)) | own_forms(word),
                synonyms=_stems_of(synonyms(word)),
                meaning=_stems_of(_meaning(word)),
                cue=word in cued,
            ),
        )
    return list(by_forms.values())


def _cues(parameters: SearchParameters) -> frozenset[str]:
    named = (*parameters.names, *parameters.people, *parameters.models, *parameters.model_words)
    return cues(parameters.keywords, named)


def _stems_of(words: Iterable[str]) -> frozenset[str]:
    return frozenset(stem(word) for word in words)


def _meaning(word: str) -> list[str]:
    return [part for meaning in expand_initials(word) for part in content_words(meaning)]


def _frequency(word: str, frequencies: Mapping[str, int]) -> int:
    count = frequencies.get(word, 0) + sum(frequencies.get(form, 0) for form in forms(word))
    if count:
        return count
    spelled = min((frequencies.get(part, 0) for part in _meaning(word)), default=0)
    if spelled:
        return spelled
    return max((frequencies.get(other, 0) for other in synonyms(word)), default=0)


def weigh(
    hits: Sequence[Hit], pages: Mapping[str, Page], neighbours: Mapping[str, Sequence[str]], terms: Sequence[Term]
) -> list[Evidence]:
    """Hits as evidence, most relevant first. `pages` holds hit pages and neighbours by id."""
    best = max((hit.score for hit in hits), default=0.0)
    has_dense = any(hit.explanation and "dense" in hit.explanation.retrievers for hit in hits)
    found = []
    for hit in hits:
        near = [pages[page_id] for page_id in neighbours.get(hit.page_id, ()) if page_id in pages]
        fused = hit.score / best if best > 0 else 0.0
        found.append(_weigh_one(hit, pages[hit.page_id], near, terms, fused, has_dense))
    return sorted(found, key=lambda evidence: -evidence.relevance)


def _weigh_one(
    hit: Hit, page: Page, near: Sequence[Page], terms: Sequence[Term], fused: float, has_dense: bool
) -> Evidence:
    earned = credits_of(page, near, terms)
    lexical = weighted(earned, terms)
    scores = hit.explanation.retrievers if hit.explanation else {}
    cosine = scores["dense"].score if "dense" in scores else None
    if has_dense:
        relevance = LEXICAL_SHARE * lexical + SEMANTIC_SHARE * semantic_score(cosine) + RANK_SHARE * fused
    else:
        relevance = (1 - RANK_SHARE) * lexical + RANK_SHARE * fused
    worth = _THIN_SECTIONS.get(page.section, 1.0) * (OWN_WORDS if own_words(page) else 1.0)
    return Evidence(
        page=page,
        credits=earned,
        lexical=lexical,
        cosine=cosine,
        fused=fused,
        relevance=relevance * worth,
        standing=0.5 * (relevance + fused) * worth,
        neighbours=tuple(near),
    )


def credits_of(page: Page, near: Iterable[Page], terms: Sequence[Term]) -> dict[str, float]:
    """What each term earns in this page."""
    own = stems(page.text)
    header = stems(f"{page.topic} {page.speaker} {page.model}")
    around = frozenset().union(*(stems(other.text) for other in near))
    return {
        term.word: _credit(term, own, header, around)
        * (DENIED if term.stem in deciding_stems() and all_denied(page.text, term.forms | {term.stem}) else 1.0)
        for term in terms
    }


def _credit(term: Term, own: AbstractSet[str], header: AbstractSet[str], around: AbstractSet[str]) -> float:
    options = (
        1.0 if _stands(term, own) else 0.0,
        IN_HEADER if _stands(term, header) else 0.0,
        IN_NEIGHBOUR if _stands(term, around) else 0.0,
        BY_SYNONYM if term.synonyms & own else 0.0,
        BY_SYNONYM * IN_NEIGHBOUR if term.synonyms & around else 0.0,
    )
    return max(options)


def _stands(term: Term, text: AbstractSet[str]) -> bool:
    return term.said_in(text) or (bool(term.meaning) and term.meaning <= text)


def sentence_credit(text: str, speaker: str, terms: Sequence[Term]) -> float:
    """The weighted share of the terms that one sentence covers, its speaker counted."""
    own = stems(text)
    said_by = stems(speaker)
    earned = {
        term.word: 1.0 if _stands(term, own) or term.said_in(said_by) else BY_SYNONYM if term.synonyms & own else 0.0
        for term in terms
    }
    return weighted(earned, terms)


def weighted(earned: Mapping[str, float], terms: Sequence[Term]) -> float:
    """The share of the terms' weight that was earned, 0 to 1."""
    total = sum(term.weight for term in terms)
    return sum(term.weight * earned.get(term.word, 0.0) for term in terms) / total if total else 0.0


def union(evidence: Iterable[Evidence]) -> dict[str, float]:
    """The best credit of each term over several pages."""
    best: dict[str, float] = {}
    for item in evidence:
        for word, credit in item.credits.items():
            best[word] = max(best.get(word, 0.0), credit)
    return best


def speaks_of(text: str, subject: str) -> bool:
    """Whether `text` names the thing compared, by its words or by what its initials stand for."""
    *_, last = subject.split()
    if is_letter(last) and not has_letter(text, last):
        return False
    standing = stems(text)
    words = content_words(subject) or [normalise(subject)]
    if {stem(word) for word in words} <= standing:
        return True
    meanings = [{stem(part) for part in _meaning(word)} or {stem(word)} for word in words]
    return all(meaning <= standing for meaning in meanings)


def names_subject(evidence: Evidence, subject: str) -> bool:
    """Whether the page speaks of (or comes from) the thing compared."""
    page = evidence.page
    return speaks_of(f"{page.text} {page.speaker} {page.model} {page.topic}", subject)
