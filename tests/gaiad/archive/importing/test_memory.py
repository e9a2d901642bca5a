"""What a large conversation costs in memory while it is stored."""

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from gaiad.archive.importing.kinds import KINDS
from gaiad.archive.importing.sample import Sample
from gaiad.archive.importing.source import Source, sources
from gaiad.archive.reading.conversation import Conversation, write_conversation
from tests.makers.exports import chatgpt, chatgpt_node

SIZE = 8 * 1024 * 1024


@pytest.mark.parametrize("alone", [False, True])
def test_a_large_conversation_is_kept_as_its_record_and_its_words_only(tmp_path: Path, alone: bool) -> None:
    export: Any = chatgpt(chatgpt_node("q", "root", "user", "word " * (SIZE // 5)))
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps(export if alone else [export]))
    (source,) = sources(path)
    assert isinstance(source, Source)
    tracemalloc.start()
    try:
        sample = Sample(source)
        kind = next(each for each in KINDS if each.recognises(sample))
        reading = kind.read(sample)
        conversation = next(reading)
        assert isinstance(conversation, Conversation)
        assert tracemalloc.get_traced_memory()[0] < 2.3 * SIZE
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        data = write_conversation(conversation, "p", "s", {})
        assert tracemalloc.get_traced_memory()[1] - before < 1.8 * len(data)
    finally:
        tracemalloc.stop()
    assert list(reading) == []
