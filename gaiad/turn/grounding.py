"""Holds an answer, sentence by sentence, against the pages in its context before a person sees it (decision 22).

A sentence that a page carries gets that page's citation; one that cites a page which does not carry it is cut. Where
the question is about what the pages tell (`strict`), a sentence that no page carries is cut too. Pure.
"""

import re
from collections.abc import Sequence
from datetime import tzinfo

from gaiad.research.evidence import asks_of_talk, without_order
from gaiad.research.familiar import NAME, bare_name
from gaiad.research.sentences import inline, split
from gaiad.research.thinking.support import Passage, foreign_number, unsupported
from gaiad.research.words import content_words, stem, stems, stop_words
from gaiad.wire.schemas import Page
from prompts.packet import CognitionPacket, ContextItem

_CITED = re.compile(r"\s?\[Packet:\s*([^\[\]\n]+?)\s*\]")
_FIRST = re.compile(r"^\W*([^\W\d_a-z][\w'’-]+)")
_PASSIVE = re.compile(r"\b(?:was|were|is|are|been|being)\s+(?:\w+ly\s+)?\w+(?:ed|en|ld|nt|ught|de|ne|wn)\b")
_BY = re.compile(r"\bby\s+(?:the\s+)?([^\W\d_a-z][\w'’-]+)")
_NOT = re.compile(r"(?:\b(?:not|never|no)\b|n['’]t\b)([^.,;:!?]*)", re.IGNORECASE)
_UNKNOWN = re.compile(
    r"(?:\bnot|n['’]t|\bno|\bnothing|\bunable|\bunknown)\b.*\b(?:know|known|mention|say|tell|told|state|specif|provide|give|"
    r"information|detail|find|found|sure|record|memory|notes?)|\b(?:unknown|unclear)\b",
    re.IGNORECASE,
)
_TO_US = re.compile(r"\b(?:you|your|yours|yourself)\b", re.IGNORECASE)
_AMOUNT = r"\d+(?:[.,]\d+)*"
_CURRENCY = r"(?:[$€£¥]|(?:euros?|dollars?|pounds?|cents?|francs?|EUR|USD|GBP|CHF)\b)"
_KINDS = (
    re.compile(rf"(?:[$€£¥]\s?)({_AMOUNT})|({_AMOUNT})\s?{_CURRENCY}"),
    re.compile(rf"({_AMOUNT})\s?(?:%|per ?cent\b)"),
)
_IDENTITY = re.compile(r"\b(?:is|are|was|were)\s+([^\W\d_a-z][\w'’-]+)\W*$")
_PLACE = r"\b(?:in|at|near|from)\s+"
_OWNER = re.compile(r"\b([\w-]+)['’]s\b")
_LIST_MARK = re.compile(r"^\s*\d{1,3}[.)](?:\s|$)")
_SHORTEST, _FEWEST_TAKEN = 2, 2
_BARE = 2  # words of an answer that is not a sentence
_MISSING_SHARE, _ASKED_SHARE = 0.3, 0.5


class Grounding:
    """Feed the answer's text, show what comes back; `finish` gives the rest.

    `cut` has the sentences that were left out, `cited` the packets that carry the others, `carried` counts those. What
    the person said in this session and what gaiad wrote in others carries a sentence too, without a citation; so does
    what gaiad said in this session where the talk itself is asked about. Where only that is in question, a sentence is
    shown while it is written and has only words of the person; if it is cut then, `dangling` is set, and `text`, all
    that may be shown, is to take the place of what was.
    """

    def __init__(
        self,
        packet: CognitionPacket,
        zone: tzinfo,
        *,
        strict: bool,
        found: bool = True,
        unproven: bool = False,
        by_name: Sequence[ContextItem] = (),
    ) -> None:
        """`found` says that the pages were found to answer; others have to have most of what the question names.

        `unproven` is set where the model has not shown that it answers from pages and the question is about them: then
        a sentence with a number or a name that is neither there nor in the conversation is cut. `by_name` are pages
        outside the packet that only name what is asked about: a name may be common knowledge where it is known by one.
        """
        self._pages = [_passage(item) for item in packet.context if not (item.summary or item.own)]
        self._said = [_passage(item) for item in packet.context if item.own and not item.summary]
        self._said += [
            _passage(ContextItem(packet_id="", page_id="", text=entry.text))
            for entry in packet.history
            if (entry.role == "user" or asks_of_talk(packet.user_prompt)) and not entry.summary
        ]
        self._checks = strict or unproven or bool(packet.context)
        self._question = packet.user_prompt
        self._zone = zone
        self.strict = strict
        self._unproven = unproven
        self._names_too = not by_name or not NAME.search(self._question)
        pages = [f"{item.text} {item.topic} {item.timestamp}" for item in (*packet.context, *by_name)]
        self._known = " ".join([*pages, *(entry.text for entry in packet.history), self._question])
        self._found = found
        self._held = ""
        self._early = 0  # characters of `_held` that were shown
        self._heard = {stem(word) for said in self._said for word in content_words(said.text)}
        self._heard |= {stem(word) for word in content_words(self._question)}
        self.text = ""
        self.dangling = False
        self.cut: list[str] = []
        self.cited: list[str] = []
        self.invented = ""  # of `cut`, what has a number or a name from nowhere
        self.carried = 0
        self.from_history = False

    def feed(self, text: str) -> str:
        """The sentences that are whole by now, checked."""
        if not self._checks:
            return text
        self._held += text
        whole = split(self._held)[:-1]
        return (self._checked(whole[-1].end) if whole else "") + self._begun()

    def finish(self) -> str:
        """The rest: no more text comes."""
        return self._checked(len(self._held))

    def _begun(self) -> str:
        """What is new of a sentence that is not whole."""
        told = self._said and not self._pages and "[" not in self._held
        end = self._held.rfind(" ") if told else 0
        if end <= self._early or not {stem(word) for word in content_words(self._held[:end])} <= self._heard:
            return ""
        new, self._early = self._held[self._early : end], end
        return new

    def _checked(self, end: int) -> str:
        text, self._held = self._held[:end], self._held[end:]
        early, self._early = text[: self._early], 0
        checked = self._sentences(text)
        self.text += checked
        if early and not checked.startswith(early):
            self.dangling = True
            return checked
        return checked[len(early) :]

    def _sentences(self, text: str) -> str:
        shown, place = "", 0
        for sentence in split(text):
            kept = self._sentence(sentence.text)
            shown += text[place : sentence.start] + kept if kept else ""
            place = sentence.end
        return shown + text[place:]

    def _sentence(self, sentence: str) -> str:
        named = _CITED.findall(sentence)
        plain = _CITED.sub("", sentence)
        if not self._claims(plain):
            return plain
        pages = [page for page in self._pages if not named or page.page.packet_id in named] or self._pages
        found = next((page for page in [*pages, *self._pages] if self._carries(page, plain)), None)
        if found is None:
            if not named and any(self._carries(said, plain) for said in self._said):
                self.carried += 1
                self.from_history = True
                return plain
            invented = self._unproven and self._invents(plain)
            self.invented += plain if invented else ""
            if named or self.strict or invented:
                self.cut.append(plain.strip())
                return ""
            return plain
        packet_id = found.page.packet_id
        self.carried += 1
        self.cited += [packet_id] if packet_id not in self.cited else []
        return f"{plain} {inline(packet_id)}"

    def _invents(self, sentence: str) -> bool:
        """Whether it has a number or a name from nowhere."""
        plain = _LIST_MARK.sub("", sentence)
        names = NAME.findall(plain) if self._names_too else []
        return bool(foreign_number(plain, self._known)) or not {bare_name(name) for name in names} <= stems(self._known)

    def _claims(self, sentence: str) -> bool:
        """Whether it says something that a page could carry."""
        words = sentence.split()
        told = len(words) >= _SHORTEST or bool(_FIRST.match(sentence)) or any(map(str.isdigit, sentence))
        return told and not sentence.rstrip().endswith(("?", ":")) and not _UNKNOWN.search(sentence)

    def _carries(self, page: Passage, sentence: str) -> bool:
        own = {stem(word) for word in content_words(sentence)}
        return (
            bool(own & stems(page.text) or any(map(str.isdigit, sentence)))
            and self._speaks_of_it(page, sentence)
            and not unsupported(sentence, [page], self._question, self._zone)
            and not any(swapped(sentence, part.text) or denied(sentence, part.text) for part in split(page.text))
            and not misread(sentence, page.text)
        )

    def _speaks_of_it(self, page: Passage, sentence: str) -> bool:
        """Whether the page has what the sentence takes from the question; of a bare answer, what was asked."""
        asked = {stem(word) for word in content_words(self._question)}
        own = {stem(word) for word in content_words(sentence)}
        taken = asked & own
        standing = stems(f"{page.text} {page.page.topic}")
        if len(taken) >= _FEWEST_TAKEN:
            return len(taken - standing) < _MISSING_SHARE * len(taken)
        return (self._found and len(own) > _BARE) or len(asked & standing) > _ASKED_SHARE * len(asked)


def swapped(sentence: str, quote: str) -> bool:
    """Whether who does it is another one here and there, though both name both."""
    ours, theirs = _agent(sentence), _agent(quote)
    both = set(_names(sentence)) & set(_names(quote))
    shared = (stems(sentence) - both) & stems(quote)
    return bool(shared) and ours != theirs and {ours, theirs} <= both


def misread(sentence: str, text: str) -> bool:
    """Whether it makes an amount of money or a share of another number ("costs $27" of "27 beds"), or says that
    something is what the text names as a place only ("the password is Bremen" of "kept in Bremen").
    """
    for kind in _KINDS:
        told = {number for found in kind.findall(text) for number in _each(found)}
        if any(number not in told for found in kind.findall(sentence) for number in _each(found)):
            return True
    same = _IDENTITY.search(sentence)
    if same is None:
        return False
    name = re.escape(same[1])
    return len(re.findall(rf"\b{name}\b", text)) == len(re.findall(rf"{_PLACE}{name}\b", text)) > 0


def denied(sentence: str, quote: str) -> bool:
    """Whether the quote says that what the sentence states is not so."""
    if _NOT.search(sentence):
        return False
    for negated in _NOT.finditer(quote):
        told = stems(negated[1]) - stems(quote[: negated.start()] + quote[negated.end() :])
        if told and told <= stems(sentence):
            return True
    return False


def _each(found: str | tuple[str, ...]) -> list[str]:
    return [found] if isinstance(found, str) else [number for number in found if number]


def _agent(sentence: str) -> str:
    """The one who does it: whom a passive sentence names after "by", else the first name; "" for none."""
    names = _names(sentence)
    if _PASSIVE.search(sentence):
        by = _BY.search(sentence)
        return bare_name(by[1]) if by else ""
    return names[0] if names else ""


def _names(sentence: str) -> list[str]:
    first = _FIRST.match(sentence)
    names = ([first[1]] if first else []) + NAME.findall(sentence)
    return list(dict.fromkeys(map(bare_name, names)))


def _passage(item: ContextItem) -> Passage:
    page = Page(
        page_id=item.page_id,
        packet_id=item.packet_id,
        session_id="",
        sequence=0,
        section="",
        path="",
        text=item.text,
        start=0,
        end=len(item.text),
        timestamp=item.timestamp or "1970-01-01T00:00:00Z",
        topic=item.topic,
    )
    return Passage("", page, 0, len(item.text))


def about_the_pages(packet: CognitionPacket, *, told: bool) -> bool:
    """Whether the question is about what the pages tell: they were found to tell it, or it names what they name, or
    asks about something of what they speak of: "the choir's conductor".
    """
    if not packet.context:
        return False
    asked = packet.user_prompt
    standing = {name for item in packet.context for name in _names_in(item.text)}
    named = {bare_name(name) for name in NAME.findall(asked) if name != "I"}
    owners = {stem(owner.lower()) for owner in _OWNER.findall(asked) if owner.lower() not in stop_words()}
    return told or bool(named & standing) or any(owners & stems(item.text) for item in packet.context)


def says_enough(message: str) -> bool:
    """Whether pages found for it can be about it: of "tell me slowly" any page with "slowly" would be, and "who made
    you?" is about whom it is said to."""
    said = without_order(message)
    about_us = _TO_US.search(said) is not None
    asked = message.rstrip().endswith("?") and not about_us
    return asked or len(content_words(said)) >= _FEWEST_TAKEN


def _names_in(text: str) -> set[str]:
    return {name for sentence in split(text) for name in _names(sentence.text)}
