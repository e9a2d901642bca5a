"""A home with governance around scripted roles: real files, a real audit, real rounds of voting."""

import asyncio
import json
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path

from council.balloting import Balloting
from council.envelope import Envelope, make_envelope
from council.governance.workflow import Fits
from council.limits import council_limits
from council.ports import Ask, RoleReply
from council.quorum import Seat, council_rules
from council.voting import Voting
from gaiad.base.clock import FrozenClock, to_iso
from gaiad.base.events import EventHub
from gaiad.base.ids import IdMaker
from gaiad.base.ports import RequestContext
from gaiad.identity.keys import KeyFolder
from gaiad.identity.trust import open_identity
from gaiad.ledger.audit import AuditLog, export_lines
from gaiad.service.governance import GovernanceService, open_governance
from gaiad.store.home_databases import HomeDatabases
from gaiad.wire.governance import RfcProposal
from prompts.identity import identity_bytes, shipped_identity

YES = '{"vote": "yes", "confidence": 0.9, "reason": "it helps"}'
NO = '{"vote": "no", "confidence": 0.8, "reason": "it harms"}'
APPROVE = '{"verdict": "approve", "confidence": 0.9, "reasons": ["clear", "safe"]}'
OBJECT = '{"verdict": "object", "confidence": 0.7, "reasons": ["it weakens a rule"]}'


class House:
    """A home with governance. `says[(role, directive)]` is what a role answers; `present` whose seat counts."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.home.mkdir()
        self.environment = {"XDG_CONFIG_HOME": str(root / "config")}
        self.folder = KeyFolder(root / "config" / "gaiad")
        self.clock = FrozenClock(datetime(2025, 12, 1, tzinfo=UTC))
        self.hub = EventHub(self.clock)
        self.databases = HomeDatabases(self.home)
        self.audit = AuditLog.open(self.databases.state, self.clock)
        open_identity(self.home, self.folder, self.audit)
        self.present = ["prime", "lite", "codemind"]
        self.mute: list[str] = []
        self.says: dict[tuple[str, str], str | Exception] = {}
        self.asked: list[Ask] = []
        self.posted: list[tuple[str, Envelope]] = []
        self._ids = IdMaker(self.clock)

    def everybody(self, review: str = APPROVE, ballot: str = YES) -> None:
        for role in ("prime", "lite", "codemind"):
            self.says[(role, "rfc_review")] = review
            self.says[(role, "ballot")] = ballot

    def seats(self) -> list[Seat]:
        return [
            Seat(role=role, active=role in self.present, can_vote=role not in self.mute)
            for role in ("prime", "lite", "codemind")
        ]

    def is_free(self, role: str) -> bool:
        return True

    async def post(self, tenant: str, *, turn_id: str = "", **fields: object) -> Envelope:
        made = make_envelope(full_id=self._ids.make("msg"), timestamp=to_iso(self.clock.now()), **fields)  # type: ignore[arg-type]
        self.posted.append((tenant, made))
        return made

    async def say(self, ask: Ask, call: RequestContext) -> RoleReply:
        self.asked.append(ask)
        await asyncio.sleep(0)
        found = self.says[(ask.role, ask.task_instruction)]
        if isinstance(found, Exception):
            raise found
        return RoleReply(
            text=found, packet_id=f"pkt_{len(self.asked)}", prompt_sha256="", model=f"{ask.role}-model",
            fingerprint="", seed=0, prompt_tokens=0, cached_tokens=0, tokens=0, queue_ms=0, prefill_ms=0, decode_ms=0,
        )  # fmt: skip

    def kinds(self) -> list[str]:
        return [json.loads(line)["kind"] for line in export_lines(self.home)]

    def bodies(self, kind: str) -> list[dict[str, str]]:
        rows = [json.loads(line) for line in export_lines(self.home)]
        return [json.loads(row["body"]) for row in rows if row["kind"] == kind]

    def identity(self, version: str = "1.1.0", word: str = "patience") -> str:
        return identity_bytes(shipped_identity()).decode().replace("1.0.0", version).replace("curiosity", word)

    def governed(self, **more: str) -> RfcProposal:
        fields = {
            "kind": "identity",
            "title": "Patience",
            "text": "Patience first.",
            "identity_toml": self.identity(),
        }
        return RfcProposal(**{**fields, **more})  # type: ignore[arg-type]

    async def open(self, stack: AsyncExitStack, fits: Fits | None = None) -> GovernanceService:
        """Governance as the daemon opens it, closed by `stack`."""
        limits = council_limits().voting
        balloting = Balloting(self, self, Voting(council_rules(), limits), self.audit, self.clock, limits)
        stack.push_async_callback(balloting.close)
        return await open_governance(
            stack,
            self.databases,
            self.clock,
            self.environment,
            audit=self.audit,
            floor=self,
            speaker=self,
            votes=balloting,
            hub=self.hub,
            initiative_every_s=900.0,
            fits=fits,
        )
