"""The chat in a real browser: an answer while it is written, what it stands on, and that nothing said is ever lost."""

import asyncio
import re

import pytest
from playwright.async_api import expect

from tests.gaiad.web.conftest import NASTY, QUOTED, SLOW

pytestmark = pytest.mark.asyncio(loop_scope="module")

AFTER_IT = "Mara hears it two days before. The question was what exactly she hears."
"""The rest of its paragraph, which is cited as a whole."""


async def say(page, words, depth=""):
    if depth:
        await page.select_option("select[aria-label=Depth]", depth)
    await page.fill("#message", words)
    await page.press("#message", "Enter")


async def answered(page):
    await page.wait_for_selector(".turn:last-child:not(.running) .foot")
    return await page.inner_text(".turn:last-child .answer")


async def test_an_answer_is_shown_while_it_is_written_with_the_council_at_work(opened):
    async with opened() as window:
        page = window.page
        await say(page, "Please tell me slowly.", "full")
        await expect(page.locator(".doing")).to_contain_text("Prime is writing the answer")
        await expect(page.locator(".stage-seconds")).to_have_text(re.compile(r"^\d+ s$"))
        await expect(page.locator(".answer")).to_contain_text("word3")
        assert "the end" not in await page.inner_text(".answer")
        assert (await page.locator(".stage-mark").all_inner_texts())[:3] == ["plan", "refine", "answer"]
        assert await answered(page) == f"{SLOW} That is the end."
        await page.click(".work > summary")
        steps = await page.inner_text(".steps")
        assert "Lite planned" in steps
        assert "CodeMind found no fault, but has not shown that it can tell" in steps
        assert "It stands in the packet." in steps


async def test_a_citation_opens_its_packet_at_the_quoted_words(opened):
    async with opened() as window:
        page = window.page
        await say(page, "What did we say about the bearings?")
        assert QUOTED in await answered(page)
        await page.click(".answer .cite")
        await expect(page.locator("#packet mark.exact")).to_have_text(f"{QUOTED} {AFTER_IT}")
        await expect(page.locator("#packet mark.exact")).to_be_in_viewport()
        await page.keyboard.press("Escape")
        await expect(page.locator("#packet")).to_be_hidden()
        assert await page.evaluate("document.activeElement.className") == "cite"
        await expect(page.locator(".source").first).to_contain_text("Acoustic monitoring of foundry bearings")


async def test_a_message_sent_while_the_page_opens_is_shown_once(opened):
    async with opened() as window:
        page, hold = window.page, asyncio.Event()

        async def later(route):
            await hold.wait()
            await route.continue_()

        await page.route("**/turns/running*", later)
        await page.route("**/turns/start", later)
        await page.reload()
        await page.wait_for_selector("#message")
        await say(page, "Please write to me early.", "fast")
        await expect(page.locator(".turn")).to_have_count(1)
        hold.set()
        assert await answered(page) == "Write to [e-mail], or to [e-mail]."
        assert await page.locator(".turn").count() == 1


async def test_what_a_model_writes_is_text_and_never_markup(opened):
    async with opened() as window:
        await say(window.page, "Now be nasty.")
        assert NASTY.split("[Packet")[0].strip() in await answered(window.page)
        assert await window.page.locator(".answer :is(img, script, b, i, a)").count() == 0


async def test_what_hides_in_a_text_is_seen_and_does_not_act(opened):
    async with opened() as window:
        page = window.page
        await say(page, "Where\u202e is\u200b it?")
        await expect(page.locator(".asked .hidden-sign")).to_have_text(["U+202E", "U+200B"])
        assert "\u202e" not in await page.locator("body").inner_text()


async def test_what_is_left_out_on_this_channel_is_said(opened):
    async with opened() as window:
        await say(window.page, "Tell me how to write to me, please write to me")
        assert await answered(window.page) == "Write to [e-mail], or to [e-mail]."
        await expect(window.page.locator(".under")).to_contain_text("Left out on this channel: 2 e-mail addresses.")
        await window.page.reload()
        assert await answered(window.page) == "Write to [e-mail], or to [e-mail]."


async def test_a_retracted_answer_is_struck_through_and_then_gone(opened):
    async with opened() as window:
        page = window.page
        await say(page, "Please say it twice.", "fast")
        await expect(page.locator(".struck del")).to_contain_text("This is how it is done")
        await expect(page.locator("#said-now")).to_contain_text("retracted")
        assert await answered(page) == "Better said with care."
        await expect(page.locator(".struck")).to_be_hidden()
        assert "This is how" not in await page.inner_text(".turn .answer")


async def test_a_reload_in_the_middle_loses_nothing_said_and_nothing_typed(opened):
    async with opened() as window:
        page = window.page
        await say(page, "Once more, tell me slowly.", "fast")
        await expect(page.locator(".answer")).to_contain_text("word2")
        await page.fill("#message", "and then")
        await page.reload()
        await expect(page.locator(".turn.running .answer")).to_contain_text("word0. Now comes word1.")
        assert await page.input_value("#message") == "and then"
        assert await answered(page) == f"{SLOW} That is the end."
        assert await page.locator(".turn").count() == 1
        await page.reload()
        assert await answered(page) == f"{SLOW} That is the end."


async def test_an_answer_is_stopped_by_its_button_and_asked_again(opened):
    async with opened() as window:
        page = window.page
        await say(page, "This time tell me slowly.", "fast")
        await expect(page.locator(".answer")).to_contain_text("word1")
        await page.click(".stop")
        await expect(page.locator(".turn .problem")).to_contain_text("Stopped")
        await page.click("text=Ask again")
        await expect(page.locator(".turn.running .answer")).to_contain_text("word0")
        await page.keyboard.press("Control+.")
        await expect(page.locator(".turn.running")).to_have_count(0)


async def test_a_session_of_the_list_shows_what_was_said_in_it(opened, served):
    answer = served.client.post("/chat", {"message": "Remember the heron.", "session_id": "heron"})
    assert answer["answer"] == "I heard you."
    async with opened() as window:
        await window.page.click(".session-list a:has-text('Remember the heron')")
        await expect(window.page.locator(".asked")).to_have_text("You said: Remember the heron.")
        await expect(window.page.locator(".answer")).to_have_text("I heard you.")
        await window.page.click(".work > summary")
        await expect(window.page.locator(".steps")).to_contain_text("Prime wrote the answer")


async def test_a_daemon_that_goes_and_comes_back_is_waited_for_and_what_was_typed_is_kept(opened, served):
    async with opened() as window:
        page = window.page
        await asyncio.to_thread(served.stop)
        try:
            await expect(page.locator("#banner")).to_contain_text("gaiad is not answering")
            await say(page, "I am back.")
            await expect(page.locator(".unsent")).to_contain_text("Not sent: gaiad is away")
            await page.fill("#message", "and a draft")
        finally:
            await asyncio.to_thread(served.start)
        await expect(page.locator("#banner")).to_be_hidden()
        assert await page.locator(".turn").count() == 0, "nothing is sent without the person's wish"
        await page.reload()
        await page.wait_for_selector('body[data-link="open"]')
        assert await page.input_value("#message") == "and a draft"
        await expect(page.locator(".unsent")).to_contain_text("It is sent only when you press Send.")
        await page.click(".unsent button:text-is('Send')")
        assert await answered(page) == "I heard you."
        assert await page.locator(".unsent").count() == 0
        window.forgive("net::ERR_")


async def test_an_answer_that_a_restart_cut_off_is_said_to_be_no_whole_one(opened, served):
    async with opened() as window:
        page = window.page
        await say(page, "Before the end tell me slowly.", "fast")
        await expect(page.locator(".answer")).to_contain_text("word2")
        await asyncio.to_thread(served.stop)
        await expect(page.locator(".stop")).to_be_hidden()
        await asyncio.to_thread(served.start)
        await expect(page.locator(".turn .problem")).to_contain_text("before")
        await expect(page.locator(".turn.running")).to_have_count(0)
        await page.click("text=Ask again")
        await expect(page.locator(".turn.running .answer")).to_contain_text("word0")
        window.forgive("Failed to load resource")


async def test_a_message_that_was_stopped_before_its_first_word_stays_and_can_be_asked_again(opened):
    async with opened() as window:
        page = window.page
        await say(page, "So late the heron.", "fast")
        await expect(page.locator(".turn.running .stop")).to_be_visible()
        await page.click(".stop")
        await expect(page.locator(".turn .problem")).to_contain_text("Stopped")
        await page.reload()
        await expect(page.locator(".turn .asked")).to_contain_text("So late the heron.")
        await expect(page.locator(".turn .problem")).to_contain_text("Stopped before its end")
        await expect(page.locator(".session-list a[aria-current]")).to_contain_text("So late the heron.")
        await page.click("text=Ask again")
        await expect(page.locator(".turn.running")).to_have_count(1)
        await page.keyboard.press("Control+.")
        await expect(page.locator(".turn.running")).to_have_count(0)


async def test_a_conversation_is_called_by_what_was_said_first_in_it(opened, served):
    for words in ("First the kestrel.", "Then the wren."):
        served.client.post("/chat", {"message": words, "session_id": "birds"})
    async with opened() as window:
        await expect(window.page.locator(".session-list a[href='#/chat/birds']")).to_contain_text("First the kestrel.")


async def test_escape_leaves_a_field_so_that_keys_mean_places_again(opened):
    async with opened("#/archive") as window:
        page = window.page
        await page.click("#query")
        await page.keyboard.press("Escape")
        await page.keyboard.press("6")
        await expect(page).to_have_url(re.compile("#/status$"))


async def test_an_empty_memory_is_said_to_be_empty(opened, served):
    async with opened() as window:
        page = window.page
        await expect(page.locator(".welcome .try").first).to_have_text(
            "What is “Forward context: the Researcher pilot after the committee's review” about?"
        )
        await expect(page.locator(".welcome .try")).to_have_text(
            [re.compile("What is"), re.compile("first"), "Show me all conversations from December 2025."]
        )
        await page.route(
            "**/status?*", lambda route: route.fulfill(json={"packets": 0, "tenants": ["local"], "degraded": []})
        )
        await page.reload()
        await expect(page.locator(".welcome")).to_contain_text("Import your conversations")
        await expect(page.locator(".welcome .try")).to_have_count(0)


async def test_a_conversation_is_deleted_where_it_is_listed_and_comes_back(opened):
    async with opened() as window:
        page = window.page
        await say(page, "Remember the godwit.")
        await answered(page)
        listed = page.locator(".session-list a", has_text="Remember the godwit.")
        await expect(page.locator(".sessions .label").first).to_have_text("Today")
        await page.get_by_role("button", name="Delete Remember the godwit.").click()
        await page.get_by_role("button", name="Delete", exact=True).click()
        await expect(listed).to_have_count(0)
        await expect(page.locator(".welcome")).to_be_visible()
        await expect(page.get_by_role("button", name="Undo")).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(listed).to_have_count(1)
        await listed.click()
        await expect(page.locator(".turns")).to_contain_text("Remember the godwit.")


async def test_a_conversation_is_renamed_where_it_is_listed(opened):
    async with opened() as window:
        page = window.page
        await say(page, "Remember the bittern.")
        await answered(page)
        await page.click(".session-list .rename")
        await page.fill(".session-name", "Birds of the reeds")
        await page.keyboard.press("Enter")
        await expect(page.locator(".session-list a[aria-current]")).to_contain_text("Birds of the reeds")
        await page.click(".session-list .rename")
        await page.fill(".session-name", "Never this")
        await page.keyboard.press("Escape")
        await page.reload()
        await expect(page.locator(".session-list a[aria-current]")).to_contain_text("Birds of the reeds")
