"""Task instructions (GCP 5): one directive per stage or judge, and whether each is short enough in every vocabulary.

Of the shipped ones the words are prompt files, one each; the rest of the entry is in constants/.
"""

import datetime
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from gaiad.base.errors import ConfigError, GaiadError
from gaiad.base.ports import RequestContext, Tokenizer
from gaiad.wire.generation import Segment
from prompts.load import load_prompt, prompt_names

MOST_TOKENS = 64
Stage = Literal["plan", "refine", "observe", "act", "verify", "judge"]


class TaskInstruction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """GCP 5.1's entry. Stage `judge` is for texts that judge or rewrite and belong to none of GCP's five stages."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=600)]
    stage: Stage
    max_tokens: Annotated[int, msgspec.Meta(ge=1, le=MOST_TOKENS)] = MOST_TOKENS
    last_updated: datetime.date


class LengthProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A directive that is longer than it may be. Where `exact` is false the tokens are an estimate."""

    key: str
    tokenizer: str
    tokens: int
    limit: int
    exact: bool

    def __str__(self) -> str:
        about = "" if self.exact else "about "
        over = self.tokens - self.limit
        return (
            f"task instruction {self.key!r}: {about}{self.tokens} tokens under {self.tokenizer}, "
            f"{over} above its {self.limit}; shorten its text"
        )


def with_words(file: str, entries: Mapping[str, Any]) -> dict[str, Any]:
    """The shipped `entries` of `file` by key, each with its `text` from prompts/text. Raises ConfigError when they
    and the prompt files do not go together.
    """
    names = {key: directive_name(key, entry) for key, entry in entries.items()}
    directives = {name for name in prompt_names() if name.startswith(("stage_", "judge_"))}
    if odd := sorted(directives ^ set(names.values())):
        raise ConfigError(f"{file} and prompts/text do not go together in {odd[0]}; restore them or reinstall gaiad")
    return {key: {**entry, "text": _words(names[key])} for key, entry in entries.items()}


def directive_name(key: str, entry: Mapping[str, Any]) -> str:
    """The prompt file of a shipped directive."""
    return f"{'judge' if entry.get('stage') == 'judge' else 'stage'}_{key}"


def _words(name: str) -> str:
    try:
        prompt = load_prompt(name)
    except GaiadError as error:
        raise ConfigError(f"{error.message}; restore the shipped file or reinstall gaiad") from error
    if prompt.variables:
        raise ConfigError(f"prompts/text/{name}.md: a directive takes no variables; restore the shipped file")
    return prompt.body.rstrip("\n")


async def check_lengths(
    instructions: Mapping[str, TaskInstruction], tokenizers: Mapping[str, Tokenizer], call: RequestContext
) -> list[LengthProblem]:
    """Every directive above its own limit under any of the named tokenizers; one request to each of them.

    Raises what the tokenizers raise: BadInput, Unavailable, WorkerDied, DeadlineExceeded, Cancelled.
    """
    problems: list[LengthProblem] = []
    keys = sorted(instructions)
    for name, tokenizer in tokenizers.items():
        counts = await tokenizer.count([[Segment(instructions[key].text)] for key in keys], call)
        problems += [
            LengthProblem(
                key=key, tokenizer=name, tokens=tokens, limit=instructions[key].max_tokens, exact=tokenizer.exact
            )
            for key, tokens in zip(keys, counts, strict=True)
            if tokens > instructions[key].max_tokens
        ]
    return problems
