"""How well the check of generated sentences tells a quote that carries one from one that does not, as JSON:
`python -m tests.bench.support LOCOMO_FILE_OR_FOLDER`.

For each question with one piece of evidence the data set's own short answer is held against that turn, and against
another turn of the same conversation, drawn by a fixed seed. The first should stand, the second should not.
"""

import json
import random
import sys
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path
from typing import Any

from gaiad.base.clock import to_iso
from gaiad.bench.retrieval_data import conversation_files, samples_of, sessions
from gaiad.research.thinking.support import COVERED, Passage, unsupported
from gaiad.wire.schemas import Page

_CATEGORIES = (1, 4)  # answers that stand in a turn; dates, guesses and traps do not
_SEED = 1


def measure(source: Path) -> dict[str, Any]:
    """Shares of answers that their evidence carries, and that another turn does. Raises BadInput for a wrong source."""
    draw = random.Random(_SEED)
    counted = carried = carried_elsewhere = 0
    for file in conversation_files(source):
        for sample in samples_of(file):
            turns = dict(_turns(sample))
            for question, answer, turn_id in _answers(sample["qa"], turns):
                other = draw.choice([one for one in turns if one != turn_id])
                counted += 1
                carried += not unsupported(answer, [turns[turn_id]], question, UTC)
                carried_elsewhere += not unsupported(answer, [turns[other]], question, UTC)
    shares = {"on_its_evidence": carried, "on_another_turn": carried_elsewhere}
    return {"questions": counted, "covered": COVERED, **{k: round(v / max(1, counted), 3) for k, v in shares.items()}}


def _turns(sample: dict[str, Any]) -> Iterator[tuple[str, Passage]]:
    for name, said, turns in sessions(sample):
        for turn in turns:
            page = Page(
                page_id=turn["dia_id"],
                packet_id=name,
                session_id="",
                sequence=0,
                section="content",
                path="",
                text=turn["text"],
                start=0,
                end=len(turn["text"].encode()),
                timestamp=to_iso(said),
                speaker=turn["speaker"],
            )
            yield turn["dia_id"], Passage("s1", page, 0, len(page.text))


def _answers(questions: list[dict[str, Any]], turns: dict[str, Passage]) -> Iterator[tuple[str, str, str]]:
    for one in questions:
        evidence = [turn_id for turn_id in one.get("evidence", []) if turn_id in turns]
        if one.get("category") in _CATEGORIES and len(evidence) == 1 and one.get("answer"):
            answer = str(one["answer"])
            yield one["question"], f"{answer[0].upper()}{answer[1:]}.", evidence[0]


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]))))
