"""What each step says to a model: the seed's prompts (prompts/text), with retrieved text as fenced data between."""

from collections.abc import Sequence

from gaiad.generation import Segment
from gaiad.research.evidence import Evidence
from gaiad.research.thinking.asking import Prompt
from gaiad.research.thinking.passages import Passage, shown_memo, shown_plain, shown_with_labels
from gaiad.schemas import Page
from prompts.load import fill, load_prompt
from prompts.uses import PlanningWords, ReflectionWords, SynthesisWords, Words

_HERE = "\x00here\x00"  # where the retrieved text stands; no question can hold it


def planning(question: str, found: Sequence[Evidence], memos: Sequence[str]) -> Prompt:
    """JIT's plan from the request and the memos of what was found first."""
    items = [shown_memo(item.page, memo) for item, memo in zip(found, memos, strict=True)]
    known = _HERE if items else "none: no page has the words of the question"
    return _prompt("judge_research_planning", PlanningWords(user_query=_plain(question), known_pages=known), items)


def reflection(question: str, pages: Sequence[Page]) -> Prompt:
    """GAM 4's reflection on the pages."""
    words = ReflectionWords(user_query=_plain(question), formatted_contexts=_HERE)
    return _prompt("judge_research_reflection", words, [shown_plain(page) for page in pages])


def synthesis(question: str, passages: Sequence[Sequence[Passage]]) -> Prompt:
    """GAM 5's synthesis of the pages, whose passages have labels."""
    words = SynthesisWords(user_query=_plain(question), formatted_contexts_with_citations=_HERE)
    prompt = _prompt("judge_research_synthesis", words, [shown_with_labels(of_page) for of_page in passages])
    return Prompt(
        system=prompt.system,
        before=prompt.before,
        items=prompt.items,
        after=f"{prompt.after.rstrip()}\n\n{load_prompt('research_synthesis_form').body.strip()}",
    )


def _plain(question: str) -> str:
    return question.replace("\x00", " ")


def _prompt(role: str, words: Words, items: list[list[Segment]]) -> Prompt:
    before, _, after = fill(words).partition(_HERE)
    texts = (load_prompt(role).body, load_prompt("quoted_memory").body)
    return Prompt(system="\n\n".join(text.strip() for text in texts), before=before, items=items, after=after)
