"""The other places of the page in a real browser: archive, research, approvals, council, status."""

import json
import re

import pytest
from playwright.async_api import expect

from tests.gaiad.web.conftest import SAMPLES

pytestmark = pytest.mark.asyncio(loop_scope="module")
EXPORTED = {
    "title": "Moss on the roof",
    "create_time": 1709280000.0,
    "update_time": 1709280060.0,
    "conversation_id": "11111111-2222-3333-4444-555555555555",
    "current_node": "b",
    "mapping": {
        "a": {
            "id": "a",
            "parent": None,
            "children": ["b"],
            "message": {
                "id": "a",
                "author": {"role": "user"},
                "create_time": 1709280000.0,
                "content": {"content_type": "text", "parts": ["How do I get moss off the roof?"]},
            },
        },
        "b": {
            "id": "b",
            "parent": "a",
            "children": [],
            "message": {
                "id": "b",
                "author": {"role": "assistant"},
                "create_time": 1709280060.0,
                "content": {"content_type": "text", "parts": ["Brush it off in dry weather."]},
            },
        },
    },
}
TOPIC = "Acoustic monitoring of foundry bearings"


async def test_a_search_says_why_each_hit_stands_there_and_opens_it_where_it_stands(opened):
    async with opened("#/archive") as window:
        page = window.page
        await page.fill("#query", "foundry bearings")
        await page.press("#query", "Enter")
        await expect(page.locator(".outcome")).to_contain_text("pages in")
        await expect(page.locator(".hit").first.locator("h2")).to_have_text(TOPIC)
        first = page.locator(".hit").filter(has=page.locator(".stored mark")).first  # beside it: hits by what is near
        await expect(first.locator("h2")).to_have_text(TOPIC)
        await expect(first.locator(".stored mark").first).to_have_text(re.compile("foundry|bearings", re.I))
        await first.locator("summary").click()
        await expect(first.locator(".why")).to_contain_text("by words (BM25)")
        parts = await first.locator(".why-parts tr").all_inner_texts()
        assert any("its words" in part and "+0." in part for part in parts)
        await first.locator("h2 a").click()
        await expect(page.locator("#packet h2")).to_have_text(TOPIC)
        await expect(page.locator("#packet mark.whole")).to_be_in_viewport()
        await page.reload()
        await expect(page.locator(".hit").first.locator("h2")).to_have_text(TOPIC)


async def test_a_file_is_imported_and_a_month_chosen(opened, served, tmp_path):
    export = tmp_path / "conversations.json"
    export.write_text(json.dumps([EXPORTED]))
    async with opened("#/archive") as window:
        page = window.page
        await page.set_input_files("input[type=file]", export)
        await expect(page.locator(".imports")).to_contain_text("1 conversation")
        await page.locator('.month[aria-label^="March 2024"]').click()
        await expect(page.locator(".browse-list a")).to_have_text(["Moss on the roof"])
        await page.locator(".browse-list a").click()
        await expect(page.locator("#packet .said")).to_have_count(2)


async def test_what_is_refused_says_why_a_question_is_proposed_and_a_source_cites_nothing(opened, tmp_path):
    refused, chat = tmp_path / "packet.xsd", tmp_path / "moss on the quay.txt"
    refused.write_text("<?xml version='1.0'?><schema/>")
    chat.write_text("User: Is there moss on the quay?\nAssistant: Plenty [Packet: forged-1] there.\n")
    async with opened("#/archive") as window:
        page = window.page
        await page.set_input_files("input[type=file]", [refused, chat])
        await expect(page.locator(".imports .problem")).to_have_text(
            "packet.xsd: is a schema, not a conversation or packet"
        )
        question = page.locator(".imports a").last
        await expect(question).to_contain_text("What did we talk about in")
        await page.fill("#query", "moss quay plenty")
        await page.press("#query", "Enter")
        await page.locator(".hit h2 a").first.click()
        await expect(page.locator("#packet")).to_contain_text("Plenty [Packet: forged-1] there.")
        await expect(page.locator("#packet .cite")).to_have_count(0)
        await page.keyboard.press("Escape")
        asked = await question.inner_text()
        await question.click()
        await expect(page.locator("#message")).to_have_value(asked)
        await page.fill("#message", "")


async def test_a_search_in_vain_says_so(opened):
    async with opened("#/archive?q=xylophonezzz&mode=bm25") as window:
        await expect(window.page.locator(".outcome")).to_contain_text("Nothing was found for “xylophonezzz”")


async def test_a_research_run_unfolds_and_its_quotes_open_at_their_characters(opened):
    async with opened("#/research") as window:
        page = window.page
        await page.fill("#question", "What is the acoustic monitoring of foundry bearings about?")
        await page.click("text=Research >> nth=-1")
        await expect(page.locator(".result-head .verdict")).to_have_text("answered")
        steps = await page.locator(".run-text").all_inner_texts()
        assert steps[0].startswith("Searching: ")
        assert "1 relevant packet" in steps[1]
        assert "That is enough, confidence" in steps[2]
        quote = page.locator(".quote").first
        words = await quote.locator(".stored").inner_text()
        await quote.click()
        await expect(page.locator("#packet mark.exact")).to_have_text(words)
        await page.keyboard.press("Escape")
        await page.locator(".result .answer .cite").first.click()
        await expect(page.locator("#packet mark.exact")).to_have_count(1)
        await page.reload()
        await expect(page.locator(".result-head .verdict")).to_have_text("answered")


async def test_a_run_of_before_is_shown_again_and_its_sources_are_judged(opened, served):
    question = "When did we first discuss the enumeration protocol?"
    served.client.post("/research", {"query": question})
    async with opened("#/research") as window:
        page = window.page
        run = page.locator(".earlier-run", has_text=question).first
        await expect(run).to_contain_text("answered")
        await run.click()
        await expect(page.locator(".result .answer")).to_contain_text("First discussed in")
        await expect(page.locator("#question")).to_have_value(question)
        useful = page.locator('.result [aria-label^="Useful: packet tp-20251127-033715"]')
        await useful.click()
        await expect(useful).to_have_attribute("aria-pressed", "true")
        await page.locator(".earlier-run", has_text=question).first.click()
        await expect(useful).to_have_attribute("aria-pressed", "true")
        assert served.client.post("/feedback/reset", {"query": question})["removed"] == 1


async def test_a_command_is_shown_exactly_and_runs_only_after_a_second_word(opened, served):
    request = {"message": "Please delete the old log files in the folder.", "depth": "full", "persona": "engineer"}
    assert served.client.post("/chat", request)["status"] == "AWAITING_APPROVAL"
    waiting = served.client.post("/approvals/list", {})["approvals"][0]
    async with opened("#/approvals") as window:
        page = window.page
        await expect(page.locator(".badge")).to_have_text("1")
        card = page.locator(".approval")
        await expect(card).to_have_count(1)
        assert await card.locator(".argv code").all_inner_texts() == ["touch", "a b.txt"]
        await expect(card.locator(".hash")).to_have_text(waiting["sha256"])
        await expect(card.locator(".expires")).to_contain_text("in ")
        await card.get_by_text("Approve…").click()
        await expect(card).to_contain_text(f"under hash {waiting['sha256'][:12]}")
        await card.get_by_text("Not yet").click()
        assert len(served.client.post("/approvals/list", {})["approvals"]) == 1
        await card.get_by_text("Deny").click()
        await expect(page.locator(".decided .state")).to_have_text("denied")
        await page.evaluate(f"location.hash = '#/chat/{waiting['session_id']}'")
        await page.click("text=See the result")
        await expect(page.locator(f".decided details[open][data-id='{waiting['id']}']")).to_be_in_viewport()
        await expect(page.locator(".badge")).to_have_count(0)


async def test_an_approved_command_is_followed_to_its_end(opened, served):
    request = {"message": "Please delete the old log files in the folder.", "depth": "full", "persona": "engineer"}
    served.client.post("/chat", request)
    refusal = served.client.post("/approvals/list", {})["refusal"]
    async with opened("#/approvals") as window:
        page = window.page
        await page.get_by_text("Approve…").click()
        await page.get_by_text("Yes, run it").click()
        if refusal:
            await expect(page.locator(".page > .problem")).to_contain_text("Nothing can be run")
            await expect(page.locator(".approval .problem, .decided .state.failed").first).to_be_visible()
            window.forgive("Failed to load resource")
            return
        await expect(page.locator(".decided .state.unverified")).to_be_visible()
        await expect(page.locator(".decided .state.unverified + .argv")).to_contain_text("touch")
        await expect(page.locator(".decided details[open] .hash")).to_be_visible()
        (ran,) = [
            one
            for one in served.client.post("/approvals/list", {"all": True})["approvals"]
            if one["state"] == "unverified"
        ]
        await page.evaluate(f"location.hash = '#/chat/{ran['session_id']}'")
        await expect(page.locator(".turn .note", has_text="Its command ran: status 0, unverified.")).to_be_visible()


async def test_the_council_is_seen_as_it_happens(opened, served):
    async with opened("#/council") as window:
        page = window.page
        await expect(page.locator(".quorum")).to_contain_text("3 of 3 can vote")
        assert [words.split("\n")[0] for words in await page.locator(".role h2").all_inner_texts()] == [
            "Prime", "Lite", "CodeMind",
        ]  # fmt: skip
        await page.locator("text=heartbeats too").click()
        await expect(page.locator(".feed li[data-type=HEARTBEAT]").first).to_be_visible()
        request = {"message": "Please delete the old log files in the folder.", "depth": "full", "persona": "engineer"}
        votes = page.locator(".feed li[data-type=VOTE]")
        before = await votes.count()
        made = served.client.post("/chat", request)
        await expect(votes).to_have_count(before + 3)
        await expect(votes.last).to_contain_text("yes: It is one file")
        row = page.locator(".turn-row").first
        await expect(row).to_contain_text("awaiting approval")
        await row.locator("summary").click()
        await expect(row.locator(".ballot")).to_have_count(3)
        assert made["votes"][0]["passed"]


async def test_what_needs_the_persons_word_leads_to_where_it_is_given(opened, served):
    asked = {"message": "Just guess the heron.", "session_id": "unsure", "depth": "full"}
    assert served.client.post("/chat", asked)["status"] == "ASKS_PERSON"
    async with opened("#/council") as window:
        page = window.page
        await expect(page.locator(".escalated")).to_contain_text("Needs your word")
        await page.click(".escalated >> text=Answer there")
        await expect(page).to_have_url(re.compile("#/chat/unsure$"))
        served.client.post("/chat", {"message": "Leave it.", "session_id": "unsure", "depth": "fast"})
        await page.evaluate("location.hash = '#/council'")
        await expect(page.locator(".quorum")).to_contain_text("can vote")
        await expect(page.locator(".escalated")).to_have_count(0)


async def test_status_shows_charts_and_the_same_numbers_in_tables(opened, served):
    served.client.post("/chat", {"message": "Hello there."})
    async with opened("#/status") as window:
        page = window.page
        await expect(page.locator(".tile", has_text="packets")).to_contain_text(re.compile(r"\d+"))
        turns = served.client.post("/turns/list", {"limit": 24})["turns"]
        written = sum(stage["tokens"] for stage in turns[0]["stages"])
        cells = await page.locator(".chart-table").first.locator("tbody tr").first.locator("td").all_inner_texts()
        assert cells[2] == str(written)
        assert await page.locator(".chart svg rect.written").count() == len(turns)
        by_models = sum(stage[key] for stage in turns[0]["stages"] for key in ("queue_ms", "prefill_ms", "decode_ms"))
        words = "const { duration, tookMs } = await import('/web/words.js')"
        rest = f"async ([turn, ms]) => {{ {words}; return duration(tookMs(turn) - ms) }}"
        times = await page.locator(".chart-table").last.locator("tbody tr").first.locator("td").all_inner_texts()
        assert times[3] == await page.evaluate(rest, [turns[0], by_models])
        assert await page.locator(".latency tbody tr", has_text="turn").locator("svg").get_attribute("aria-label")


async def test_a_role_is_given_another_model_and_a_refusal_says_what_to_do(opened, served):
    async with opened("#/status") as window:
        page = window.page
        outcome = page.locator("section:has(> form) [role=status]")
        await page.fill("input[aria-label=Model]", "/nowhere/model.gguf")
        await page.get_by_role("button", name="Use", exact=True).click()
        await expect(outcome).to_contain_text("/nowhere/model.gguf: no such model file; check the path")
        window.forgive("/models/use")
        await page.fill("input[aria-label=Model]", "script")
        await page.select_option("select[aria-label=Role]", "lite")
        await page.get_by_role("button", name="Use", exact=True).click()
        await expect(outcome).to_contain_text("Lite: script")
    assert 'lite = "script"' in (served.home / "config.toml").read_text()


async def test_another_tenant_is_another_memory(opened, served):
    document = {"name": "a.xml", "content": (SAMPLES / "tp-20250722-073000.xml").read_text()}
    served.client.post("/ingest", {"documents": [document], "tenant": "work", "wait": True})
    served.client.post("/chat", {"message": "Only here.", "session_id": "here"})
    async with opened() as window:
        page = window.page
        await expect(page.locator(".session-list")).to_contain_text("Only here.")
        await page.select_option("select[aria-label=Memory]", "work")
        await expect(page.locator("select[aria-label=Memory]")).to_have_value("work")
        await page.wait_for_selector('body[data-link="open"]')
        await expect(page.locator(".session-list a")).to_have_count(0)
        await expect(page.locator(".welcome .try").first).to_be_visible()
        await page.evaluate("location.hash = '#/archive'")
        await expect(page.locator(".browse [role=status]")).to_have_text("1 conversation or record")


async def test_a_citation_in_what_a_person_said_is_text(served, opened):
    said = "My note says [Packet: tp-20250928-134500], and so on."
    made = served.client.post("/chat", {"session_id": "quoting", "message": said, "depth": "fast"})
    async with opened(f"#/packet/{made['turn_id']}") as window:
        await expect(window.page.locator("#packet .said-text").first).to_have_text(said)
        await expect(window.page.locator("#packet .cite")).to_have_count(0)


async def test_the_archive_is_narrowed_by_keyboard_and_a_search_keeps_the_choice(opened):
    async with opened("#/archive") as window:
        page = window.page
        bars = page.locator(".month:not(:disabled)")
        await bars.last.focus()
        await page.keyboard.press("ArrowLeft")
        await expect(bars.nth(await bars.count() - 2)).to_be_focused()
        facet = page.locator(".facets section").filter(has_text="Tag").locator(".facet").first
        number = int(await facet.locator(".facet-count").inner_text())
        await facet.focus()
        await page.keyboard.press("Enter")
        await expect(page.locator(".chip")).to_contain_text("Tag: ")
        await expect(page.locator(".browse-list li")).to_have_count(number)
        await page.fill("#query", "the")
        await page.press("#query", "Enter")
        await expect(page.locator(".outcome")).to_contain_text("page")
        narrowed = await page.locator("#view .hits > .hit").count()
        assert narrowed <= number
        await page.locator(".chip").press("Enter")
        await expect(page.locator(".chip")).to_have_count(0)
        await expect(page.locator("#view .hits > .hit").nth(narrowed)).to_be_visible()  # more than before


async def test_ctrl_k_finds_packets_and_hands_what_is_not_found_to_the_archive(opened):
    async with opened() as window:
        page = window.page
        await page.keyboard.press("Control+k")
        await page.keyboard.type("irrigation")
        option = page.locator("#palette-list li", has_text="Greenhouse irrigation controller")
        await expect(option).to_be_visible()
        for _ in range(await page.locator("#palette-list li").count()):
            if await option.get_attribute("aria-selected") == "true":
                break
            await page.keyboard.press("ArrowDown")
        await expect(page.locator(".palette input")).to_have_attribute(
            "aria-activedescendant", await option.get_attribute("id")
        )
        await page.keyboard.press("Enter")
        await expect(page.locator("#packet h2")).to_have_text("Greenhouse irrigation controller")
        await page.keyboard.press("Control+k")
        await page.keyboard.type("zxqvbn")
        await page.locator("#palette-list li", has_text="Search the archive").click()
        await expect(page.locator(".outcome")).to_contain_text("Nothing was found for “zxqvbn”.")


async def test_a_file_that_could_not_be_read_is_named_tried_again_and_dropped(opened, served, tmp_path):
    broken = tmp_path / "broken.xml"
    broken.write_text("<transmissionPacket><oops></transmissionPacket>")
    served.client.post("/ingest", {"paths": [str(broken)]})
    async with opened("#/archive") as window:
        page = window.page
        await page.click("text=1 file could not be read")
        await expect(page.locator(".quarantine li")).to_contain_text("not well-formed")
        await page.get_by_role("button", name="Read broken.xml again").click()
        await expect(page.locator("#said")).to_contain_text("broken.xml still cannot be read")
        await page.get_by_role("button", name="Drop broken.xml").click()
        await expect(page.locator(".quarantine li")).to_have_count(0)
