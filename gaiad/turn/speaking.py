"""Lets a role give its word beside a turn: ballots, reviews, initiative. The whole stack goes with it (GCP 1).

Such a packet has no history: what is to be judged is its question. It is in the cognition log like any other.
"""

from contextlib import aclosing

from council.ports import Ask, RoleReply
from council.roles import RoleTable
from gaiad.base.errors import GaiadError, Unavailable
from gaiad.base.ids import IdMaker
from gaiad.base.ports import RequestContext
from gaiad.turn.cognition import Assembler
from gaiad.turn.turn_store import TurnStore
from gaiad.wire.generation import Generated, GenerateRequest
from prompts.budget import Built


class RoleSpeaker:
    """The council's Speaker on the daemon's models."""

    def __init__(self, assembler: Assembler, turn_store: TurnStore, ids: IdMaker, roles: RoleTable) -> None:
        self._assembler = assembler
        self._turn_store = turn_store
        self._ids = ids
        self.roles = roles

    async def say(self, ask: Ask, call: RequestContext) -> RoleReply:
        """Raises BadInput, TokenBudgetError, Unavailable (also for a role that only quotes), WorkerDied,
        DeadlineExceeded, Cancelled.
        """
        full_id = self._ids.make("cog")
        if self._assembler.model_of(ask.role).kind == "extractive":
            raise Unavailable(f"{ask.role} has no model that writes; set roles.{ask.role}", 60.0)
        built, model = await self._assembler.judgement(ask, full_id, call)
        asked = GenerateRequest(
            messages=built.messages,
            max_tokens=built.manifest.reserve_tokens,
            sampling=self.roles.roles[ask.role].sampled(model.sampling),
            contract=ask.form.contract,
            schema=ask.form.schema,
        )
        reply: Generated | None = None
        failure = "the call was cut off"
        try:
            async with aclosing(model.generate(asked, call)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, Generated):
                        reply, failure = piece, ""
        except GaiadError as error:
            failure = error.message
            raise
        finally:
            await self._turn_store.keep_aside(ask.session_id, built, asked, reply, failure, call)
        if reply is None:
            raise Unavailable(f"{model.name} ended without a reply", 5.0)
        return _said(reply, built, model.name)


def _said(reply: Generated, built: Built, name: str) -> RoleReply:
    return RoleReply(
        text=reply.text,
        packet_id=built.packet.full_id,
        prompt_sha256=built.manifest.prompt_sha256,
        model=name,
        fingerprint=reply.fingerprint,
        seed=reply.seed,
        prompt_tokens=reply.prompt_tokens,
        cached_tokens=reply.cached_tokens,
        tokens=reply.tokens,
        queue_ms=reply.queue_ms,
        prefill_ms=reply.prefill_ms,
        decode_ms=reply.decode_ms,
    )
