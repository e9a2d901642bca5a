"""The Tokenizer port for a tokenizer.json: exact counts for a remote model whose vocabulary file the user has.

In process, by the `tokenizers` library; long texts in a thread, where it lets the others run. Decision 8 holds as in
`vocabulary`: literals of added tokens in untrusted text are cut after their first character. The chat template is the
one beside the file (tokenizer_config.json or chat_template.jinja); without one a conversation is counted as lines of
role and text, which costs about what a template's own tokens do. A template is tried out in a throw-away process once.
"""

import asyncio
import hashlib
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from gaiad.base.errors import BadInput
from gaiad.base.ports import RequestContext
from gaiad.models.child.vocabulary import Literals
from gaiad.models.tokens.chat_template import ChatTemplate, TemplateProblem, try_out
from gaiad.models.tokens.disposable_process import Died, ProcessLimits, run
from gaiad.models.tokens.word_tokenizer import Remembered, clean_segments, content_key, role_lines
from gaiad.wire.generation import ChatMessage, Segment

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Library

CACHED_COUNTS = 16_384
_INLINE_CHARS = 20_000
_ANCHOR = "\n"
_SPACES = ("\u2581", "\u0120")  # how vocabularies write a space
_PROOF = ProcessLimits(cpu_s=3, wall_s=15.0, memory_bytes=512 << 20)


class JsonTokenizer:
    """Reads `path` and what lies beside it at once. Raises BadInput naming the file that cannot be used."""

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        data = _read(self._path)
        self._library = _open(self._path, data)
        added = self._library.get_added_tokens_decoder()
        self._marked = frozenset(added)
        self._control = frozenset(token for token, one in added.items() if one.special)
        self._literals = Literals(one.content for one in added.values())
        with _translated(self._path):
            self._beginning = self._library.encode("", add_special_tokens=True).ids[:1]
        self._anchor = self._anchored_beginning()
        source, begin, end = _template_beside(self._path)
        self._template = _checked_template(self._path, source, begin, end) if source else None
        digest = hashlib.sha256(data)
        digest.update("\0".join((source, begin, end)).encode("utf-8", "replace"))
        self._fingerprint = digest.hexdigest()
        self._counts: Remembered[int] = Remembered(CACHED_COUNTS)

    @property
    def fingerprint(self) -> str:
        """SHA-256 over the file and the chat template beside it."""
        return self._fingerprint

    @property
    def exact(self) -> bool:
        return True

    async def count(self, texts: Sequence[Sequence[Segment]], call: RequestContext) -> list[int]:
        """Tokens of each text by itself, without the model's own beginning.

        Raises BadInput, Cancelled, DeadlineExceeded.
        """
        counts: list[int] = []
        for segments in map(clean_segments, texts):
            key = content_key(self._fingerprint, segments)
            known = self._counts.get(key)
            if known is None:
                known = len(await self._tokens(segments, call))
                self._counts.put(key, known)
            counts.append(known)
        return counts

    async def encode(self, segments: Sequence[Segment], call: RequestContext) -> list[int]:
        """The tokens of a prompt, the model's own beginning included. Raises as `count`."""
        tokens = await self._tokens(clean_segments(segments), call)
        return tokens if not self._beginning or tokens[:1] == self._beginning else [*self._beginning, *tokens]

    async def render(self, messages: Sequence[ChatMessage], call: RequestContext) -> list[Segment]:
        """By the chat template beside the file, else as lines of role and text. Raises BadInput as it refuses."""
        if self._template is None:
            return role_lines(messages)
        try:
            segments, _ = await asyncio.to_thread(self._template.render, messages)
        except TemplateProblem as problem:
            raise BadInput(f"{self._path}: its chat template cannot write this conversation: {problem}") from problem
        return segments

    async def _tokens(self, segments: Sequence[Segment], call: RequestContext) -> list[int]:
        call.check(time.monotonic())
        if sum(len(segment.text) for segment in segments) > _INLINE_CHARS:
            return await asyncio.to_thread(self._encode, segments)
        return self._encode(segments)

    def _encode(self, segments: Sequence[Segment]) -> list[int]:
        tokens: list[int] = []
        for segment in segments:
            for part in [segment.text] if segment.trusted else self._literals.cut(segment.text):
                continues = bool(tokens) and tokens[-1] not in self._marked
                found = self._continue(part) if continues else self._plain(part)
                if not segment.trusted and not self._control.isdisjoint(found):
                    raise BadInput(f"{self._path}: it writes ordinary text with control tokens; choose another")
                tokens += found
        return tokens

    def _anchored_beginning(self) -> list[int] | None:
        """The tokens of the anchor where a space is written before every text, None where it is not."""
        first = self._library.id_to_token(next(iter(self._plain("x")), 0)) or ""
        return self._plain(_ANCHOR) if first.startswith(_SPACES) else None

    def _continue(self, text: str) -> list[int]:
        """Tokens of a text that goes on after another, without the space that would begin it."""
        if self._anchor is None:
            return self._plain(text)
        tokens, length = self._plain(_ANCHOR + text), len(self._anchor)
        return tokens[length:] if tokens[:length] == self._anchor else self._plain(text)

    def _plain(self, text: str) -> list[int]:
        with _translated(self._path):
            if len(text) < _INLINE_CHARS:
                return list(self._library.encode(text, add_special_tokens=False).ids)
            return list(self._library.encode_batch_fast([text], add_special_tokens=False)[0].ids)  # lets threads run


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path}: the tokenizer cannot be read ({error.strerror}); check the path") from error


def _open(path: Path, data: bytes) -> "Library":
    from tokenizers import Tokenizer as Library

    with _translated(path):
        library = Library.from_buffer(data)
        library.no_truncation()
        library.no_padding()
    return library


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """The library's errors, panics of its Rust side included, as BadInput naming the file."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            raise BadInput(f"{path}: no usable tokenizer.json ({str(error)[:300]}); replace it") from error
        raise


def _template_beside(path: Path) -> tuple[str, str, str]:
    """Chat template, beginning and end as the files beside say; "" for what they do not. Raises BadInput."""
    config, alone = path.with_name("tokenizer_config.json"), path.with_name("chat_template.jinja")
    known: Any = {}
    try:
        if config.is_file():
            known = msgspec.json.decode(config.read_bytes())
        source = alone.read_text("utf-8") if alone.is_file() else _named_template(known)
    except (OSError, UnicodeDecodeError, msgspec.DecodeError, RecursionError) as error:
        raise BadInput(f"{config}: cannot be read ({error}); correct or remove it") from error
    return source, _literal(known, "bos_token"), _literal(known, "eos_token")


def _named_template(config: Any) -> str:
    """The template, or the one called `default` of several."""
    found = config.get("chat_template") if isinstance(config, dict) else None
    if isinstance(found, list):
        named = {str(one.get("name")): one.get("template") for one in found if isinstance(one, dict)}
        found = named.get("default")
    return found if isinstance(found, str) else ""


def _literal(config: Any, name: str) -> str:
    value = config.get(name) if isinstance(config, dict) else None
    value = value.get("content") if isinstance(value, dict) else value
    return value if isinstance(value, str) else ""


def _checked_template(path: Path, source: str, begin: str, end: str) -> ChatTemplate:
    try:
        problem = run(lambda: try_out(source, begin, end, time.strftime), _PROOF).decode("utf-8", "replace")
        if not problem:
            return ChatTemplate(source, begin, end, time.strftime)
    except (Died, TemplateProblem) as error:
        problem = str(error)
    raise BadInput(f"{path}: its chat template cannot be used ({problem}); correct or remove it")
