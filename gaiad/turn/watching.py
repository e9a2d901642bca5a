"""Puts an observer beside an Act stream: the rules always, the observing role's model at full depth."""

from collections.abc import Collection

from council.observer import Observer, Windows
from council.observer_rules import ObserverRules
from council.quorum import Seat
from council.roles import assign_stage
from council.stages import Marker
from gaiad.clock import Clock
from gaiad.ports import Call
from gaiad.turn.company import Company
from gaiad.turn.gathering import Names
from gaiad.turn.stage_call import StageCall


def watch(
    company: Company,
    stage: StageCall,
    names: Names,
    seats: list[Seat],
    call: Call,
    clock: Clock,
    *,
    allowed: Collection[Marker],
    windows: bool,
) -> Observer:
    """`windows` is whether a model may read along; it does so only when the settings let it and a role can."""
    packet = stage.built.packet
    rules = ObserverRules((packet.identity, packet.role_text, packet.task_instruction), allowed, company.observed)
    reader = (
        assign_stage(company.rules.roles, "observe", seats) if windows and company.config.observer_windows else None
    )
    if reader is None:
        return Observer(rules)
    return Observer(
        rules,
        Windows(
            role=reader.role,
            floor=company.room,
            speaker=company.speaker,
            clock=clock,
            limits=company.rules.limits.observer,
            call=call,
            max_tokens=company.rules.stages.stages["observe"].max_tokens,
            question=packet.user_prompt,
            turn_id=names.turn_id,
            session_id=names.session_id,
        ),
    )
