"""Makes a field shorter, just in time (GCP 4.2): sentences of its own, else Lite's words, else Prime's, else an error.

Nothing is kept between calls. Every pass is told to whoever logs it, with what went wrong on the rungs before; a model
that cannot be had just now is such a reason and not the end, and so is one that takes more than its share of the time.
"""

from collections.abc import Callable
from contextlib import aclosing
from typing import Literal

import msgspec

from gaiad.clock import Clock
from gaiad.errors import BadInput, DeadlineExceeded, GaiadError, TokenBudgetError, Unavailable
from gaiad.generation import ChatMessage, Generated, GenerateRequest, Sampling, Segment
from gaiad.ports import Call, Embedder, Model, Tokenizer
from prompts.load import fill
from prompts.packet import SUMMARY_TAG, Field
from prompts.sentences import choose_sentences, most_telling, split_sentences
from prompts.uses import CompressorWords

_RUNG_SHARE = 0.25  # of the time that the call has left: the answer is still to be written
Pass = Literal["extractive", "lite", "prime"]


class BudgetOverrun(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="TOKEN_BUDGET_OVERRUN"):
    """One compression, for the log. `failures` says why earlier rungs did not do; `method` "" when none did."""

    field: Field
    original_tokens: int
    target_tokens: int
    compressed_tokens: int
    method: Pass | Literal[""]
    ms: float
    failures: list[str]


class Compressed(msgspec.Struct, frozen=True):
    """`text` begins with SUMMARY_TAG; `tokens` counts all of it."""

    text: str
    tokens: int
    method: Pass


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
        self._models: tuple[tuple[Pass, Model | None], ...] = (("lite", lite), ("prime", prime))
        self._clock = clock
        self._report = report

    async def summarize_field(
        self,
        field: Field,
        text: str,
        target_tokens: int,
        tokenizer: Tokenizer,
        call: Call,
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
        self, text: str, target: int, tokenizer: Tokenizer, call: Call, failures: list[str]
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

    def _share(self, call: Call) -> Call:
        return call.share(_RUNG_SHARE, self._clock.monotonic())

    def _still_in_time(self, error: GaiadError, call: Call) -> str:
        """Why a rung did not do. Raises Cancelled and DeadlineExceeded when it is the whole call that is over."""
        call.check(self._clock.monotonic())
        return error.message

    async def _extract(
        self, text: str, target: int, tokenizer: Tokenizer, call: Call, failures: list[str]
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
    name: Pass, model: Model, text: str, target: int, tokenizer: Tokenizer, call: Call, failures: list[str]
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
        failures.append(f"{name}: wrote nothing, or no end")
        return None
    summary = _tagged(written)
    tokens = (await tokenizer.count([[Segment(summary)]], call))[0]
    if tokens <= target:
        return Compressed(summary, tokens, name)
    failures.append(f"{name}: wrote {tokens} tokens instead of {target}")
    return None


def _tagged(text: str) -> str:
    return f"{SUMMARY_TAG} {text}"
