"""Prompt texts are files, one per stage or judge; this fills their variables and refuses anything that does not fit.

A text starts with a head between two `---` lines: its version and the variables it takes. A variable stands in the
text as `{name}`. Every other brace is plain text, so JSON in a prompt needs no escapes, and values are put in as they
are: a brace inside a value is never read as a variable. What each text is given is declared in `prompts.uses`.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

import msgspec

from gaiad.errors import GaiadError
from prompts.uses import USES, Words

_VARIABLE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_HEAD = re.compile(r"---\nversion: (\d+)\nvariables:([a-z0-9_, ]*)\n---\n")


class PromptText(msgspec.Struct, frozen=True, kw_only=True):
    """One prompt file. `version` is recorded with what was made from it; `variables` are the names it must be given."""

    name: str
    version: int
    variables: frozenset[str]
    body: str


def prompt_names() -> list[str]:
    """The shipped prompts by file name without ending, sorted."""
    place = files("prompts") / "text"
    return sorted(entry.name.removesuffix(".md") for entry in place.iterdir() if entry.name.endswith(".md"))


@cache
def load_prompt(name: str) -> PromptText:
    """The prompt `name`. Raises GaiadError when there is no such file or its head and its text disagree."""
    if name not in prompt_names():
        raise GaiadError(f"prompt {name!r}: no such file in prompts/text; there are: {', '.join(prompt_names())}")
    return parse_prompt(name, (files("prompts") / "text" / f"{name}.md").read_text(encoding="utf-8"))


def parse_prompt(name: str, text: str) -> PromptText:
    """Read head and text. Raises GaiadError when a variable is used and not declared, or declared and not used."""
    head = _HEAD.match(text)
    if head is None:
        raise GaiadError(f"prompts/text/{name}.md: must start with ---, version: N, variables: a, b, ---")
    declared = frozenset(part.strip() for part in head[2].split(",") if part.strip())
    body = text[head.end() :]
    used = frozenset(_VARIABLE.findall(body))
    _refuse(f"prompts/text/{name}.md", "used in the text but not declared in its head", used - declared)
    _refuse(f"prompts/text/{name}.md", "declared in its head but not used in the text", declared - used)
    return PromptText(name=name, version=int(head[1]), variables=declared, body=body)


def check_all() -> list[PromptText]:
    """Load every shipped prompt and hold it against its use; raises GaiadError on the first that does not fit."""
    prompts = [load_prompt(name) for name in prompt_names()]
    check_uses(prompts)
    return prompts


def check_uses(prompts: list[PromptText]) -> None:
    """Raises GaiadError for a prompt that takes a variable nobody gives, leaves out a given one, or is not there."""
    remedy = "restore the shipped file or reinstall gaiad"
    for prompt in prompts:
        given = frozenset(USES[prompt.name].__struct_fields__) if prompt.name in USES else frozenset()
        where = f"prompts/text/{prompt.name}.md"
        _refuse(where, f"is given by nobody; there are: {_listed(given)}; {remedy}", prompt.variables - given)
        _refuse(where, f"is given and not taken; {remedy}", given - prompt.variables)
    if absent := sorted(USES.keys() - {prompt.name for prompt in prompts}):
        raise GaiadError(f"prompts/text/{absent[0]}.md: is not there; reinstall gaiad")


def fill(words: Words) -> str:
    """The prompt that takes these words (`prompts.uses`), filled in. Raises GaiadError when the file takes others."""
    name = next(name for name, use in USES.items() if use is type(words))
    return render(load_prompt(name), msgspec.structs.asdict(words))


def render(prompt: PromptText, values: Mapping[str, str]) -> str:
    """The text with its variables filled in once, values as they are. Raises GaiadError on a missing or unknown one."""
    _refuse(f"prompt {prompt.name!r}", "missing", prompt.variables - values.keys())
    _refuse(
        f"prompt {prompt.name!r}",
        f"unknown; it takes: {_listed(prompt.variables)}",
        values.keys() - prompt.variables,
    )
    return _VARIABLE.sub(lambda found: values[found[1]], prompt.body)


def _listed(names: frozenset[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _refuse(where: str, why: str, names: frozenset[str] | set[str]) -> None:
    if names:
        raise GaiadError(f"{where}: variable {', '.join(sorted(names))} {why}")
