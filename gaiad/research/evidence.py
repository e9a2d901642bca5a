"""What a found page says of the question: which of its terms it covers, how near it is in meaning, how relevant in all.

Pure: takes hits and the pages behind them. A term counts in full where it or a form of it (met, of meet) occurs in the
page, less in the page's topic, in a neighbouring page, or by a synonym.
"""

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

import msgspec

from gaiad.base.text import words_of
from gaiad.research.query import SearchParameters
from gaiad.research.sentences import split
from gaiad.research.words import (
    content_words,
    has_letter,
    is_letter,
    normalise,
    rarity,
    stem,
    stems,
)
from gaiad.wire.schemas import Hit, Page

_QUESTION_WORDS = """
what who whom whose when where why how which did do does is are was were can could should would will have has had
tell show find list give summarise summarize explain describe
"""
_ASKING = frozenset(_QUESTION_WORDS.split())
_ASKS_FOR = re.compile(r"(?:what|who|whom|whose|when|where|why|how|which)\b", re.IGNORECASE)
# "Can you remember that my dog is called Rex?" tells what it is about.
_TOLD = re.compile(r"\b(?:remember|note|forget|know) that (?:my|our|i|we|the|his|her|their)\b", re.IGNORECASE)
_COURTESY = re.compile(
    r"(?:(?:ok|okay|oh|ah|hey|hi|hello|well|good|great|perfect|nice|cool|super|yes|no|right|fine|so|and|many|very|thanks|"
    r"thank you|thx|cheers|please|morning|evening|afternoon|day|again|much|a lot|there|gaiad?)\b[\s,.!]*)+",
    re.IGNORECASE,
)
_ORDERS = re.compile(
    r"(?:(?:hey|hi|hello|ok|okay|so|and|now|then|well|thanks|gaiad?|just|also|(?:can|could|would|will) you|"
    r"i(?: would|['’]d)? (?:want|like|need) you to)\b[\s,:!.-]*)*(?:please\b|"
    r"(?:write|rewrite|compose|create|generate|give|show|tell|summari[sz]e|translate|explain|describe|find|suggest|"
    r"recommend|look up|search for|quote|cite|calculate|compute|convert|count|spell|sort|rephrase|correct|answer|"
    r"reply)\b|(?:draft|list|make|draw) (?:me|us|all|a|an|the|every|some|any)\b|"
    r"name (?:a|an|one|two|three|four|five|some|any)\b)",
    re.IGNORECASE,
)
# "Write a card for my sister Clara, who moved to Madrid" tells of Clara.
_TELLS_TOO = re.compile(
    r"\b(?:my|our|i|i['’]m|we|us|he|she|they|who|which|because|since|that (?:is|was|has|have|had)|whose|remember|note|"
    r"forget|remind)\b",
    re.IGNORECASE,
)
# What a sentence says that wants to know something, though it is no question: "I wonder what Joseph thought".
_WANTS = re.compile(
    r"\b(?:remind me|look up|recall|search|find out|wonder|(?:want|like|need) to (?:know|hear|see)|show me|tell me|"
    r"i (?:need|want) (?!to\b)|back to|(?:can(?:not|['’]?t)|do(?: not|n['’]?t)) (?:remember|recall|know|find)|"
    r"(?:remember|forgot|forget|know) (?:what|who|when|where|how|which|why|whether|if))\b",
    re.IGNORECASE,
)
# "Remember the gate code: 4711" tells, whatever it has of words.
_KEEPS = re.compile(r"(?:please )?(?:remember|note|don['’]?t forget|keep in mind)\b", re.IGNORECASE)
# Who speaks, of whom, and the commonest verbs: a search by words ("larkspur backup") has none of them.
_STATES = re.compile(
    r"\b(?:i|we|he|she|it|they|you|my|our|his|her|their|am|is|are|was|were|has|have|had|will|would|did|went|got)\b"
    r"|['’](?:m|s|re|ve|ll|d)\b",
    re.IGNORECASE,
)
_YOU_SAID = re.compile(
    r"\b(?:did|have|had) you\b|\byour (?:answer|reply|words|advice|suggestion|explanation)\b|"
    r"\byou(?:['’]ve| have| had)?(?: \w+)? (?:said|told|wrote|mentioned|suggested|promised|proposed|recommended)\b",
    re.IGNORECASE,
)
_TALK_WORDS = "ask question wonder talk discuss speak mention say said tell told chat conversation session"
_TALK = frozenset(stem(word) for word in _TALK_WORDS.split())
QUOTES_ONLY = "extractive"  # the name of the model without weights, as a turn's page has it
CHAT_TURN = "turn_"  # how the ids of turns begin that gaiad took itself


def only_quotes(page: Page) -> bool:
    """An answer of the model without weights: every word of it occurs in the pages it quotes."""
    return page.model == QUOTES_ONLY and page.speaker == "assistant"


def own_words(page: Page) -> bool:
    """What one of gaiad's models wrote in a chat: an answer, a verification, a thought for later."""
    return written_by_gaiad(page.packet_id, page.speaker)


def written_by_gaiad(packet_id: str, speaker: str) -> bool:
    """Whether a page of this packet and speaker is a model's own text in a chat."""
    return packet_id.startswith(CHAT_TURN) and speaker != "user"


def asks_of_gaiad(question: str) -> bool:
    """Whether it asks what gaiad itself said: only then are its models' own words an answer."""
    return _YOU_SAID.search(question) is not None


def asks_of_talk(question: str) -> bool:
    """Whether it asks what was talked about, or what gaiad said."""
    return asks_of_gaiad(question) or bool(_TALK & stems(without_order(question)))


def repeats_question(page: Page, question: str) -> bool:
    """What a user said before that tells nothing to this question: the same words, or a question about the same."""
    if page.speaker != "user":
        return False
    if not asks(page.text):
        in_chat = page.packet_id.startswith(CHAT_TURN)
        return (in_chat or asks(question)) and _bare(page.text) == _bare(question)
    said, asked = (frozenset(stem(word) for word in content_words(text)) for text in (page.text, question))
    if 2 * len(said & asked) < len(said):
        return False
    return bool(_ASKS_FOR.match(page.text)) or not _adds(page.text, said - asked)


def _adds(text: str, added: frozenset[str]) -> bool:
    """Whether a question tells something by the way ("Can you remember that my dog is called Rex?")."""
    inside = (word for word in re.findall(r"\w+", text)[1:] if word[0].isupper() or word[0].isdigit())
    return len(added) >= 2 or any(stem(normalise(word)) in added for word in inside)


def only_asked(page: Page, question: str) -> bool:
    """A person's own question or request to gaiad: it states nothing, unless what was talked about is asked for."""
    talked_of = _TALK & stems(without_order(question))
    if not page.packet_id.startswith(CHAT_TURN) or page.speaker != "user" or talked_of:
        return False
    said = [sentence.text.rstrip() for sentence in split(page.text)]
    telling = [text for text in said if not _COURTESY.fullmatch(text)] or said
    return not _TOLD.search(page.text) and all(text.endswith(("?", "？")) or _orders(text) for text in telling)


def only_tells(message: str) -> bool:
    """Whether a person tells something and wants nothing to know: "I started a new job last week." Not a search by
    words, for it states nothing.
    """
    said = [part for sentence in split(message) if not _COURTESY.fullmatch(part := sentence.text.strip())]
    kept = [_KEEPS.match(text) for text in said]
    wants = any(
        asks(text) or _WANTS.search(text) or (_ORDERS.match(text) and not keeps)
        for text, keeps in zip(said, kept, strict=True)
    )
    return bool(said) and not wants and (any(kept) or any(_STATES.search(text) for text in said))


def without_order(text: str) -> str:
    """What follows the order that a request begins with: "me slowly" of "tell me slowly"."""
    order = _ORDERS.match(text)
    return text[order.end() :] if order else text


def _orders(sentence: str) -> bool:
    """Whether it asks for something to be made or shown, and tells nothing by the way: "Please write a haiku"."""
    return bool(_ORDERS.match(sentence)) and not _TELLS_TOO.search(sentence)


def asks(text: str) -> bool:
    """Whether it is a question or reads like one."""
    first = text.split(maxsplit=1)[:1]
    return text.rstrip().endswith("?") or (bool(first) and normalise(first[0]) in _ASKING)


def _bare(text: str) -> str:
    return normalise(" ".join(text.split())).strip(" ?!.")


IN_HEADER, IN_NEIGHBOUR = 0.8, 0.6
# MiniLM cosines: unrelated text lies around .1, a paraphrase above .5; between these the semantic score is linear.
COSINE_FLOOR, COSINE_FULL = 0.15, 0.7
LEXICAL_SHARE, SEMANTIC_SHARE, RANK_SHARE = 0.45, 0.35, 0.2
THIN_SECTIONS = {"header": 0.7, "integrity": 0.4, "behavior": 0.6, "closure": 0.75, "instructions": 0.75}


class Term(msgspec.Struct, frozen=True, kw_only=True):
    """A keyword of the question. `frequency` counts the pages it occurs in."""

    word: str
    stem: str
    weight: float
    frequency: int

    @property
    def unknown(self) -> bool:
        """Stands nowhere in the archive."""
        return self.frequency == 0


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


def make_terms(parameters: SearchParameters, frequencies: Mapping[str, int], pages: int) -> list[Term]:
    """The question's keywords with their weights (rare ones weigh more); `frequencies` counts the pages of each."""
    counted = {word: frequencies.get(word, 0) for word in parameters.keywords}
    weights = rarity(counted, pages)
    terms: dict[str, Term] = {}
    for word, count in counted.items():
        terms.setdefault(stem(word), Term(word=word, stem=stem(word), weight=weights[word], frequency=count))
    return list(terms.values())


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
    worth = THIN_SECTIONS.get(page.section, 1.0)
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
    if not all(term.stem in own for term in terms):
        own |= _stems_of_names(page.text)
    header = stems(f"{page.topic} {page.speaker} {page.model}")
    around = frozenset().union(*(stems(other.text) for other in near))
    return {term.word: _credit(term, own, header, around) for term in terms}


@functools.lru_cache(maxsize=4096)
def _stems_of_names(text: str) -> frozenset[str]:
    """The stems of a text whose field names are split into words."""
    return stems(words_of(text))


def _credit(term: Term, own: AbstractSet[str], header: AbstractSet[str], around: AbstractSet[str]) -> float:
    if term.stem in own:
        return 1.0
    return IN_HEADER if term.stem in header else IN_NEIGHBOUR if term.stem in around else 0.0


def sentence_credit(text: str, speaker: str, terms: Sequence[Term]) -> float:
    """The weighted share of the terms that one sentence covers, its speaker counted."""
    own = stems(text) | stems(speaker)
    return weighted({term.word: float(term.stem in own) for term in terms}, terms)


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
    """Whether `text` names the thing compared."""
    *_, last = subject.split()
    if is_letter(last) and not has_letter(text, last):
        return False
    words = content_words(subject) or [normalise(subject)]
    return {stem(word) for word in words} <= stems(text)


def names_subject(evidence: Evidence, subject: str) -> bool:
    """Whether the page speaks of (or comes from) the thing compared."""
    page = evidence.page
    return speaks_of(f"{page.text} {page.speaker} {page.model} {page.topic}", subject)
