"""Stands for a model where a packet is only shown: it is never asked, and what it would have been asked is noted."""

from collections.abc import AsyncGenerator

from gaiad.errors import Unavailable
from gaiad.generation import Generated, GenerateRequest, TextDelta
from gaiad.models.pool.pooled_model import PooledModel
from gaiad.ports import Call, Tokenizer
from gaiad.status_schemas import ModelStatus


class Unasked:
    """The Model port of `model`, for one `work` in words; a request for it is refused and leaves a line in `notes`."""

    def __init__(self, model: PooledModel, work: str, notes: list[str]) -> None:
        self._model = model
        self._note = f"a turn would ask {model.name} {work}; a dry run asks no model"
        self._notes = notes

    @property
    def fingerprint(self) -> str:
        return self._model.fingerprint

    @property
    def tokenizer(self) -> Tokenizer:
        return self._model.tokenizer

    def generate(self, request: GenerateRequest, call: Call) -> AsyncGenerator[TextDelta | Generated, None]:
        """Raises Unavailable at once, which callers of a model are ready for."""
        if self._note not in self._notes:
            self._notes.append(self._note)
        raise Unavailable(f"{self._model.name} is not asked in a dry run")

    def status(self) -> ModelStatus:
        return self._model.status()
