"""What counts of a stage's words: whole steps, verdicts of models that can tell, and no words of the prompt."""

from hypothesis import given, settings
from hypothesis import strategies as st

from council.observer_rules import ObserverRules, observer_table
from council.stages import Plan, RefinedPlan, Verification, stage_form
from gaiad.bench.conversation import leaks
from gaiad.turn.answers import of_request, step_characters, usable, verdict_text
from prompts.identity import identity_text, shipped_identity
from prompts.messages import own_texts
from prompts.packet import CognitionPacket

IDENTITY = identity_text(shipped_identity())
WORDS = IDENTITY.split()
PLACES = st.integers(0, len(WORDS) - 1)
OURS = st.builds(lambda start, count: " ".join(WORDS[start : start + count]), PLACES, st.integers(1, 14))
PIECES = st.lists(
    OURS | st.sampled_from(["I am glad.", "An egg boils.", "so to say", "Well:\n", "- one\n- two\n"]), max_size=8
)
PACKET = CognitionPacket(
    packet_id="p",
    full_id="cog_p",
    turn_id="t",
    parent_id=None,
    timestamp="2026-01-01T00:00:00Z",
    mtu=1000,
    identity=IDENTITY,
    persona="",
    role="prime",
    role_text="",
    task_instruction_key="act",
    task_instruction="",
    history=[],
    context=[],
    user_prompt="Tell me who you are",
)


@settings(max_examples=200)
@given(PIECES)
def test_of_no_reply_eight_words_in_a_row_of_the_prompt_are_shown(pieces: list[str]) -> None:
    table, own = observer_table(), own_texts(PACKET)
    rules = ObserverRules(own, ["RESPONSE"], table, PACKET.user_prompt)
    released = rules.feed(" ".join(pieces)) + rules.finish()
    assert not leaks(released, own, [PACKET.user_prompt])
    kept, _ = usable(released, rules.violation.rule if rules.violation else "", PACKET, table.repetition)
    assert not leaks(kept, own, [PACKET.user_prompt])


def test_a_step_that_names_nothing_of_the_request_is_left_out() -> None:
    plan = RefinedPlan(confidence=0.8, steps=("Ask the keeper", "Consider the options", "Light the lantern"))
    kept, note = of_request(plan, "Who keeps the lantern?", 200)
    assert kept == RefinedPlan(confidence=0.8, steps=("Ask the keeper", "Light the lantern"))
    assert note == "1 of 3 steps are cut or name nothing of the request; they were left out"


def test_a_step_that_was_cut_at_its_limit_is_left_out() -> None:
    longest = step_characters(stage_form("plan", 320).contract)
    cut = f"Fill the lantern {'x' * longest}"[:longest]
    assert of_request(Plan(steps=(cut,)), "Fill the lantern", longest)[0] is None
    assert of_request(Plan(steps=(cut[:-1],)), "Fill the lantern", longest) == (Plan(steps=(cut[:-1],)), "")


def test_the_order_that_a_request_begins_with_is_nothing_of_it() -> None:
    request = "Answer with only the number: how many strings has a cello?"
    plan = Plan(steps=("answer", "Count the strings of a cello"))
    assert of_request(plan, request, 200)[0] == Plan(steps=("Count the strings of a cello",))
    assert of_request(Plan(steps=("answer",)), "Hello", 200)[0] is None


def test_a_verdict_names_the_file_of_a_model_and_not_its_path() -> None:
    said = verdict_text(Verification(outcome="success", summary="done"), "/models/tiny.gguf", "lite", proven=False)
    assert said == (
        "unverified: tiny.gguf says success (done), but has not shown that it can tell; "
        "gaiad models probe lite measures it"
    )


def test_a_request_without_words_of_its_own_says_nothing_of_the_steps() -> None:
    plan = Plan(steps=("Say hello",))
    for request in ("And then?", "我姐姐叫什么名字"):
        assert of_request(plan, request, 200) == (plan, "")
