"""What a conversation repeats, and is no evidence: a question asked before, an answer that only quotes, a request.

Pure. A page of a conversation, held against the question.
"""

import re

from gaiad.research.sentences import split
from gaiad.research.words import content_words, normalise, stem, stems
from gaiad.schemas import Page

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
    r"recommend|look up|search for)\b|(?:draft|list|make|draw) (?:me|us|all|a|an|the|every|some|any)\b)",
    re.IGNORECASE,
)
# "Write a card for my sister Clara, who moved to Madrid" tells of Clara.
_TELLS_TOO = re.compile(
    r"\b(?:my|our|i|i['’]m|we|us|he|she|they|who|which|because|since|that (?:is|was|has|have|had)|whose|remember|note|"
    r"forget|remind)\b",
    re.IGNORECASE,
)
_TALK_WORDS = "ask question wonder talk discuss speak mention say said tell told chat conversation session"
_TALK = frozenset(stem(word) for word in _TALK_WORDS.split())
QUOTES_ONLY = "extractive"  # the name of the model without weights, as a turn's page has it
CHAT_TURN = "turn_"  # how the ids of turns begin that gaiad took itself


def only_quotes(page: Page) -> bool:
    """An answer of the model without weights: every word of it stands in the pages it quotes."""
    return page.model == QUOTES_ONLY and page.speaker == "assistant"


def own_words(page: Page) -> bool:
    """What one of gaiad's models wrote in a chat: an answer, a verification, a thought for later."""
    return page.packet_id.startswith(CHAT_TURN) and page.speaker != "user"


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
    if not page.packet_id.startswith(CHAT_TURN) or page.speaker != "user" or _TALK & stems(question):
        return False
    said = [sentence.text.rstrip() for sentence in split(page.text)]
    telling = [text for text in said if not _COURTESY.fullmatch(text)] or said
    return not _TOLD.search(page.text) and all(text.endswith(("?", "？")) or _orders(text) for text in telling)


def _orders(sentence: str) -> bool:
    """Whether it asks for something to be made or shown, and tells nothing by the way: "Please write a haiku"."""
    return bool(_ORDERS.match(sentence)) and not _TELLS_TOO.search(sentence)


def asks(text: str) -> bool:
    """Whether it is a question or reads like one."""
    first = text.split(maxsplit=1)[:1]
    return text.rstrip().endswith("?") or (bool(first) and normalise(first[0]) in _ASKING)


def _bare(text: str) -> str:
    return normalise(" ".join(text.split())).strip(" ?!.")
