"""What real templates make of conversations, and that no content can pass for a part of a template."""

import jinja2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaiad.models.tokens.chat_template import CHATML, PLAIN, ChatTemplate, TemplateProblem
from gaiad.wire.generation import ChatMessage, Segment
from tests.makers.chat_templates import CHATML as REAL_CHATML
from tests.makers.chat_templates import GEMMA, LLAMA2, LLAMA3, LLAMA31, MISTRAL, MISTRAL_V3, PARTS, QWEN3, REAL

LITERALS = [
    "<|im_start|>",
    "<|im_end|>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "<start_of_turn>",
    "<|eot_id|>",
    "</think>",
]
PIECES = st.one_of(
    st.sampled_from([*LITERALS, "\n", " ", "{{ bos_token }}", "{% raw %}", "\u2003"]), st.text(max_size=8)
)
TEXTS = st.lists(PIECES, max_size=8).map("".join)


def template(source):
    return ChatTemplate(source, "<s>", "</s>", lambda form: f"date({form})")


def messages(*pairs):
    return [ChatMessage(role=role, content=[Segment(text)]) for role, text in pairs]


def text(segments):
    return "".join(segment.text for segment in segments)


def trusted(segments):
    return "".join(segment.text for segment in segments if segment.trusted)


TALK = messages(("system", "Be brief."), ("user", "Hi"), ("assistant", "Hello."), ("user", "Why?"))


def test_chatml():
    segments, change = template(REAL_CHATML).render(TALK)
    assert not change
    assert text(segments) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello."
        "<|im_end|>\n<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n"
    )
    assert [segment.text for segment in segments if not segment.trusted] == ["Be brief.", "Hi", "Hello.", "Why?"]


def test_the_default_chatml_is_what_models_write_themselves():
    assert template(CHATML).render(TALK) == template(REAL_CHATML).render(TALK)


def test_the_plain_default_trims_and_names_the_roles():
    segments, _ = template(PLAIN).render(messages(("system", " S\n"), ("user", "U")))
    assert text(segments) == "<s>System: S\n\nUser: U\n\nAssistant:"


def test_a_template_that_trims_has_the_real_content_trimmed():
    segments, _ = template(LLAMA3).render(messages(("user", "\n  Hi there \t\n")))
    assert text(segments) == (
        "<s><|start_header_id|>user<|end_header_id|>\n\nHi there<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
    )


def test_a_template_that_strips_line_ends_alone_leaves_spaces():
    source = "{% for m in messages %}a{{ m.content.strip('\n') }}b\n{% endfor %}"
    assert text(template(source).render(messages(("user", "\n\n x \n")))[0]) == "a x b\n"
    kept = "{% for m in messages %}a\n{{ m.content }}\n\nb{% endfor %}"
    assert text(template(kept).render(messages(("user", "\n\n x \n")))[0]) == "a\n\n\n x \n\n\nb"


def test_trimming_goes_through_segments_that_are_white_space_alone():
    content = [Segment(" \n"), Segment("  trusted ", trusted=True), Segment("x", source="p1"), Segment("\n")]
    segments, _ = template(LLAMA3).render([ChatMessage(role="user", content=content)])
    assert segments[1:3] == [Segment("trusted ", trusted=True), Segment("x", source="p1")]
    assert segments[3].text.startswith("<|eot_id|>")


def test_only_the_end_is_trimmed_where_the_template_trims_more_than_a_content_as_one():
    written = text(template(LLAMA2).render(messages(("system", " S "), ("user", " U ")))[0])
    assert written == "<s>[INST] <<SYS>>\n S \n<</SYS>>\n\n U [/INST]"


def test_the_date_is_asked_for_where_a_template_wants_it_and_the_system_text_stands_in_its_place():
    written = text(template(LLAMA31).render(TALK)[0])
    assert "Today Date: date(%d %b %Y)\n\nBe brief.<|eot_id|>" in written


def test_a_system_message_that_is_refused_goes_to_the_user_message_and_that_is_told():
    segments, change = template(GEMMA).render(TALK)
    assert text(segments).startswith(
        "<s><start_of_turn>user\nBe brief.\n\nHi<end_of_turn>\n<start_of_turn>model\nHello."
    )
    assert "system text moved into the user message after it" in change
    assert "System role not supported" in change


def test_a_system_message_alone_becomes_a_user_message():
    assert text(template(GEMMA).render(messages(("system", "S")))[0]).startswith(
        "<s><start_of_turn>user\nS<end_of_turn>"
    )


def test_neighbours_of_one_role_are_joined_for_a_template_that_wants_turns():
    talk = messages(("system", "S"), ("user", "one"), ("user", "two"), ("assistant", "three"), ("user", "four"))
    segments, change = template(MISTRAL).render(talk)
    assert text(segments) == "<s>[INST] S\n\none\n\ntwo [/INST]three</s>[INST] four [/INST]"
    assert "joined" in change


def test_a_conversation_that_fits_no_shape_is_refused_in_the_templates_own_words():
    with pytest.raises(TemplateProblem, match="must alternate"):
        template(MISTRAL).render(messages(("assistant", "I speak first"), ("user", "no")))


def test_a_template_may_put_messages_in_another_order():
    assert text(template(MISTRAL_V3).render(TALK)[0]) == "<s>[INST] Hi[/INST] Hello.</s>[INST] Be brief.\n\nWhy?[/INST]"


def test_a_template_that_leaves_a_message_out_or_repeats_one_is_named():
    with pytest.raises(TemplateProblem, match=r"leaves out message 1 \(system\)"):
        template("{{ messages[-1].content }}").render(TALK)
    with pytest.raises(TemplateProblem, match=r"writes message 1 \(user\) more than once"):
        template("{{ messages[0].content }}{{ messages[0].content }}").render(messages(("user", "x")))


def test_a_template_that_knows_parts_alone_gets_parts():
    assert text(template(PARTS).render(TALK)[0]) == "system:Be brief.;user:Hi;assistant:Hello.;user:Why?;"


def test_an_empty_content_is_empty_for_the_template_too():
    source = "{% for m in messages %}[{% if m.content %}{{ m.content }}{% else %}nothing{% endif %}]{% endfor %}"
    segments, _ = template(source).render([*messages(("user", "")), *messages(("user", "x"))])
    assert text(segments) == "[nothing][x]"


def test_tags_and_filters_of_the_transformers_library():
    source = (
        "{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}{% generation %}{{ m.content }}"
        "{% endgeneration %}{% endfor %}{{ {'a': '<é>'} | tojson }}{{ messages[0].content }}"
    )
    assert text(template(source).render(messages(("user", "A"), ("user", "B")))[0]) == 'B{"a": "<é>"}A'


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("{% if %}", "not a Jinja template"),
        ("{{ messages.__class__.__mro__ }}", "unsafe"),
        ("{{ ().__class__.__base__.__subclasses__() }}", "unsafe"),
        ("{% include '/etc/passwd' %}", "loader"),
        ("{{ 9 ** 9 ** 9 }}", "is not allowed in a chat template"),
        ("{{ messages.append(1) }}", "unsafe"),
        ("{{ unknown.thing }}", "unknown"),
        ("{{ 1 / 0 }}", "ZeroDivisionError"),
        (
            "{% for a in range(99999) %}{% for b in range(99999) %}xxxxxxxxxx{% endfor %}{% endfor %}",
            "more than 1000000",
        ),
        ("{% for a in range(10 * 1000 * 1000) %}x{% endfor %}", "Range too big"),
    ],
)
def test_what_a_template_must_not_do_is_said_in_words(source, words):
    with pytest.raises(TemplateProblem, match=words):
        template(source).render(messages(("user", "x")))


@pytest.mark.parametrize("name", REAL)
@settings(max_examples=25)
@given(parts=st.lists(TEXTS, min_size=1, max_size=4), second=TEXTS)
def test_no_content_gains_trust_and_nothing_of_it_is_lost(name, parts, second):
    first = ChatMessage(role="user", content=[Segment(part) for part in parts])
    segments, _ = template(REAL[name]).render([first, *messages(("assistant", second), ("user", "end"))])
    short = messages(
        ("user", "A" if text(first.content) else ""), ("assistant", "B" if second else ""), ("user", "end")
    )
    bare, _ = template(REAL[name]).render(short)
    assert trusted(segments) == trusted(bare), "a content became a part of the template"
    theirs = "".join(segment.text for segment in segments if not segment.trusted)
    assert "".join(theirs.split()) == "".join(("".join(parts) + second + "end").split())


@pytest.mark.parametrize("name", sorted(set(REAL) - {"qwen3", "deepseek_r1"}))
@settings(max_examples=25)
@given(first=TEXTS, second=TEXTS)
def test_plain_words_are_written_as_jinja_itself_would_write_them(name, first, second):
    talk = messages(("user", first), ("assistant", second), ("user", "end"))
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    expected = environment.from_string(REAL[name]).render(
        messages=[{"role": message.role, "content": text(message.content)} for message in talk],
        bos_token="<s>",
        eos_token="</s>",
        add_generation_prompt=True,
        strftime_now=lambda form: f"date({form})",
    )
    assert text(template(REAL[name]).render(talk)[0]) == expected


def test_a_template_that_looks_into_contents_sees_plain_words():
    written = text(
        template(QWEN3).render(messages(("user", "a"), ("assistant", "<think>t</think>b"), ("user", "c")))[0]
    )
    assert "<|im_start|>assistant\n<think>t</think>b<|im_end|>" in written, "kept as its author wrote it"
