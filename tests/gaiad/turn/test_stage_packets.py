"""What each stage of a turn may write: as much as its contract gives it, whatever length the answer was asked for."""

from council.stages import stage_table
from gaiad.base.clock import SystemClock
from gaiad.models.plain.scripted import ScriptedReply
from tests.makers.council_house import House

SAYS = {
    "lite": 'PLAN: {"steps": ["Look up the keeper"]}',
    "prime": [
        ScriptedReply(text='PLAN: {"confidence": 0.8, "steps": ["Name her"]}', match="errors, gaps and risks"),
        ScriptedReply(text="RESPONSE: The keeper is Zephyrine."),
    ],
    "codemind": 'VERIFY: {"outcome": "success", "summary": "it names the keeper"}',
}
ANSWER_TOKENS = 20


async def test_a_short_answer_asked_for_leaves_the_other_stages_their_room(tmp_path, open_archive, config):
    (tmp_path / "house").mkdir()
    house = await House(tmp_path / "house", await open_archive(), SystemClock("UTC"), config, SAYS).open()
    try:
        _, turn = await house.say("Who keeps the lantern?", max_tokens=ANSWER_TOKENS)
        asked = {row.stage: request.max_tokens for row, request in zip(turn.stages, _seen(house, turn), strict=True)}
        table = stage_table().stages
        assert asked == {
            "plan": table["plan"].max_tokens,
            "refine": table["refine"].max_tokens,
            "act": ANSWER_TOKENS,
            "verify": table["verify"].max_tokens,
        }
        reserves = {
            row.stage: (await house.cognition.find("local", row.packet_id)).body.decode() for row in turn.stages
        }
        assert f'"reserve_tokens":{table["plan"].max_tokens}' in reserves["plan"]
        assert f'"reserve_tokens":{ANSWER_TOKENS}' in reserves["act"]
    finally:
        await house.close()


def _seen(house, turn):
    left = {role: iter(model.seen) for role, model in house.models.items()}
    return [next(left[row.role]) for row in turn.stages]
