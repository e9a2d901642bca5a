"""Proactive context measured: `python -m tests.bench.proactive [LOCOMO_FILE] [--pages N]`, as JSON.

How many messages that no packet bears on would show one (it should be 5 of 100 at most), how many of those that one
bears on do and how often it is the right one, and what the look costs in an archive of N pages. The made-up set ships
in proactive_set.toml; of conversations, questions are asked of their own archive, and turns and questions of the other
conversations of it, of which some do speak of the same things: that rate is an upper bound.
"""

import argparse
import asyncio
import json
import random
import time
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from gaiad.base.config import Config, load_config
from gaiad.base.ports import Embedder, RequestContext
from gaiad.bench.made_archive import InventedWords, Mixture, Vectors, make_packet
from gaiad.bench.retrieval_archive import FilledArchive, filled, own_embedder
from gaiad.bench.retrieval_data import Collection, conversation_files, read_conversations, samples_of, sessions
from gaiad.bench.rows import percentile
from gaiad.research.proactive import bearing_on
from gaiad.wire.status import ModelStatus

AIM_UNRELATED, AIM_MS = 0.05, 20.0
_SEED = 7
_QUESTIONS, _FOREIGN_TURNS, _FOREIGN_QUESTIONS = 80, 30, 15  # of each conversation, and of each other one
_SHORTEST = 5  # words of a foreign turn
_TURNS, _WORDS = 12, 40  # of a made-up packet, and of each of its turns: a page each
_ANSWERED = "1234"  # the categories of questions that have an answer
_PACKET = (
    "<transmission_packet><header><id>{}</id><timestamp>2025-03-{:02}T09:30:00Z</timestamp>"
    "<original_model>claude</original_model><topic>{}</topic></header>"
    "<body><summary>{}.</summary><content>{}</content></body></transmission_packet>"
)


class MadeUp(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`packets` are id, topic, text; `related` a message and the packets that bear on it."""

    packets: list[tuple[str, str, str]]
    related: list[list[str]]
    unrelated: list[str]


class MadePages:
    """The embedder for one text at a time, which is what a query is; pages get made-up vectors, which take no hours."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder, self._mixture, self._drawn = embedder, Mixture(embedder.dimension), 0

    @property
    def fingerprint(self) -> str:
        return self._embedder.fingerprint

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    async def embed(self, texts: Sequence[str], call: RequestContext) -> Vectors:
        if len(texts) == 1:
            return await self._embedder.embed(texts, call)
        self._drawn += 1
        return self._mixture.draw(len(texts), self._drawn)

    def status(self) -> ModelStatus:
        return self._embedder.status()


class Tally:
    """Messages, how many of them show a packet, and how many of those the right one."""

    def __init__(self) -> None:
        self.asked = self.shown = self.right = 0

    async def ask(self, archive: FilledArchive, message: str, right: Sequence[str] = ()) -> None:
        found = await bearing_on(archive.archive, message, RequestContext())
        self.asked += 1
        self.shown += bool(found)
        self.right += bool(found) and found[0].packet_id in right

    def rates(self, *, judged: bool) -> dict[str, float]:
        rates = {"messages": float(self.asked), "shown": round(self.shown / max(1, self.asked), 3)}
        return {**rates, "precision": round(self.right / max(1, self.shown), 3)} if judged else rates


def made_up() -> MadeUp:
    """The set that ships."""
    return msgspec.toml.decode(files(__package__).joinpath("proactive_set.toml").read_bytes(), type=MadeUp)


async def made_up_rates(config: Config, embedder: Embedder | None) -> dict[str, Any]:
    """{"related": {messages, shown, precision}, "unrelated": {messages, shown}} of the set that ships."""
    known, related, unrelated = made_up(), Tally(), Tally()
    documents = [
        (f"{name}.xml", _PACKET.format(name, day, topic, topic, text).encode())
        for day, (name, topic, text) in enumerate(known.packets, 1)
    ]
    collection = Collection("made up", documents, [], units={name: name for name, _, _ in known.packets})
    async with filled(collection, config, embedder) as archive:
        for message, *right in known.related:
            await related.ask(archive, message, right)
        for message in known.unrelated:
            await unrelated.ask(archive, message)
    return {"related": related.rates(judged=True), "unrelated": unrelated.rates(judged=False)}


async def conversation_rates(file: Path, config: Config, embedder: Embedder | None) -> dict[str, Any]:
    """The same of conversations: questions about them, and what was said and asked in the others."""
    collections, source = read_conversations(file), random.Random(_SEED)
    turns = _turns(file)
    own, foreign_turns, foreign_questions = Tally(), Tally(), Tally()
    for collection in collections:
        groups = collection.group_of()
        answered = [question for question in collection.questions if question.category in _ANSWERED]
        async with filled(collection, config, embedder) as archive:
            for question in source.sample(answered, min(_QUESTIONS, len(answered))):
                await own.ask(archive, question.text, [groups[turn] for turn in question.evidence])
            for other in collections:
                if other is collection:
                    continue
                said = turns[other.name]
                for message in source.sample(said, min(_FOREIGN_TURNS, len(said))):
                    await foreign_turns.ask(archive, message)
                for asked in source.sample(other.questions, min(_FOREIGN_QUESTIONS, len(other.questions))):
                    await foreign_questions.ask(archive, asked.text)
    return {
        "questions": own.rates(judged=True),
        "foreign_turns": foreign_turns.rates(judged=False),
        "foreign_questions": foreign_questions.rates(judged=False),
    }


def _turns(source: Path) -> dict[str, list[str]]:
    """What was said in each conversation, but for a few words."""
    found: dict[str, list[str]] = {}
    for sample in (one for file in conversation_files(source) for one in samples_of(file)):
        said = [turn["text"] for _, _, turns in sessions(sample) for turn in turns]
        found[str(sample["sample_id"])] = [text for text in said if len(text.split()) >= _SHORTEST]
    return found


async def look_ms(pages: int, config: Config, embedder: Embedder | None) -> dict[str, float]:
    """Milliseconds of a look among so many made-up pages and vectors; the query is really embedded.

    `cpu_p50_ms` is the processor time of it in this process, which other work on the machine does not add to.
    """
    vocabulary, source = InventedWords(_SEED), random.Random(_SEED)
    made = [make_packet(number, _SEED, vocabulary, _TURNS, _WORDS) for number in range(-(-pages // (_TURNS + 3)))]
    documents = [(f"{name}.xml", text.encode()) for name, text in made]
    collection = Collection("speed", documents, [], units={name: name for name, _ in made})
    took, busy = list[float](), list[float]()
    async with filled(collection, config, MadePages(embedder) if embedder else None) as archive:
        held = (await archive.archive.facets(RequestContext())).pages
        for number in range(210):
            message = " ".join(vocabulary.draw(source, 14))
            began, worked = time.perf_counter(), time.process_time()
            await bearing_on(archive.archive, message, RequestContext())
            if number >= 10:
                took.append((time.perf_counter() - began) * 1000)
                busy.append((time.process_time() - worked) * 1000)
    return {
        "pages": float(held),
        "p50_ms": round(percentile(took, 0.5), 2),
        "p95_ms": round(percentile(took), 2),
        "cpu_p50_ms": round(percentile(busy, 0.5), 2),
        "aim_ms": AIM_MS,
    }


async def measure(file: Path | None, pages: int, config: Config, embedder: Embedder | None) -> dict[str, Any]:
    """All of it; without a file no conversations, with 0 pages no times."""
    found: dict[str, Any] = {"aim_unrelated": AIM_UNRELATED, "made_up": await made_up_rates(config, embedder)}
    if file is not None:
        found["conversations"] = await conversation_rates(file, config, embedder)
    if pages:
        found["look"] = await look_ms(pages, config, embedder)
    return found


async def _main(file: Path | None, pages: int) -> None:
    config = load_config()
    async with own_embedder(config) as embedder:
        print(json.dumps(await measure(file, pages, config, embedder), indent=2))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, nargs="?", help="conversations as LoCoMo has them, two or more")
    parser.add_argument("--pages", type=int, default=10_000, help="size of the archive that times are taken in")
    given = parser.parse_args()
    asyncio.run(_main(given.file, given.pages))
