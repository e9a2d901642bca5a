"""Makes a field shorter, just in time (GCP 4.2): sentences of its own, else Lite's words, else Prime's, else an error.

Nothing is kept between calls. Every pass is reported for the log, with what went wrong on the rungs before; a model
that cannot be had just now is such a reason and not the end, and so is one that takes more than its share of the time.
"""

import re
from collections.abc import Callable, Sequence
from contextlib import aclosing
from itertools import pairwise
from textwrap import wrap
from typing import TYPE_CHECKING, Literal

import msgspec

from gaiad.base.clock import Clock
from gaiad.base.errors import BadInput, DeadlineExceeded, GaiadError, TokenBudgetError, Unavailable
from gaiad.base.ports import Embedder, Model, RequestContext, Tokenizer
from gaiad.wire.generation import ChatMessage, Generated, GenerateRequest, Sampling, Segment
from prompts.load import CompressorWords, fill
from prompts.packet import SUMMARY_TAG, Field

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

MOST_SENTENCES = 64
MOST_CHARACTERS = 6_000
LONGEST_SENTENCE = 400
_RELEVANCE = 0.5
_DECIMALS = 4
_END = re.compile(r"(?<=[.!?…。！？])[\"'”’)\]]*\s+|\s*[\r\n]+\s*")
_TELLING = re.compile(r"\d+|\b[^\W\d_a-z]\w*")


def split_sentences(text: str) -> list[str]:
    """Sentences and lines without surrounding white space, in order; nothing but white space is lost.

    One of more than LONGEST_SENTENCE characters is cut between words: a log or a table has no full stops.
    """
    cuts = [0, *(found.end() for found in _END.finditer(text)), len(text)]
    pieces = (text[start:stop].strip() for start, stop in pairwise(cuts))
    return [part for piece in pieces if piece for part in _short_enough(piece)]


def most_telling(sentences: Sequence[str], most: int = MOST_SENTENCES, characters: int = MOST_CHARACTERS) -> list[str]:
    """At most `most`: of each equal stretch of the text the sentence with most names and numbers for its length.

    Fewer when they are long, about `characters` in all: embedding costs time by the word, and every part of a long text
    should have its say.
    """
    unique = list(dict.fromkeys(sentences))
    size = sum(map(len, unique))
    limit = min(most, max(1, characters * len(unique) // max(1, size)))
    if len(unique) <= limit:
        return unique
    bounds = [index * len(unique) // limit for index in range(limit + 1)]
    return [max(unique[start:stop], key=_telling) for start, stop in pairwise(bounds)]


def choose_sentences(vectors: "Vectors", costs: Sequence[int], limit: int) -> list[int]:
    """Indexes of sentences in the order of their worth, together at most `limit` tokens; perhaps none.

    `vectors` has a unit row for each sentence, `costs` its tokens.
    """
    import numpy as np

    middle = vectors.mean(axis=0)
    length = float(np.linalg.norm(middle))
    relevance = np.round(vectors @ (middle / length if length else middle), _DECIMALS)
    likeness = np.round(vectors @ vectors.T, _DECIMALS)
    nearest = np.zeros(len(costs), dtype=np.float32)
    left, open_, chosen = limit, np.ones(len(costs), dtype=bool), list[int]()
    while True:
        open_ &= np.asarray(costs) <= left
        if not open_.any():
            return chosen
        worth = np.round(_RELEVANCE * relevance - (1 - _RELEVANCE) * nearest, _DECIMALS)
        best = int(np.argmax(np.where(open_, worth, -np.inf)))
        chosen.append(best)
        open_[best] = False
        left -= costs[best]
        nearest = np.maximum(nearest, likeness[best])


def _short_enough(sentence: str) -> list[str]:
    if len(sentence) <= LONGEST_SENTENCE:
        return [sentence]
    wrapped = wrap(sentence, LONGEST_SENTENCE, expand_tabs=False, replace_whitespace=False, break_on_hyphens=False)
    return [part for line in wrapped if (part := line.strip())]


def _telling(sentence: str) -> float:
    return len(_TELLING.findall(sentence)) / (len(sentence) + 20)


_RUNG_SHARE = 0.25  # of the time that the call has left: the answer is still to be written
CompressionPass = Literal["extractive", "lite", "prime"]


class BudgetOverrun(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="TOKEN_BUDGET_OVERRUN"):
    """One compression, for the log. `failures` says why earlier rungs did not do; `method` "" when none did."""

    field: Field
    original_tokens: int
    target_tokens: int
    compressed_tokens: int
    method: CompressionPass | Literal[""]
    ms: float
    failures: list[str]


class Compressed(msgspec.Struct, frozen=True):
    """`text` begins with SUMMARY_TAG; `tokens` counts all of it."""

    text: str
    tokens: int
    method: CompressionPass


class Compressor:
    """The ladder with the rungs there are; None is one that is not. `report` hears of every pass."""

    def __init__(
        self,
        embedder: Embedder | None,
        lite: Model | None,
        prime: Model | None,
        clock: Clock,
        report: Callable[[BudgetOverrun], None],
    ) -> None:
        self._embedder = embedder
        self._models: tuple[tuple[CompressionPass, Model | None], ...] = (("lite", lite), ("prime", prime))
        self._clock = clock
        self._report = report

    async def summarize_field(
        self,
        field: Field,
        text: str,
        target_tokens: int,
        tokenizer: Tokenizer,
        call: RequestContext,
        original_tokens: int | None = None,
    ) -> Compressed:
        """`text` in at most `target_tokens` of `tokenizer`, SUMMARY_TAG included; `original_tokens` if they are known.

        Raises TokenBudgetError when no rung reaches that, Cancelled, DeadlineExceeded.
        """
        begun = self._clock.monotonic()
        original = original_tokens or (await tokenizer.count([[Segment(text)]], call))[0]
        failures: list[str] = []
        found = await self._climb(text, target_tokens, tokenizer, call, failures)
        self._report(
            BudgetOverrun(
                field=field,
                original_tokens=original,
                target_tokens=target_tokens,
                compressed_tokens=found.tokens if found else original,
                method=found.method if found else "",
                ms=(self._clock.monotonic() - begun) * 1e3,
                failures=failures,
            )
        )
        if found is None:
            raise TokenBudgetError(
                f"{field} has {original} tokens, at most {target_tokens} fit, and it could not be made shorter "
                f"({'; '.join(failures)}); shorten it by {original - target_tokens} tokens or raise the MTU",
                ((field, original, target_tokens),),
            )
        return found

    async def _climb(
        self, text: str, target: int, tokenizer: Tokenizer, call: RequestContext, failures: list[str]
    ) -> Compressed | None:
        try:
            if found := await self._extract(text, target, tokenizer, self._share(call), failures):
                return found
        except (Unavailable, DeadlineExceeded) as error:
            failures.append(f"extractive: {self._still_in_time(error, call)}")
        before: Model | None = None
        for name, model in self._models:
            if model is None:
                failures.append(f"{name}: no model that writes")
                continue
            if before is not None and before.fingerprint == model.fingerprint:
                failures.append(f"{name}: the model that was asked already")
                continue
            before = model
            try:
                if found := await _rewrite(name, model, text, target, tokenizer, self._share(call), failures):
                    return found
            except (Unavailable, BadInput, DeadlineExceeded) as error:
                failures.append(f"{name}: {self._still_in_time(error, call)}")
        return None

    def _share(self, call: RequestContext) -> RequestContext:
        return call.share(_RUNG_SHARE, self._clock.monotonic())

    def _still_in_time(self, error: GaiadError, call: RequestContext) -> str:
        """Why a rung did not do. Raises Cancelled and DeadlineExceeded when it is the whole call that is over."""
        call.check(self._clock.monotonic())
        return error.message

    async def _extract(
        self, text: str, target: int, tokenizer: Tokenizer, call: RequestContext, failures: list[str]
    ) -> Compressed | None:
        if self._embedder is None:
            failures.append("extractive: no embedder")
            return None
        sentences = most_telling(split_sentences(text))
        costs = await tokenizer.count([[Segment(f" {sentence}")] for sentence in sentences], call)
        tag = (await tokenizer.count([[Segment(SUMMARY_TAG)]], call))[0]
        if not any(cost <= target - tag for cost in costs):
            failures.append(f"extractive: no sentence has {max(0, target - tag)} tokens or fewer")
            return None
        chosen = choose_sentences(await self._embedder.embed(sentences, call), costs, target - tag)
        while chosen:
            summary = _tagged(" ".join(sentences[index] for index in sorted(chosen)))
            tokens = (await tokenizer.count([[Segment(summary)]], call))[0]
            if tokens <= target:
                return Compressed(summary, tokens, "extractive")
            chosen.pop()
        failures.append(f"extractive: with its tag no sentence fits {target} tokens")
        return None


async def _rewrite(
    name: CompressionPass,
    model: Model,
    text: str,
    target: int,
    tokenizer: Tokenizer,
    call: RequestContext,
    failures: list[str],
) -> Compressed | None:
    """What the model makes of it, asked once; None when that is empty, cut off or still too long."""
    section = text.replace("<<END", "<< END")
    prompt = fill(CompressorWords(target_tokens=str(target), section=section))
    request = GenerateRequest(
        messages=[ChatMessage(role="user", content=[Segment(prompt.rstrip("\n"))])],
        max_tokens=max(1, target),
        seed=0,
        sampling=Sampling(temperature=0.0),
    )
    written = ""
    async with aclosing(model.generate(request, call)) as parts:
        async for part in parts:
            if isinstance(part, Generated):
                written = " ".join(part.text.split()) if part.reason != "length" else ""
    if not written:
        failures.append(f"{name}: wrote nothing, or did not finish")
        return None
    summary = _tagged(written)
    tokens = (await tokenizer.count([[Segment(summary)]], call))[0]
    if tokens <= target:
        return Compressed(summary, tokens, name)
    failures.append(f"{name}: wrote {tokens} tokens instead of {target}")
    return None


def _tagged(text: str) -> str:
    return f"{SUMMARY_TAG} {text}"
