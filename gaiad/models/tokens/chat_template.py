"""The chat template of a model: a conversation in trusted and untrusted parts (decision 8)."""

import contextlib
import json
import re
import secrets
from collections.abc import Callable, Sequence
from typing import Any, Literal, NoReturn

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from gaiad.wire.generation import ChatMessage, Segment

_BETWEEN = Segment("\n\n")


def as_it_is(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    return list(messages)


def without_system(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Each system message goes to the front of the next user message, or becomes one where none follows."""
    shaped: list[ChatMessage] = []
    held: list[ChatMessage] = []
    for message in messages:
        if message.role == "system":
            held.append(message)
            continue
        if message.role == "assistant" and held:
            shaped.append(_join("user", held))
            held = []
        shaped.append(_join(message.role, [*held, message]))
        held = []
    return [*shaped, _join("user", held)] if held else shaped


def joined(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Neighbours of one role become one message."""
    runs: list[list[ChatMessage]] = []
    for message in messages:
        if runs and runs[-1][0].role == message.role:
            runs[-1].append(message)
        else:
            runs.append([message])
    return [_join(run[0].role, run) for run in runs]


def by_turns(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """User and assistant alone, one after the other."""
    return joined(without_system(messages))


WAYS: tuple[tuple[str, Callable[[Sequence[ChatMessage]], list[ChatMessage]]], ...] = (
    ("as it is", as_it_is),
    ("neighbouring messages of one role were joined", joined),
    ("system text moved into the user message after it", without_system),
    ("system text moved into the user message after it and neighbours of one role were joined", by_turns),
)
"""From the least change to the greatest, with words for what was done."""


def _join(role: Literal["system", "user", "assistant"], messages: Sequence[ChatMessage]) -> ChatMessage:
    content = list(messages[0].content)
    for message in messages[1:]:
        content += [_BETWEEN, *message.content]
    return ChatMessage(role=role, content=content)


MAX_CHARACTERS = 1_000_000
_NEWLINES = "\n" * 7  # more than any template writes beside a content
_EM_SPACE = "\u2003"  # white space that no template writes
_BEFORE, _AFTER = _NEWLINES + _EM_SPACE, _EM_SPACE + _NEWLINES

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
PLAIN = (
    "{{ bos_token }}{% for message in messages %}{{ message['role'] | capitalize }}: {{ message['content'] | trim }}"
    "\n\n{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}"
)


_PROBES: tuple[tuple[Literal["system", "user", "assistant"], ...], ...] = (
    ("user",),
    ("system", "user"),
    ("system", "user", "assistant", "user"),
)


class TemplateProblem(Exception):
    """The template cannot be read, or cannot write this conversation; says why in words."""


class TookTooLong(TemplateProblem):
    """Raised from outside into a rendering that does not come to an end."""


class ChatTemplate:
    """A compiled template. `begin` and `end` are what it may write as bos_token and eos_token.

    Raises TemplateProblem when the source is not Jinja.
    """

    def __init__(self, source: str, begin: str, end: str, format_time: Callable[[str], str]) -> None:
        self._known = {
            "bos_token": begin,
            "eos_token": end,
            "add_generation_prompt": True,
            "tools": None,
            "documents": None,
            "raise_exception": _refuse,
            "strftime_now": format_time,
        }
        try:
            self._template = _environment().from_string(source)
        except Exception as error:
            raise TemplateProblem(f"it is not a Jinja template ({_in_words(error)})") from error

    def render(self, messages: Sequence[ChatMessage]) -> tuple[list[Segment], str]:
        """The conversation up to where the reply begins, and what had to be done to it first ("" when nothing had).

        A template that refuses system messages or the order of roles gets the conversation in another shape. Raises
        TemplateProblem with its first refusal when no shape will do.
        """
        refusals: list[str] = []
        tried: list[list[ChatMessage]] = []
        for way, change in WAYS:
            shaped = change(messages)
            if shaped in tried:
                continue
            tried.append(shaped)
            try:
                return self._write(shaped), f"{way}, for the template says: {refusals[0]}" if refusals else ""
            except TookTooLong:
                raise
            except TemplateProblem as problem:
                refusals.append(str(problem))
        raise TemplateProblem(refusals[0])

    def _write(self, messages: Sequence[ChatMessage]) -> list[Segment]:
        """With contents as plain strings, or as lists of parts for a template that knows only those."""
        word = f"x{secrets.token_hex(16)}x"
        texts = [
            f"{_BEFORE}{word}{index}x{_AFTER}" if any(segment.text for segment in message.content) else ""
            for index, message in enumerate(messages)
        ]
        try:
            return _split(self._run(messages, texts), word, messages)
        except TookTooLong:
            raise
        except TemplateProblem as problem:
            try:
                return _split(self._run(messages, [[{"type": "text", "text": text}] for text in texts]), word, messages)
            except TemplateProblem:
                raise problem from None

    def _run(self, messages: Sequence[ChatMessage], contents: Sequence[Any]) -> str:
        asked = [{"role": one.role, "content": content} for one, content in zip(messages, contents, strict=True)]
        written: list[str] = []
        size = 0
        try:
            for piece in self._template.generate(messages=asked, **self._known):
                written.append(piece)
                size += len(piece)
                if size > MAX_CHARACTERS:
                    raise TemplateProblem(f"it writes more than {MAX_CHARACTERS} characters around the messages")
        except TemplateProblem:
            raise
        except Exception as error:
            raise TemplateProblem(_in_words(error)) from error
        return "".join(written)


def try_out(source: str, begin: str, end: str, format_time: Callable[[str], str]) -> bytes:
    """What is wrong with a template, nothing when it can be used; meant for a throw-away process.

    It may refuse a conversation here: only what it says of a real one counts.
    """
    try:
        template = ChatTemplate(source, begin, end, format_time)
    except TemplateProblem as problem:
        return str(problem).encode("utf-8", "replace")
    for roles in _PROBES:
        with contextlib.suppress(TemplateProblem):
            template.render([ChatMessage(role=role, content=[Segment("Hello")]) for role in roles])
    return b""


class _TemplateError(Exception):
    """What a template says with raise_exception."""


class _Generation(jinja2.ext.Extension):
    """`{% generation %}` marks what a model is trained on; the text inside is kept as it is."""

    tags = {"generation"}  # noqa: RUF012  (Jinja's own way to declare it)

    def parse(self, parser: jinja2.parser.Parser) -> list[jinja2.nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Environment(ImmutableSandboxedEnvironment):
    """No attribute of an object, no import, and no powers: one line of them would keep the process busy for hours."""

    intercepted_binops = frozenset({"**"})

    def call_binop(self, _context: Any, operator: str, _left: Any, _right: Any) -> NoReturn:
        raise _TemplateError(f"{operator} is not allowed in a chat template")


def _environment() -> jinja2.Environment:
    """Set up as the models' authors expect it: as in the transformers library."""
    environment = _Environment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols, _Generation], cache_size=0
    )
    environment.filters["tojson"] = _to_json
    return environment


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Without the escapes for HTML that Jinja's own filter writes."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _refuse(message: object) -> NoReturn:
    raise _TemplateError(str(message))


def _in_words(error: Exception) -> str:
    words = f"{error}".strip()[:300] or type(error).__name__
    return words if isinstance(error, _TemplateError | jinja2.TemplateError) else f"{type(error).__name__}: {words}"


def _split(written: str, word: str, messages: Sequence[ChatMessage]) -> list[Segment]:
    """The template's text, trusted, with the real contents where their stand-ins are."""
    places = re.compile(
        f"((?:{_NEWLINES})?{_EM_SPACE})?{word}([0-9]+)x({_EM_SPACE}(?:{_NEWLINES})?)?"
    )  # what is left of the white space tells what the template trimmed
    segments: list[Segment] = []
    missing = {index for index, message in enumerate(messages) if any(part.text for part in message.content)}
    end = 0
    for match in places.finditer(written):
        index = int(match[2])
        if index not in missing:
            raise TemplateProblem(f"it writes message {index + 1} ({messages[index].role}) more than once")
        missing.remove(index)
        segments.append(Segment(written[end : match.start()], trusted=True))
        segments += _trim(messages[index].content, match[1], match[3])
        end = match.end()
    if missing:
        index = min(missing)
        raise TemplateProblem(f"it leaves out message {index + 1} ({messages[index].role})")
    segments.append(Segment(written[end:], trusted=True))
    return [segment for segment in segments if segment.text]


def _trim(content: Sequence[Segment], before: str | None, after: str | None) -> list[Segment]:
    """The content without the white space at its ends that the template took from its stand-in."""
    texts = [segment.text for segment in content]
    if before != _BEFORE:
        _strip_ends(texts, range(len(texts)), str.lstrip, None if before is None else "\n")
    if after != _AFTER:
        _strip_ends(texts, range(len(texts) - 1, -1, -1), str.rstrip, None if after is None else "\n")
    return [Segment(text, part.trusted, part.source) for text, part in zip(texts, content, strict=True) if text]


def _strip_ends(texts: list[str], order: range, strip: Callable[..., str], what: str | None) -> None:
    for index in order:
        texts[index] = strip(texts[index], what)
        if texts[index]:
            return
