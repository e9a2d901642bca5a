"""Lets a role give its word beside a turn: ballots, reviews, initiative. The whole stack goes with it (GCP 1).

Such a packet has no history: what is to be judged is its question. It stands in the cognition log like any other.
"""

from contextlib import aclosing

import msgspec

from council.floor import Ask, Said
from council.roles import RoleTable
from gaiad.errors import GaiadError, Unavailable
from gaiad.generation import Generated, GenerateRequest
from gaiad.ids import IdMaker
from gaiad.ports import Call
from gaiad.turn.cognition import Assembler
from gaiad.turn.remembering import Keeper, Sent, logged
from prompts.request import Built


class RoleSpeaker:
    """The council's Speaker on the daemon's models."""

    def __init__(self, assembler: Assembler, keeper: Keeper, ids: IdMaker, roles: RoleTable) -> None:
        self._assembler = assembler
        self._keeper = keeper
        self._ids = ids
        self.roles = roles

    async def say(self, ask: Ask, call: Call) -> Said:
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
            sampling=self.roles.roles[ask.role].sampling,
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
            sent = Sent(
                packet=built.packet,
                manifest=built.manifest,
                request=logged(asked),
                reply={} if reply is None else msgspec.to_builtins(reply),
                failure=failure,
                aside=True,
            )
            kept = self._keeper.keep(ask.session_id, sent, call.tenant)
            await self._keeper.finish(self._keeper.attempt("its packet was not kept", kept))
        if reply is None:
            raise Unavailable(f"{model.name} ended without a reply", 5.0)
        return _said(reply, built, model.name)


def _said(reply: Generated, built: Built, name: str) -> Said:
    return Said(
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
