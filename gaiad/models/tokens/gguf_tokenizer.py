"""The Tokenizer port for a GGUF: its own vocabulary and chat template, asked of the tokenizer child.

The daemon's side only: it imports no model library. Counts are cached by content, compiled grammars by what was asked
for; both caches are bounded and belong to the child's owner, so that two tokenizers of one file share them.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from gaiad.errors import BadInput, Unavailable
from gaiad.generation import ChatMessage, GenerateRequest, Segment
from gaiad.models.gguf.fingerprint import file_sha256
from gaiad.models.supervision.protocol import CheckGrammar, Compiled, Render, Rendered, Reply, Tokenize, Tokens
from gaiad.models.tokens.text_count import chunk_texts, clean_segments, content_key, encodable
from gaiad.ports import Call

if TYPE_CHECKING:
    from gaiad.models.tokens.token_worker import TokenWorker

MAX_NESTING = 200
_form_encoder = msgspec.msgpack.Encoder()


class GgufTokenizer:
    """`template` is a Jinja chat template in place of the file's own, "" for that. Raises BadInput without a file."""

    def __init__(self, worker: "TokenWorker", path: Path, template: str = "") -> None:
        self._worker = worker
        self._path = path.absolute()
        self._template = encodable(template)
        self._file = file_sha256(self._path)
        digest = hashlib.sha256(self._template.encode()).hexdigest()[:16]
        self._fingerprint = f"{self._file}:{digest}" if template else self._file

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the file, and of the template where one stands in for the file's own."""
        return self._fingerprint

    @property
    def file_sha256(self) -> str:
        """SHA-256 of the file alone, so that nobody need hash it again."""
        return self._file

    @property
    def exact(self) -> bool:
        return True

    async def count(self, texts: Sequence[Sequence[Segment]], call: Call) -> list[int]:
        """Tokens of each text by itself, without the model's own beginning; a text counted before costs no round trip.

        Raises BadInput (the file's vocabulary cannot be used), Unavailable, WorkerDied, DeadlineExceeded, Cancelled.
        """
        clean = [clean_segments(segments) for segments in texts]
        keys = [content_key(self._file, segments) for segments in clean]
        counts = self._worker.counts
        found = {key: count for key in keys if (count := counts.get(key)) is not None}
        missing = {key: segments for key, segments in zip(keys, clean, strict=True) if key not in found}
        for chunk in chunk_texts(list(missing.items())):
            counted = await self._tokens([segments for _, segments in chunk], call, counts_only=True, beginning=False)
            for (key, _), count in zip(chunk, counted.counts, strict=True):
                found[key] = count
                counts.put(key, count)
        return [found[key] for key in keys]

    async def encode(self, segments: Sequence[Segment], call: Call) -> list[int]:
        """The tokens of a prompt as the model reads it, its own beginning included. Raises as `count`."""
        reply = await self._tokens([clean_segments(segments)], call, counts_only=False, beginning=True)
        if len(reply.ids) != 1:
            raise Unavailable(f"{self._path}: the tokenizer answered with {len(reply.ids)} prompts instead of one")
        return reply.ids[0]

    async def render(self, messages: Sequence[ChatMessage], call: Call) -> list[Segment]:
        """The conversation in the template's trusted parts, up to where the model's reply begins.

        Raises BadInput when the template refuses it, and as `count`.
        """
        clean = [ChatMessage(role=message.role, content=clean_segments(message.content)) for message in messages]
        path, template = str(self._path), self._template
        reply = await self._worker.ask(
            lambda number: Render(id=number, path=path, template=template, messages=clean), call
        )
        if not isinstance(reply, Rendered):
            raise self._unexpected(reply)
        return reply.segments

    async def compile(self, request: GenerateRequest, call: Call) -> str:
        """The form the reply must have as GBNF that this vocabulary can spell (decision 3); "" when it may have any.

        Raises BadInput saying what is wrong with the grammar, schema or contract, and as `count`.
        """
        form = (encodable(request.grammar), request.schema, request.contract)
        if form == ("", None, None):
            return ""
        key = content_key(self._file, [Segment(_form_text(form))])
        known = self._worker.grammars.get(key)
        if known is not None:
            return known
        path, (grammar, schema, contract) = str(self._path), form
        reply = await self._worker.ask(
            lambda number: CheckGrammar(id=number, path=path, grammar=grammar, schema=schema, contract=contract),
            call,
        )
        if not isinstance(reply, Compiled):
            raise self._unexpected(reply)
        self._worker.grammars.put(key, reply.grammar)
        return reply.grammar

    async def _tokens(self, texts: list[list[Segment]], call: Call, *, counts_only: bool, beginning: bool) -> Tokens:
        path = str(self._path)
        reply = await self._worker.ask(
            lambda number: Tokenize(id=number, path=path, texts=texts, counts_only=counts_only, beginning=beginning),
            call,
        )
        if not isinstance(reply, Tokens) or len(reply.counts) != len(texts):
            raise self._unexpected(reply)
        return reply

    def _unexpected(self, reply: Reply) -> Unavailable:
        return Unavailable(f"{self._path}: the tokenizer answered with an unexpected {type(reply).__name__}")


def _form_text(form: tuple[str, Any, Any]) -> str:
    """What was asked for, as a key. Raises BadInput for a schema that cannot travel to the child."""
    grammar, schema, contract = form
    schemas = [schema] if contract is None else [block.schema for block in contract.blocks]
    if any(_nesting(one) > MAX_NESTING for one in schemas):
        raise BadInput(f"the schema is nested more than {MAX_NESTING} deep; make it flatter")
    try:
        return _form_encoder.encode((grammar, schema, contract)).hex()
    except (OverflowError, TypeError, ValueError) as error:
        raise BadInput(f"the schema holds a value that is no plain JSON ({error}); mend it") from error


def _nesting(value: Any) -> int:
    """How many dictionaries and lists stand inside one another; stops counting above the limit."""
    depth, layer = 0, [value]
    while layer and depth <= MAX_NESTING:
        inner = [part for part in layer if isinstance(part, dict | list)]
        layer = [item for part in inner for item in (part.values() if isinstance(part, dict) else part)]
        depth += bool(inner)
    return depth
