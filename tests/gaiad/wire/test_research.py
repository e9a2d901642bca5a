"""The seed's own example payload goes in and comes out the same, to the last digit; what is misspelt is refused."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gaiad.wire.research import ResearchAgentPayload, wire_name

EXAMPLE = Path(__file__).parents[2] / "data" / "research_payload_example.json"


@pytest.fixture
def example() -> dict[str, Any]:
    return json.loads(EXAMPLE.read_text())  # type: ignore[no-any-return]


def test_the_example_comes_back_without_loss(example: dict[str, Any]) -> None:
    payload = msgspec.json.decode(EXAMPLE.read_bytes(), type=ResearchAgentPayload)
    again = json.loads(msgspec.json.encode(payload))
    assert json.dumps(again, sort_keys=True) == json.dumps(example, sort_keys=True)


def test_counts_that_do_not_add_up_are_read_all_the_same(example: dict[str, Any]) -> None:
    payload = msgspec.convert(example, ResearchAgentPayload)
    assert payload.metadata.total_sources_gathered == 12
    assert len(payload.sources) == 2


def test_an_empty_optional_text_is_not_an_absent_one(example: dict[str, Any]) -> None:
    example["sources"][0]["author"] = ""
    del example["sources"][0]["url"]
    source = json.loads(msgspec.json.encode(msgspec.convert(example, ResearchAgentPayload)))["sources"][0]
    assert source["author"] == ""
    assert "url" not in source


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (("metadata", "status"), "finished", "Invalid enum value 'finished' - at `$.metadata.status`"),
        (("metadata", "iterationCount"), "3", "at `$.metadata.iterationCount`"),
        (("plan", "searchterms"), [], "unknown field `searchterms` - at `$.plan`"),
    ],
)
def test_what_is_no_payload_is_refused_with_its_place(
    example: dict[str, Any], place: tuple[str, str], value: object, said: str
) -> None:
    example[place[0]][place[1]] = value
    with pytest.raises(msgspec.ValidationError) as refused:
        msgspec.convert(example, ResearchAgentPayload)
    assert said in str(refused.value)


def test_names_are_spelt_as_the_seed_spells_them() -> None:
    spelt = [wire_name(name) for name in ("source_id", "related_fact_ids", "source_a", "impact_on_findings", "url")]
    assert spelt == ["sourceID", "relatedFactIDs", "sourceA", "impactOnFindings", "url"]
