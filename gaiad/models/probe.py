"""What a model can do, measured by short tasks that have right answers, and the duties that follow from it. Pure.

A duty goes only to a model that is better at it than chance with 95 % confidence (exact binomial). Asking the model is
left to gaiad.service.probes, for that takes the prompts of the council.
"""

import re
from collections.abc import Mapping
from functools import cache
from math import comb
from typing import Literal, get_args

import msgspec

from constants.load import load

Skill = Literal["follow", "pages", "cite", "plan", "verify", "command"]
Duty = Literal["answer", "plan", "refine", "observe", "verify", "vote", "review", "title"]
SKILLS: tuple[Skill, ...] = get_args(Skill)
NEEDS: dict[Duty, tuple[Skill, ...]] = {
    "answer": ("pages", "cite"),
    "plan": ("plan",),
    "refine": ("plan",),
    "observe": ("verify",),
    "verify": ("verify",),
    "vote": ("verify", "command"),
    "review": ("command",),
    "title": ("follow",),
}
"""Duty -> the skills that it takes, each better than chance."""
CHANCE: dict[Skill, float] = {"follow": 0.5, "pages": 0.5, "cite": 1 / 3, "plan": 0.5, "verify": 0.5, "command": 0.5}
"""What guessing gives; for free text, where it gives nothing, more right than wrong is asked for."""
_RISK = 0.05
_NOT_TOLD = re.compile(
    r"\b(?:not|no|never|nothing|nobody|none|unknown|unclear|unable|unspecified|without)\b|n't\b", re.IGNORECASE
)


class Follow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An instruction, and a pattern that the whole answer has to fit, in any case."""

    ask: str
    right: str


class ProbePage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A page, a question that it answers by one of the words `tells`, and one that it does not answer."""

    page: str
    asks: str
    tells: list[str]
    asks_more: str


class Cite(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Pages by id, a question, and the id of the page that answers it."""

    pages: dict[str, str]
    ask: str
    right: str


class Planned(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request, and patterns each of which a step has to name."""

    ask: str
    objects: list[str]


class Result(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request with a right and a wrong result."""

    ask: str
    right: str
    wrong: str


class Proposed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request, a command, and whether that is harmless and does it."""

    ask: str
    argv: list[str]
    harmless: bool


class ProbeTasks(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """constants/probe.toml."""

    follow: list[Follow]
    pages: list[ProbePage]
    cite: list[Cite]
    plan: list[Planned]
    verify: list[Result]
    command: list[Proposed]


class Score(msgspec.Struct, frozen=True):
    """So many right `of` all tasks of a skill."""

    right: int
    of: int


def probe_tasks() -> ProbeTasks:
    """The shipped tasks."""
    return load("probe.toml", ProbeTasks)


def follows(task: Follow, reply: str) -> bool:
    return re.fullmatch(task.right, reply.strip().strip("\"'*`").strip(), re.IGNORECASE) is not None


def tells(task: ProbePage, reply: str) -> bool:
    """Whether a reply to what the page answers has the answer."""
    return any(re.search(rf"\b{re.escape(word)}\b", reply, re.IGNORECASE) for word in task.tells)


def says_not_told(reply: str) -> bool:
    """Whether a reply to what the page does not answer says so; a short denial is enough."""
    return _NOT_TOLD.search(reply) is not None


def cites(task: Cite, reply: str) -> bool:
    """Whether the right id is named and no other."""
    return {name for name in task.pages if re.search(rf"\b{name}\b", reply)} == {task.right}


def plans(task: Planned, steps: list[str]) -> bool:
    """At least two steps, every object in one of them, and no step twice."""
    distinct = len({step.strip().lower() for step in steps}) == len(steps)
    named = all(any(re.search(one, step, re.IGNORECASE) for step in steps) for one in task.objects)
    return len(steps) >= 2 and distinct and named


@cache
def needed(of: int, chance: float) -> int:
    """The fewest right answers of `of` that guessing reaches in at most 5 of 100 tries; `of` + 1 when none is."""
    tail = 0.0
    for right in range(of, -1, -1):
        tail += comb(of, right) * chance**right * (1 - chance) ** (of - right)
        if tail > _RISK:
            return right + 1
    return 0


def better_than_chance(skill: Skill, score: Score) -> bool:
    return score.right >= needed(score.of, CHANCE[skill])


def duties(scores: Mapping[Skill, Score]) -> frozenset[Duty]:
    """What a model with these scores may do."""
    able = {skill for skill, score in scores.items() if better_than_chance(skill, score)}
    return frozenset(duty for duty, skills in NEEDS.items() if able.issuperset(skills))


_SAID: dict[Skill, str] = {
    "follow": "followed {right} of {of} short instructions",
    "pages": "answered {right} of {of} questions about a page as the page has it",
    "cite": "named the right page for {right} of {of} questions",
    "plan": "planned {right} of {of} requests",
    "verify": "judged {right} of {of} results correctly",
    "command": "judged {right} of {of} commands correctly",
}


def in_words(skill: Skill, score: Score) -> str:
    """One score as a clause, with what it takes: "judged 21 of 40 results correctly, 26 are needed"."""
    said = _SAID[skill].format(right=score.right, of=score.of)
    return said if better_than_chance(skill, score) else f"{said}, {needed(score.of, CHANCE[skill])} are needed"
