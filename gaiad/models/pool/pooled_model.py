"""A pooled model as the rest of the house sees it: the Model port, which wakes what sleeps when it is asked."""

from collections.abc import AsyncGenerator, Callable

from gaiad.errors import Unavailable
from gaiad.generation import Generated, GenerateRequest, TextDelta
from gaiad.models.pool.pooled import Pooled
from gaiad.models.pool.served import ServedModel
from gaiad.ports import Call, Tokenizer
from gaiad.schemas import ModelStatus

Generate = Callable[[str, GenerateRequest, Call], AsyncGenerator[TextDelta | Generated, None]]


class PooledModel:
    """One model by name; `window` is how many tokens prompt and reply may have together, 0 when nobody knows."""

    def __init__(self, pooled: Pooled, generate: Generate, window: int) -> None:
        self._pooled = pooled
        self._generate = generate
        self.name = pooled.name
        self.kind = pooled.config.kind
        self.window = window

    @property
    def fingerprint(self) -> str:
        return self._served().fingerprint

    @property
    def tokenizer(self) -> Tokenizer:
        """It counts whether or not the model is awake. Raises Unavailable when the model cannot be had at all."""
        return self._served().tokenizer

    def generate(self, request: GenerateRequest, call: Call) -> AsyncGenerator[TextDelta | Generated, None]:
        """As Model.generate; wakes the model first."""
        return self._generate(self.name, request, call)

    def status(self) -> ModelStatus:
        return self._pooled.status("")

    def _served(self) -> ServedModel:
        if self._pooled.served is None:
            raise Unavailable(f"{self.name}: {self._pooled.trouble}", 30.0)
        return self._pooled.served
