"""What a command goes through before a person is asked (GCP 3.1, decisions 10 and 13): a review, then the vote.

The reviewing role, never the proposer, reads each command alone; its no is a veto. What it lets through is voted on.
Commands are exact arguments, bound by their SHA-256 from here on. Nothing runs here, and approval is the person's.
"""

import asyncio
import re
import shlex
from collections.abc import Sequence
from hashlib import sha256
from typing import Annotated, Literal, NamedTuple

import msgspec

from council.balloting import Balloting
from council.envelope import Envelope, struct_content
from council.limits import ExecuteLimits
from council.observer_rules import without_secrets
from council.ports import Ask, CouncilRoom, Speaker
from council.quorum import council_rules
from council.roles import Role, RoleTable, assign_reviewer, voters
from council.stage_output import read_marked, without_fence
from council.stages import Command, Form, fitted_schema
from gaiad.base.clock import Clock
from gaiad.base.errors import BadInput, Cancelled, DeadlineExceeded, GaiadError, Unavailable
from gaiad.base.logs import get_logger
from gaiad.base.ports import Audit, RequestContext
from gaiad.wire.council import VoteRecord
from prompts.packet import WorkItem

REASON_CHARACTERS = 300
_CUT_REVIEW = re.compile(
    r'(\{\s*"verdict"\s*:\s*"(?:accept|reject)"\s*,\s*"reason"\s*:\s*"(?:[^"\\]|\\.){8,300})\\?', re.DOTALL
)


class CommandReview(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the reviewing role writes (JSON) of a command: whether it may be voted on, and what it does."""

    verdict: Literal["accept", "reject"]
    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=REASON_CHARACTERS)]


def review_form(max_tokens: int) -> Form:
    """What a review of at most `max_tokens` is held to."""
    return Form(schema=fitted_schema(CommandReview, max_tokens))


def argv_sha256(argv: Sequence[str]) -> str:
    """SHA-256 of the exact arguments, each with a zero byte behind it: `printf '%s\\0' ARGUMENTS... | sha256sum`.

    Raises BadInput for arguments that no process can be given.
    """
    if not argv or not argv[0]:
        raise BadInput("a command without a program; give its name as the first argument")
    if any("\0" in part for part in argv):
        raise BadInput(f"command {argv[0]!r}: an argument holds a zero byte; leave it out")
    try:
        return sha256(b"".join(part.encode() + b"\0" for part in argv)).hexdigest()
    except UnicodeEncodeError as error:
        raise BadInput(f"command {argv[0]!r}: an argument is not text ({error.reason}); write it in Unicode") from error


def read_review(text: str) -> CommandReview:
    """A reply under the review's schema, also when it was cut within its reason. All else is a reject: doubt is one.

    A reason that shows a secret is withheld.
    """
    found = _read(text)
    return msgspec.structs.replace(found, reason=without_secrets(found.reason))


def _read(text: str) -> CommandReview:
    marked = read_marked(text.encode("utf-8", "replace").decode(), "REVIEW")
    body = without_fence("\n".join(block.body for block in marked.blocks))
    try:
        return msgspec.json.decode(body, type=CommandReview)
    except msgspec.DecodeError:
        if (cut := _CUT_REVIEW.fullmatch(body)) and (whole := _whole(f'{cut[1]}"}}')):
            return whole
        return CommandReview(verdict="reject", reason="its review cannot be read")


def _whole(body: str) -> CommandReview | None:
    try:
        return msgspec.json.decode(body, type=CommandReview)
    except msgspec.DecodeError:
        return None


REVIEW_INSTRUCTION = "execute_review"
_SHOWN_REQUEST_CHARACTERS = 600
_log = get_logger("gaiad.execute_review")


class Considered(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one command. `sha256` is its arguments', which an approval is bound to.

    `may_ask` is whether a person may be asked to approve it; `told` is for that person. `reviewer` is "" where nobody
    reviewed; a veto's `vote` has the review's message as its proposal, and no ballots.
    """

    command: Command
    sha256: str
    may_ask: bool
    vote: VoteRecord
    told: str
    reviewer: str = ""


class ExecuteReview:
    """One for a council; holds nothing between turns."""

    def __init__(
        self,
        floor: CouncilRoom,
        speaker: Speaker,
        balloting: Balloting,
        audit: Audit,
        clock: Clock,
        roles: RoleTable,
        limits: ExecuteLimits,
    ) -> None:
        self._floor = floor
        self._speaker = speaker
        self._balloting = balloting
        self._audit = audit
        self._clock = clock
        self._roles = roles
        self._limits = limits
        self._rules = council_rules()

    async def consider(
        self,
        commands: Sequence[Command],
        proposer: Role,
        call: RequestContext,
        *,
        request: str,
        turn_id: str,
        session_id: str = "",
    ) -> list[Considered]:
        """Each command in its order, equal ones once. `request` is what the user asked.

        What fails on its way is refused and says why; only Cancelled is raised, and Unavailable when a review cannot be
        put on record.
        """
        found: list[Considered] = []
        wanted = _distinct(commands)
        whole = call.share(self._limits.call_share, self._clock.monotonic())
        for command in wanted:
            if len(found) >= self._limits.most_commands:
                found.append(_refused(command, f"a turn may ask for {self._limits.most_commands} commands"))
                continue
            left = min(len(wanted), self._limits.most_commands) - len(found)
            own = whole.share(1 / left, self._clock.monotonic())
            case = _Case(command, proposer, request, own, turn_id, session_id)
            found.append(await self._consider(case))
        return found

    async def _consider(self, case: "_Case") -> Considered:
        try:
            digest = argv_sha256(case.command.argv)
            seats = await self._balloting.seats(case.call)
        except (BadInput, DeadlineExceeded) as error:
            return _refused(case.command, error.message)
        if len(voters(seats)) < self._rules.quorum_roles:
            return await self._vote(case, digest, None)
        reviewed = await self._review(case)
        if isinstance(reviewed, str):
            return _refused(case.command, reviewed, digest)
        paper = await self._record_review(case, digest, reviewed)
        if reviewed.review.verdict == "reject":
            return _vetoed(case, digest, reviewed, paper.full_id)
        return await self._vote(case, digest, reviewed)

    async def _review(self, case: "_Case") -> "_Reviewed | str":
        """The word of the reviewing role, or of who stands in for it; why there is none when nobody could give one."""
        lost: dict[str, str] = {}
        while True:
            here = [seat for seat in self._floor.seats() if seat.role not in lost]
            role = assign_reviewer(self._roles, here, case.proposer)
            if role is None:
                failed = "".join(f"; {role}: {why}" for role, why in lost.items())
                return f"only {case.proposer}, who proposed it, could review it{failed}"
            try:
                text = await self._ask(case, role)
            except Cancelled:
                raise
            except (GaiadError, TimeoutError) as error:
                lost[role] = str(error) or "it wrote nothing before its deadline"
                _log.warning("no_review", role=role, turn_id=case.turn_id, why=lost[role])
            else:
                return _Reviewed(role, read_review(text))

    async def _ask(self, case: "_Case", role: Role) -> str:
        now = self._clock.monotonic()
        case.call.check(now)
        ask = Ask(
            role=role,
            task_instruction=REVIEW_INSTRUCTION,
            subject="Whether the quoted command may be put to the vote.",
            work=_parts(case),
            form=review_form(self._limits.review_tokens),
            max_tokens=self._limits.review_tokens,
            turn_id=case.turn_id,
            session_id=case.session_id,
        )
        half = case.call.share(0.5, now)  # the other half is the vote's
        review_s = self._limits.review_s if half.deadline is None else min(self._limits.review_s, half.deadline - now)
        async with asyncio.timeout(review_s):
            return (await self._speaker.say(ask, case.call.until(now + review_s))).text

    async def _record_review(self, case: "_Case", digest: str, reviewed: "_Reviewed") -> Envelope:
        body = {
            "argv": list(case.command.argv),
            "sha256": digest,
            "proposer": case.proposer,
            "verdict": reviewed.review.verdict,
            "reason": reviewed.review.reason,
        }
        paper = await self._floor.post(
            case.call.tenant,
            sender=reviewed.role,
            role="reviewer",
            type="INFO",
            content=struct_content(body),
            turn_id=case.turn_id,
        )
        row = {**body, "review_id": paper.full_id, "turn_id": case.turn_id}
        row["reason_sha256"] = sha256(str(row.pop("reason")).encode("utf-8", "replace")).hexdigest()
        await self._audit.append("council.review", reviewed.role, row, case.call)
        return paper

    async def _vote(self, case: "_Case", digest: str, reviewed: "_Reviewed | None") -> Considered:
        """Put it to the vote; without a quorum that says so and asks nobody."""
        try:
            _, vote = await self._balloting.decide(
                case.call.tenant,
                "execute",
                case.proposer,
                f"Whether the quoted command may be run. SHA-256 of its arguments: {digest}",
                case.call,
                work=_parts(case, reviewed),
                audited={"argv": list(case.command.argv), "sha256": digest},
                turn_id=case.turn_id,
                session_id=case.session_id,
            )
        except (DeadlineExceeded, Unavailable) as error:
            return _refused(case.command, f"it could not be voted on: {error.message}", digest)
        return Considered(
            command=case.command,
            sha256=digest,
            may_ask=vote.may_proceed and reviewed is not None,
            vote=msgspec.structs.replace(vote, subject=f"{_shown(case.command)}: {vote.subject}"),
            told=_told(case.command, digest, vote, reviewed),
            reviewer=reviewed.role if reviewed else "",
        )


class _Case(NamedTuple):
    command: Command
    proposer: Role
    request: str
    call: RequestContext
    turn_id: str
    session_id: str


class _Reviewed(NamedTuple):
    role: Role
    review: CommandReview


def _distinct(commands: Sequence[Command]) -> list[Command]:
    """The first of those with the same arguments."""
    first: dict[tuple[str, ...], Command] = {}
    for command in commands:
        first.setdefault(command.argv, command)
    return list(first.values())


def _shown(command: Command) -> str:
    """The command as a shell would take it; characters that hide or move text on a screen are spelled out."""
    line = shlex.join(command.argv)
    return f"`{line if line.isprintable() else ' '.join(map(ascii, command.argv))}`"


def _parts(case: _Case, reviewed: _Reviewed | None = None) -> tuple[WorkItem, ...]:
    """The command as reviewers and voters read it: untrusted words of models, and of the user."""
    exact = msgspec.json.encode(case.command.argv).decode()
    parts = [
        WorkItem("COMMAND", f"{_shown(case.command)}\nexactly {exact}", case.proposer),
        WorkItem("REASON", _one_line(case.command.why) or "no reason was given", case.proposer),
        WorkItem("REQUEST", case.request[:_SHOWN_REQUEST_CHARACTERS], "user"),
    ]
    if reviewed is not None:
        parts.append(WorkItem("REVIEW", _one_line(reviewed.review.reason), reviewed.role))
    return tuple(part for part in parts if part.text.strip())


def _one_line(text: str) -> str:
    """A reason on one line and bounded, so that it cannot look like several."""
    plain = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(plain.split())[:REASON_CHARACTERS]


def _told(command: Command, digest: str, vote: VoteRecord, reviewed: _Reviewed | None) -> str:
    """What the person reads before approving, or instead of it."""
    if reviewed is None:
        return f"{_shown(command)} is refused, without a review. Vote: {vote.reason}"
    if not vote.may_proceed:
        return f"{_shown(command)} is refused. Vote: {vote.reason}"
    said = _one_line(reviewed.review.reason).rstrip(".")
    return (
        f"{_shown(command)} may run when you approve it. Review by {reviewed.role}: {said}. Vote: {vote.reason}. "
        f"SHA-256 of its arguments: {digest}"
    )


def _vetoed(case: _Case, digest: str, reviewed: _Reviewed, review_id: str) -> Considered:
    reason = f"{reviewed.role} rejected it in review: {_one_line(reviewed.review.reason)}"
    made = _refused(case.command, reason, digest, review_id)
    return msgspec.structs.replace(made, reviewer=reviewed.role)


def _refused(command: Command, reason: str, digest: str = "", proposal_id: str = "") -> Considered:
    """A command that nobody votes on, and why."""
    shown = _shown(command)
    vote = VoteRecord(
        proposal_id=proposal_id,
        matter="execute",
        subject=shown,
        passed=False,
        may_proceed=False,
        reduced_quorum=False,
        reason=reason,
    )
    return Considered(command=command, sha256=digest, may_ask=False, vote=vote, told=f"{shown} is refused: {reason}")
