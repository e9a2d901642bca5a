"""How sure the synthesis says the answer is, and what takes most from it."""

from typing import Any


async def test_a_takeaway_of_a_packet_without_a_topic_says_its_sentence_once(
    memory: Any, page: Any, make_payload: Any
) -> None:
    said = "The float switch is wired by Mara, who learned it from an electrician in the harbour of Porto long ago."
    for topic, first in (("", said), ("Wiring", f"Wiring: {said}")):
        run = await make_payload(memory([page(said, topic=topic)]), "Who wired the float switch?")
        assert run.synthesis.key_takeaways[0] == first


async def test_the_assessment_tells_likelihood_and_the_main_reason(memory: Any, page: Any, make_payload: Any) -> None:
    alike = [page("The float switch is wired by Mara.", f"tp-{number}") for number in range(1, 6)]
    nearness = {one.page_id: 0.55 for one in alike} | {"tp-1/0": 0.6}
    run = await make_payload(memory(alike, cosines=nearness), "Where is the float switch wired?")
    unsure = run.synthesis.confidence_assessment
    assert "Of the last iteration: likelihood 0." in unsure
    sure = (await make_payload(memory(alike[:1]), "Where is the float switch wired?")).synthesis.confidence_assessment
    assert "Mainly because" not in sure
    assert "Of the last iteration: likelihood 0." in sure
