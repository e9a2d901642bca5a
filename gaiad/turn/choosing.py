"""How deep a turn goes, by the published table (constants/depth.toml), and whether it may ask for commands."""

from collections.abc import Sequence

from council.asking import Asked, what_is_asked
from council.depth import DepthChoice, Situation, choose_depth, length_of, presence
from council.quorum import Seat
from council.roles import voters
from gaiad.chat_schemas import ChatRequest
from gaiad.turn.company import Company


def choose(company: Company, request: ChatRequest, seats: Sequence[Seat]) -> tuple[DepthChoice, Asked]:
    """The depth, why in words, and what the message asks for."""
    asked = what_is_asked(request.message)
    able = len(voters(seats))
    situation = Situation(
        setting=request.depth or company.config.depth,
        quorum=presence(able, company.rules.quorum.quorum_roles),
        risk=asked.risk,
        length=length_of(company.depths, request.message),
        action=bool(asked.action),
    )
    return choose_depth(company.depths, situation), asked


def may_execute(company: Company, choice: DepthChoice, asked: Asked, seats: Sequence[Seat], *, granted: bool) -> bool:
    """Whether Act may write EXECUTE: something is to be done, the persona has the grant, and there is a quorum."""
    whole = len(voters(seats)) >= company.rules.quorum.quorum_roles
    return granted and bool(asked.action) and whole and choice.depth == "full"
