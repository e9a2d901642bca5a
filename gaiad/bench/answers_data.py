"""What `gaiad bench answers` asks: questions with the packets that answer them, and a hundred that nothing answers."""

import tomllib
from pathlib import Path

import msgspec

from gaiad.bench.retrieval_data import Collection

UNKNOWN = "unknown"
ADVERSARIAL = "5"
"""LoCoMo's category of questions that give to one what another said or did."""
_UNKNOWN_FILE = Path(__file__).with_name("unknown_questions.toml")


class LabelledQuestion(msgspec.Struct, frozen=True):
    """A question and the ids of the packets with its evidence; none for an `unknown` one."""

    text: str
    category: str
    packets: tuple[str, ...] = ()

    @property
    def answerable(self) -> bool:
        return self.category not in (UNKNOWN, ADVERSARIAL)

    @property
    def single(self) -> bool:
        """Answerable, with all its evidence in one packet."""
        return self.answerable and len(self.packets) == 1


class Stranger(msgspec.Struct, frozen=True):
    """A question about what is hardly in an archive, with the words that must stand nowhere in it."""

    text: str
    words: tuple[str, ...]


def labelled(collection: Collection) -> list[LabelledQuestion]:
    """The collection's own questions."""
    groups = collection.group_of()
    return [
        LabelledQuestion(
            question.text, question.category, tuple(dict.fromkeys(groups[unit] for unit in question.evidence))
        )
        for question in collection.questions
    ]


def strangers() -> list[Stranger]:
    """The shipped hundred."""
    rows = tomllib.loads(_UNKNOWN_FILE.read_text(encoding="utf-8"))["questions"]
    return [Stranger(text, tuple(words)) for text, *words in rows]
